"""A reward that has nothing to do with the answer: the control for spurious rewards.

Shao et al. 2025 (arXiv:2506.10947), "Spurious Rewards": some models improve under it.
"""

from __future__ import annotations

import dataclasses
import hashlib

from rlvr_jax.rewards.base import REWARDS, Example, Reward
from rlvr_jax.types import Completion, Problem, Verdict


def coin(seed: int, completion: Completion, problem: Problem) -> float:
    """A uniform number in [0, 1), fixed by the seed, the problem's index and the sampled ids (the
    text where there are none)."""
    said = repr(completion.token_ids) if completion.token_ids else completion.text
    key = f"{seed}|{problem.index}|{said}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(key).digest()[:7], "big") / 2**56


@REWARDS.register("random")
@dataclasses.dataclass(frozen=True)
class RandomReward(Reward):
    """Pays 1 with probability p, whatever the text says; two equal samples of a problem agree."""

    p: float = 0.5
    seed: int = 0

    def __post_init__(self):
        if not 0.0 <= self.p <= 1.0:
            raise ValueError(f"p must be a probability between 0 and 1, got {self.p!r}")

    def __call__(self, completion: Completion, problem: Problem) -> Verdict:
        pays = float(coin(self.seed, completion, problem) < self.p)
        return Verdict(status="scored", score=pays, parts={"random": pays}, stage="random")

    @classmethod
    def example(cls) -> Example:
        problem = Problem(prompt="3 + 4?", answer="7", index=0)
        return Example(cls(), problem, right=None)
