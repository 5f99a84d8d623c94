"""What the data tell before the first step: prompts that are too long, text the tokenizer cannot
spell, golds the reward cannot read.

Met in the middle of a run each of these costs hours, or goes unnoticed.  Everything that comes from
a file is looked at, up to `MOST` problems of a split (the longest ones); of a generator the first
`Split.preview`.  Nothing is sampled and no worker is started, so a reward that judges in workers is
asked only what it can say at once (`Reward.gold_fault`): `math` whether it can parse the gold,
`code` whether the tests can be read, but not whether a program passes them; a user's own function
is not called.
"""

from __future__ import annotations

import dataclasses
import heapq
import logging
from collections.abc import Sequence
from typing import Any

from rlvr_jax.config import RunConfig
from rlvr_jax.phrase import check_limits, resolve
from rlvr_jax.tasks.base import Split
from rlvr_jax.text import (
    encode_prompt,
    encode_prompts,
    name_characters,
    stop_ids,
    unknown_characters,
    unknown_id,
)
from rlvr_jax.types import Problem

log = logging.getLogger(__name__)

MOST = 20_000  # problems of a split that are looked at: some ten seconds
FEW = 0.01  # share of prompts with unknown characters up to which a warning will do


@dataclasses.dataclass(frozen=True)
class Part:
    """The problems of a split that are looked at."""

    name: str  # train | test
    split: Split
    problems: Sequence[Problem]

    def fault(self, found: Sequence[Problem], says: str) -> str:
        """One line on the first of the problems that have a fault, and how many there are."""
        return (
            f"{self.place(found[0])}: {says} (this fault is in {len(found)} of the "
            f"{len(self.problems)} problems looked at)"
        )

    def place(self, problem: Problem) -> str:
        return f"{self.split.where(problem.index)} ({self.name})"


def part_of(name: str, split: Split, count: int) -> Part:
    """The first `count` problems, as far as they are looked at."""
    problems = [split[i] for i in range(min(count, len(split), split.preview))]
    if len(problems) > MOST:
        problems = heapq.nlargest(MOST, problems, key=lambda p: len(prompt_text(p)))
    return Part(name, split, problems)


def check_data(config: RunConfig, tokenizer: Any, train: Split, test: Split) -> int:
    """Look at what a run will meet, an interruption's room and a curriculum's data first; how many
    problems that was.  ValueError, with file and line,
    for the first fault of a kind."""
    found = resolve(config.interruption, tokenizer, stop_ids(tokenizer, config.text.stop))
    check_limits(found, (config.decode.max_new_tokens, *config.rollout.limits))
    note_curriculum(config, len(train))
    parts = [part_of("train", train, len(train)), part_of("test", test, config.eval.problems)]
    for part in parts:
        check_prompts(config, tokenizer, part)
        if part.name == "test" or "rl" in config.stages:
            check_golds(config.reward, part)
        if part.name == "train" and "sft" in config.stages:
            note_solutions(tokenizer, part)
    return sum(len(part.problems) for part in parts)


def note_curriculum(config: RunConfig, count: int) -> None:
    """A warning where the pass rates of prompts are remembered and none comes twice."""
    asked = config.rl.steps * config.rollout.prompts
    if "rl" in config.stages and config.curriculum.active and asked <= count:
        log.warning(
            "the curriculum has nothing to do: %d steps of %d prompts meet each of %d problems "
            "once at most (unless dynamic sampling draws more)",
            *(config.rl.steps, config.rollout.prompts, count),
        )


def check_prompts(config: RunConfig, tokenizer: Any, part: Part) -> None:
    """Every prompt can be encoded, fits, and is spelt without the unknown token."""
    rows, limit = _encoded(config, tokenizer, part), config.decode.max_prompt_tokens
    pairs = list(zip(part.problems, rows, strict=True))
    long = [(problem, len(ids)) for problem, ids in pairs if len(ids) > limit]
    if long:
        says = (
            f"the prompt has {long[0][1]} tokens, decode.max_prompt_tokens allows {limit}; the "
            f"longest has {max(size for _, size in long)}"
        )
        raise ValueError(part.fault([problem for problem, _ in long], says))
    unknown = unknown_id(tokenizer)
    strange = [problem for problem, ids in pairs if unknown is not None and unknown in ids]
    if strange:
        letters = unknown_characters(tokenizer, prompt_text(strange[0]))
        what = name_characters(letters) or tokenizer.unk_token
        says = part.fault(strange, f'tokenizer "{config.tokenizer}" has no token for {what}')
        if len(strange) > FEW * len(part.problems):
            raise ValueError(says)
        log.warning("%s; the model reads %s there", says, tokenizer.unk_token)


def _encoded(config: RunConfig, tokenizer: Any, part: Part) -> list[list[int]]:
    try:
        return encode_prompts(tokenizer, part.problems, config.text)
    except ValueError:
        for problem in part.problems:  # which one was it
            try:
                encode_prompt(tokenizer, problem, config.text)
            except ValueError as error:
                raise ValueError(f"{part.place(problem)}: {error}") from None
        raise


def check_golds(reward: Any, part: Part) -> None:
    """The reward can read the gold answers."""
    faults = [(p, fault) for p in part.problems if (fault := reward.gold_fault(p))]
    if faults:
        says = f"{reward.label} cannot read the gold answer: {faults[0][1]}"
        raise ValueError(part.fault([problem for problem, _ in faults], says))


def note_solutions(tokenizer: Any, part: Part) -> None:
    """A warning where demonstrations hold characters that the model cannot write."""
    solved = [p for p in part.problems if p.solution]
    letters = set(unknown_characters(tokenizer, "".join({c for p in solved for c in p.solution})))
    found = [p for p in solved if letters & set(p.solution)]
    if found:
        what = name_characters("".join(sorted(letters & set(found[0].solution))))
        says = part.fault(found, f"the tokenizer has no token for {what} of the solution")
        log.warning("%s; the model learns to write %s", says, tokenizer.unk_token)


def prompt_text(problem: Problem) -> str:
    """All text of a prompt, roles left out."""
    if isinstance(problem.prompt, str):
        return problem.prompt
    return "\n".join(message["content"] for message in problem.prompt)
