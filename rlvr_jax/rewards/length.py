"""Rewards for how long a completion is, on top of whether it is right.  Lengths are in tokens."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from rlvr_jax.rewards.base import REWARDS, Example, check_finite
from rlvr_jax.rewards.wrapper import Wrapper, named_reward
from rlvr_jax.types import Completion, Problem, Verdict

KINDS = ("overlong", "cosine", "kimi", "target")


def overlong(tokens: int, max_tokens: int, cache: int) -> float:
    """DAPO's soft overlong punishment (arXiv:2503.14476, eq. 13): 0 up to max_tokens - cache, then
    linear to -1 at max_tokens, -1 beyond."""
    return min(0.0, max(-1.0, (max_tokens - cache - tokens) / cache))


def cosine(tokens: int, max_tokens: int, at_zero: float, at_max: float) -> float:
    """Half a cosine from `at_zero` to `at_max` (Yeo et al. 2025, arXiv:2502.03373, section 4.1);
    beyond max_tokens it stays at `at_max`."""
    share = min(1.0, tokens / max_tokens)
    return at_max + 0.5 * (at_zero - at_max) * (1.0 + math.cos(math.pi * share))


def kimi(tokens: int, shortest: int, longest: int, right: bool) -> float:
    """Kimi k1.5's length reward (arXiv:2501.12599, section 2.3.3): 0.5 - (len - min) / (max - min)
    within a group; for wrong answers at most 0; 0 where all are equally long."""
    if longest == shortest:
        return 0.0
    value = 0.5 - (tokens - shortest) / (longest - shortest)
    return value if right else min(0.0, value)


@REWARDS.register("length")
@dataclasses.dataclass(frozen=True)
class Length(Wrapper):
    """The score of another reward with a term for the length in tokens.

    overlong: adds weight * (0 .. -1) in the last `cache` tokens before max_tokens.
    cosine: replaces the score: a right answer earns from `right_short` (no tokens) to `right_long`
        (max_tokens), a wrong one from `wrong_short` to `wrong_long`.
    kimi: adds weight * (0.5 .. -0.5), the shortest of the problem's completions in the batch best.
    target: subtracts weight * min(1, |tokens - max_tokens| / max_tokens), for exact lengths.
    reward: the wrapped reward, as in "compose".
    """

    kind: str = "overlong"
    reward: str = "numeric"
    max_tokens: int = 1024
    cache: int = 256
    weight: float = 1.0
    right_short: float = 2.0
    right_long: float = 1.0
    wrong_short: float = -10.0
    wrong_long: float = 0.0

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ValueError(f'length: got kind "{self.kind}", allowed are {", ".join(KINDS)}')
        if self.max_tokens < 1 or (
            self.kind == "overlong" and not 0 < self.cache <= self.max_tokens
        ):
            raise ValueError(
                f"length: 0 < cache <= max_tokens must hold, got {self.cache}, {self.max_tokens}"
            )
        ends = ("weight", "right_short", "right_long", "wrong_short", "wrong_long")
        check_finite(**{name: getattr(self, name) for name in ends})
        named_reward(self.reward)

    @property
    def names(self) -> tuple[str, ...]:
        return (self.reward,)

    def combine(
        self,
        completions: Sequence[Completion],
        problems: Sequence[Problem],
        verdicts: Sequence[Sequence[Verdict | None]],
    ) -> list[Verdict]:
        spans: dict[tuple[int, str], list[int]] = {}
        keys = [(problem.index, repr(problem.prompt)) for problem in problems]
        for key, completion, verdict in zip(keys, completions, verdicts[0], strict=True):
            if verdict.status != "unknown":
                spans.setdefault(key, []).append(completion.num_tokens)
        rows = zip(completions, keys, verdicts[0], strict=True)
        return [self._one(c.num_tokens, verdict, spans.get(key, [])) for c, key, verdict in rows]

    def _one(self, tokens: int, verdict: Verdict, group: list[int]) -> Verdict:
        if verdict.status == "unknown":
            return verdict
        right = verdict.correct
        if self.kind == "cosine":
            ends = (
                (self.right_short, self.right_long)
                if right
                else (
                    self.wrong_short,
                    self.wrong_long,
                )
            )
            term = cosine(tokens, self.max_tokens, *ends)
            score = term
        else:
            term = self.weight * self._term(tokens, right, group)
            score = verdict.score + term
        parts = dict(verdict.parts) | {"correct": float(right), "length": term}
        return dataclasses.replace(verdict, score=score, parts=parts)

    def _term(self, tokens: int, right: bool, group: list[int]) -> float:
        if self.kind == "overlong":
            return overlong(tokens, self.max_tokens, self.cache)
        if self.kind == "kimi":
            return kimi(tokens, min(group), max(group), right)
        return -min(1.0, abs(tokens - self.max_tokens) / self.max_tokens)

    @classmethod
    def example(cls) -> Example:
        problem = Problem(prompt="3 + 4?", answer="7", index=0)
        return Example(cls(), problem, "<answer>7</answer>", wrong="<answer>8</answer>")
