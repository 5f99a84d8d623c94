"""Which prompts are worth sampling: what the run remembers of each, and what it leaves out.

The memory is a plain dict, saved with the run's place: problem index -> [judged samples, solved].
Positions of the training stream that are left out are skipped; the cursor moves past them.
"""

from __future__ import annotations

import dataclasses

from rlvr_jax.rollout import Judged
from rlvr_jax.tasks.base import addressed_rng
from rlvr_jax.types import Problem

Pool = dict[str, list[int]]


@dataclasses.dataclass(frozen=True)
class CurriculumConfig:
    """A prompt's pass rate is that of all its judged samples so far."""

    retire_at: float | None = None  # leave out prompts from this pass rate on (ScaleRL: 0.9)
    retire_below: float = 0.0  # leave out prompts with a pass rate below
    min_samples: int = 8  # judged samples before a pass rate counts
    prioritised: bool = False  # sample with probability 1 - pass rate (Kimi k1.5, sec. 2.3.4)

    def __post_init__(self):
        high = 1.0 if self.retire_at is None else self.retire_at
        if not 0 <= self.retire_below < high <= 1 or self.min_samples < 1:
            raise ValueError(
                "curriculum needs 0 <= retire_below < retire_at <= 1 and min_samples >= 1; got "
                f"{self.retire_below}, {self.retire_at}, {self.min_samples}"
            )

    @property
    def active(self) -> bool:
        return self.prioritised or self.retire_at is not None or self.retire_below > 0


@dataclasses.dataclass(frozen=True)
class Curriculum:
    """rollout.Chooser over a memory that it fills."""

    config: CurriculumConfig
    pool: Pool
    seed: int

    def admits(self, position: int, problem: Problem) -> bool:
        """Whether this position of the stream is sampled.  The same for the same memory, so that a
        resumed run takes the same prompts."""
        c = self.config
        samples, solved = self.pool.get(str(problem.index), (0, 0))
        if samples < c.min_samples:
            return True
        rate = solved / samples
        if rate < c.retire_below or (c.retire_at is not None and rate >= c.retire_at):
            return False
        return not c.prioritised or addressed_rng("pool", self.seed, position).random() >= rate

    def remember(self, judged: Judged) -> None:
        """Add the outcomes of a rollout to the memory."""
        samples_N = judged.valid_NG.sum(1)
        solved_N = (judged.correct_NG & judged.valid_NG).sum(1)
        for problem, samples, solved in zip(judged.problems, samples_N, solved_N, strict=True):
            before = self.pool.get(str(problem.index), [0, 0])
            self.pool[str(problem.index)] = [before[0] + int(samples), before[1] + int(solved)]
