"""A list as the answer: the same items in the same order."""

from __future__ import annotations

import dataclasses
import re

from rlvr_jax.rewards.base import REWARDS, Example, Reward, check_finite
from rlvr_jax.rewards.dress import undress
from rlvr_jax.rewards.extract import check_places, extract
from rlvr_jax.types import Completion, Problem, Verdict

MAX_CHARS = 10_000


def items(text: str) -> list[str]:
    """The items of a list: parted by commas, semicolons or blanks; one pair of brackets dropped,
    and what `undress` drops; a typeset minus is a minus."""
    text = undress(text).replace("−", "-")
    if len(text) > 1 and text[0] + text[-1] in ("[]", "()", "{}"):
        text = text[1:-1]
    return [item.strip("\"'") for item in re.split(r"[\s,;]+", text) if item]


@REWARDS.register("sequence")
@dataclasses.dataclass(frozen=True)
class Sequence(Reward):
    """Pays for the items of the gold answer in its order, to the letter.

    extract: where the answer may stand (see "numeric").  right, wrong: what it earns.
    """

    extract: tuple[str, ...] = ("answer_tag", "boxed", "hashes")
    right: float = 1.0
    wrong: float = 0.0

    def __post_init__(self):
        check_places(self.extract)
        check_finite(right=self.right, wrong=self.wrong)

    def __call__(self, completion: Completion, problem: Problem) -> Verdict:
        gold = items(problem.answer)
        if not gold:
            return Verdict(status="unknown", reason="bad_gold", stage="gold", gold=problem.answer)
        found = extract(completion.text, self.extract)
        reason = "no_answer" if found is None else "" if found else "empty"
        if not reason:
            same = len(found) <= MAX_CHARS and items(found) == gold
            reason = "" if same else "mismatch"
        return Verdict(
            status="wrong" if reason else "scored",
            score=self.wrong if reason else self.right,
            reason=reason,
            parts={"correct": float(not reason)},
            stage="items" if found else "extract",
            extracted=found,
            gold=" ".join(gold),
        )

    @classmethod
    def example(cls) -> Example:
        problem = Problem(prompt="Sort 3 1 2.", answer="1 2 3", index=0)
        return Example(cls(), problem, "<answer>[1, 2, 3]</answer>", "<answer>1 3 2</answer>")
