"""One problem, or a few, for ever: training on almost no data.

Wang et al. 2025, "Reinforcement learning for reasoning with one training example"
(arXiv:2504.20571).
"""

from __future__ import annotations

import dataclasses
import functools

from rlvr_jax.tasks.base import TASKS, Split, SplitName, check_int, check_split, content_hash
from rlvr_jax.types import Problem


@dataclasses.dataclass(frozen=True)
class Shots:
    """`size` problems that are the first `shots` ones from `first` on, over and over."""

    split: Split
    first: int
    shots: int
    size: int

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Problem:
        if not 0 <= index < self.size:
            raise IndexError(f"problem {index} of a split of {self.size}")
        problem = self.split[self.first + index % self.shots]
        return dataclasses.replace(problem, index=index)

    def fingerprint(self) -> str:
        """Of the inner split and the choice."""
        return content_hash([self.split.fingerprint(), self.first, self.shots, self.size])


@TASKS.register("one_shot")
@dataclasses.dataclass(frozen=True)
class OneShot:
    """Trains on `shots` problems of another task, tests on that task's whole test split.

    task: its name; it has its defaults.  first: index of the first problem that is used.
    size_train: how long the train split is, which repeats the problems.
    """

    task: str = "arithmetic"
    first: int = 0
    shots: int = 1
    size_train: int = 1024

    def __post_init__(self):
        check_int("one_shot", "first", self.first, 0)
        check_int("one_shot", "shots", self.shots, 1)
        check_int("one_shot", "size_train", self.size_train, self.shots)
        if self.task == "one_shot":
            raise ValueError("task one_shot: task must be another task")
        TASKS[self.task]

    @functools.cached_property
    def inner(self):
        """The task the problems are from."""
        return TASKS.make(self.task)

    @property
    def reward(self) -> str:
        """The inner task's reward."""
        return self.inner.reward

    def split(self, name: SplitName) -> Split:
        """The repeated problems, or the inner test split."""
        check_split(name)
        inner = self.inner.split(name)
        if name == "test":
            return inner
        if self.first + self.shots > len(inner):
            raise ValueError(
                f"task one_shot: problems {self.first}..{self.first + self.shots - 1} of a split "
                f"of {len(inner)}"
            )
        return Shots(inner, self.first, self.shots, self.size_train)
