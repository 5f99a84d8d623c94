"""One way to grade, whether the reward runs inline or in workers.

with make_grader(reward, workers=2) as grader:
    pending = grader.submit(completions, problems)
    verdicts = pending.result()
"""

from __future__ import annotations

from collections.abc import Sequence

from rlvr_jax.rewards.base import Reward
from rlvr_jax.rewards.pool import Pending, PoolStats, RewardPool
from rlvr_jax.types import Completion, Problem, Verdict


class InlineGrader:
    """The interface of `RewardPool` for cheap pure rewards, without processes.

    An exception in the reward is a fault of the reward, which `could not tell`: it is counted in
    `stats.errors` and kept in `stats.last_error`.
    """

    def __init__(self, reward: Reward):
        if reward.in_worker:
            raise ValueError(f"{reward.label} must run in a worker: use make_grader")
        self.reward = reward
        self.stats = PoolStats()

    def submit(self, completions: Sequence[Completion], problems: Sequence[Problem]) -> Pending:
        """Grade at once; same return type as `RewardPool.submit`."""
        pending = Pending(len(completions))
        pairs = zip(completions, problems, strict=True)
        verdicts = [self._one(completion, problem) for completion, problem in pairs]
        pending.set(range(len(verdicts)), verdicts)
        return pending

    def _one(self, completion: Completion, problem: Problem) -> Verdict:
        self.stats.jobs += 1
        try:
            return self.reward(completion, problem)
        except Exception as error:  # counted; an unknown verdict is masked out of training
            self.stats.errors += 1
            self.stats.last_error = f"{type(error).__name__}: {error}"
            return Verdict(status="unknown", reason="checker_error", stage="inline")

    def grade(
        self, completions: Sequence[Completion], problems: Sequence[Problem]
    ) -> list[Verdict]:
        """Grade and return the verdicts in order."""
        return self.submit(completions, problems).result()

    def close(self) -> None:
        """Nothing to end."""

    def __enter__(self) -> InlineGrader:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def make_grader(
    reward: Reward,
    workers: int = 2,
    deadline_s: float | None = None,
    memory_mb: int | None = None,
) -> InlineGrader | RewardPool:
    """The grader a reward asks for (`reward.in_worker`).  Close it, or use it in a `with`."""
    if not reward.in_worker:
        return InlineGrader(reward)
    return RewardPool(reward, workers=workers, deadline_s=deadline_s, memory_mb=memory_mb)


def grade_all(
    reward: Reward,
    completions: Sequence[Completion],
    problems: Sequence[Problem],
    workers: int = 2,
    deadline_s: float | None = None,
) -> list[Verdict]:
    """Grade one list and end the workers, if any: for scripts and tests."""
    with make_grader(reward, workers=workers, deadline_s=deadline_s) as grader:
        return grader.grade(completions, problems)
