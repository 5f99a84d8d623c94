"""One way to grade, whether the reward runs inline or in workers.

with make_grader(reward, workers=2) as grader:
    pending = grader.submit(completions, problems)
    verdicts = pending.result()
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence

from rlvr_jax.rewards.base import Reward
from rlvr_jax.rewards.pool import Pending, PoolStats, RewardPool
from rlvr_jax.rewards.wrapper import Wrapper, spread
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
        if self.reward.whole_batch and completions:
            verdicts = self._all(completions, problems)
        else:
            pairs = zip(completions, problems, strict=True)
            verdicts = [self._one(completion, problem) for completion, problem in pairs]
        pending.set(range(len(verdicts)), verdicts)
        return pending

    def _all(self, completions: Sequence[Completion], problems: Sequence[Problem]) -> list[Verdict]:
        self.stats.jobs += 1
        try:
            return self.reward.grade_batch(completions, problems)
        except Exception as error:  # counted, unless the reward wants the run to stop
            if self.reward.errors_stop:
                raise
            self.stats.errors += 1
            self.stats.last_error = f"{type(error).__name__}: {error}"
            unknown = Verdict(status="unknown", reason="checker_error", stage="inline")
            return [unknown] * len(completions)

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


class WrapperGrader:
    """Graders of a wrapper's inner rewards, each as it runs alone; the same interface."""

    def __init__(self, reward: Wrapper, graders: Sequence[InlineGrader | RewardPool]):
        self.reward, self._graders = reward, tuple(graders)

    @property
    def stats(self) -> PoolStats:
        """The inner graders' counts, added up."""
        each = [grader.stats for grader in self._graders]
        total = PoolStats()
        for field in dataclasses.fields(PoolStats):
            values = [getattr(stats, field.name) for stats in each]
            joined = "; ".join(filter(None, values)) if field.name == "last_error" else sum(values)
            setattr(total, field.name, joined)
        total.busy_s = max((stats.busy_s for stats in each), default=0.0)
        return total

    def submit(self, completions: Sequence[Completion], problems: Sequence[Problem]) -> _Combined:
        """Begin to grade with every inner reward."""
        completions, problems = list(completions), list(problems)
        if len(completions) != len(problems):
            raise ValueError(f"{len(completions)} completions for {len(problems)} problems")
        given = self.reward.prepare(problems)
        parts = []
        for name, grader in zip(self.reward.names, self._graders, strict=True):
            chosen = self.reward.select(name, problems)
            places = range(len(given)) if chosen is None else chosen
            pending = grader.submit([completions[i] for i in places], [given[i] for i in places])
            parts.append((places, pending))
        return _Combined(self.reward, completions, problems, parts)

    def grade(
        self, completions: Sequence[Completion], problems: Sequence[Problem]
    ) -> list[Verdict]:
        """Grade and wait."""
        return self.submit(completions, problems).result()

    def close(self) -> None:
        """End the inner graders' workers."""
        with contextlib.ExitStack() as stack:
            for grader in self._graders:
                stack.callback(grader.close)

    def __enter__(self) -> WrapperGrader:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


@dataclasses.dataclass(frozen=True)
class _Combined:
    """The interface of `Pending` over those of the inner rewards."""

    reward: Wrapper
    completions: list[Completion]
    problems: list[Problem]
    parts: list[tuple[Sequence[int], Pending | _Combined]]

    def done(self) -> bool:
        return all(pending.done() for _, pending in self.parts)

    def result(self, timeout: float | None = None) -> list[Verdict]:
        """The combined verdicts in order; `timeout` bounds the wait for each inner reward."""
        size = len(self.completions)
        rows = [spread(places, pending.result(timeout), size) for places, pending in self.parts]
        return self.reward.combine(self.completions, self.problems, rows)


def make_grader(
    reward: Reward,
    workers: int = 2,
    deadline_s: float | None = None,
    memory_mb: int | None = None,
) -> InlineGrader | RewardPool | WrapperGrader:
    """The grader a reward asks for (`reward.in_worker`).  Close it, or use it in a `with`."""
    if isinstance(reward, Wrapper):
        with contextlib.ExitStack() as stack:
            graders = [
                stack.enter_context(make_grader(inner, workers, deadline_s, memory_mb))
                for inner in reward.inner
            ]
            stack.pop_all()
        return WrapperGrader(reward, graders)
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
