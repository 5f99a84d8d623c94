"""What a reward is, and the registry of rewards.

A reward is a frozen dataclass: its fields are its configuration, calling it grades one completion.
It is pure and deterministic: the verdict depends on the completion, the problem and the fields.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from rlvr_jax.registry import Registry
from rlvr_jax.types import Completion, Problem, Verdict

REWARDS = Registry("reward")

# An answer in every place where one is looked for (extract.py).
PLAIN = Completion(
    text="The answer is 0.\n#### 0\n\\boxed{0}\n<answer>0</answer>", token_ids=(0,), num_tokens=1
)


@dataclasses.dataclass(frozen=True)
class Example:
    """A worked case, by which the contract tests (and readers) know an entry.

    reward: an instance.  problem: what is asked.  right: a completion that earns more than 0, or
    None where the text does not matter.  wrong: a completion that must not be accepted, or None.
    """

    reward: Reward
    problem: Problem
    right: str | None
    wrong: str | None = None


class Reward:
    """Base of all rewards.  Override `__call__`; override `grade_batch` only if the batch matters.

    The class attributes say how `pool.make_grader` runs the reward:

    in_worker: True: in killable worker processes, with a deadline (symbolic work, foreign code).
               False: inline; the code is ours and its time is bounded by the length guard.
    whole_batch: True: one call grades a whole batch (user functions); False: item by item.
    errors_stop: True: an exception or a missed deadline stops the run with one clear line.
                 False: a missed deadline is a wrong answer, an exception is "could not tell".
    deadline_s: wall seconds for one call in a worker.  memory_mb: its address space, 0 = no limit.
    preload: modules that are imported once, before workers fork.
    """

    in_worker: ClassVar[bool] = False
    whole_batch: ClassVar[bool] = False
    errors_stop: ClassVar[bool] = False
    deadline_s: ClassVar[float] = 2.0
    memory_mb: ClassVar[int] = 2048
    preload: ClassVar[tuple[str, ...]] = ()

    @property
    def label(self) -> str:
        """How messages call the reward."""
        return f"reward {type(self).__name__}"

    @property
    def files(self) -> tuple[str, ...]:
        """The user's files that decide its verdicts, where they can be told."""
        return ()

    @property
    def models(self) -> tuple[str, ...]:
        """Folders and hub names of models that must be served while the reward grades."""
        return ()

    def __call__(self, completion: Completion, problem: Problem) -> Verdict:
        raise NotImplementedError(f"{type(self).__name__} does not grade single completions")

    def grade_batch(
        self, completions: Sequence[Completion], problems: Sequence[Problem]
    ) -> list[Verdict]:
        """One verdict a completion, in order."""
        return [self(c, p) for c, p in zip(completions, problems, strict=True)]

    def warm_up(self) -> None:
        """Runs once in each new worker before its clock starts (imports, tables)."""

    def quick(self, completion: Completion, problem: Problem) -> Verdict | None:
        """The verdict where it can be had in bounded time without a worker, else None."""
        return None

    def gold_fault(self, problem: Problem) -> str:
        """Why no answer to the problem could be judged, "" where one can: the gold is unreadable.

        Asked of every problem of the data before a run begins, so only what is cheap is asked: how
        the reward judges a plain answer, without a worker.  A reward that judges in workers says
        nothing by default (its `quick` does not know), nor does one that takes whole batches.
        """
        if self.whole_batch:
            return ""
        try:
            verdict = self.quick(PLAIN, problem) if self.in_worker else self(PLAIN, problem)
        except Exception as error:  # what the grader would count as "could not tell", every time
            return f"{type(error).__name__}: {error}"
        if verdict is None or verdict.status != "unknown":
            return ""
        gold = problem.answer if verdict.gold is None else verdict.gold
        return f"{gold!r:.80} ({verdict.reason})"

    @classmethod
    def example(cls) -> Example:
        """A worked case of this reward."""
        raise NotImplementedError(f"{cls.__name__} has no example")


def check_finite(**fields: float) -> None:
    """ValueError for a field that is not a finite number."""
    for name, value in fields.items():
        if not isinstance(value, int | float) or not abs(value) < float("inf"):
            raise ValueError(f"{name} must be a finite number, got {value!r}")
