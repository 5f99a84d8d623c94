"""Sorting, counting and reversal of short lists, with lengths that can differ in the test split.

prompt    sort 7 3 9: | count 3 in 3 7 3: | reverse 7 3 9:
solution  <think>3<7<9</think>... (see each kind)
answer    3 7 9       | 2                 | 9 3 7
"""

from __future__ import annotations

import dataclasses
import random
from typing import ClassVar

from rlvr_jax.tasks.base import TASKS, GeneratedSplit, SplitName, check_int, worked
from rlvr_jax.types import Problem

KINDS = ("sort", "count", "reverse")


@TASKS.register("sequence")
@dataclasses.dataclass(frozen=True)
class Sequence:
    """Lists of numbers 0..max_value.

    kind: "sort" (ascending), "count" (how often the first number occurs), "reverse".
    min_length, max_length: items, drawn evenly.
    test_max_length: of the test split, to study length generalisation; 0 means as in training.
    size_train, size_test: problems in each split; no test list is a train list in another order.
    """

    kind: str = "sort"
    min_length: int = 4
    max_length: int = 6
    max_value: int = 9
    test_max_length: int = 0
    size_train: int = 100_000
    size_test: int = 256
    seed: int = 0

    reward: ClassVar[str] = "sequence"

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ValueError(
                f'task sequence: kind is "{self.kind}", allowed are {", ".join(KINDS)}'
            )
        check_int("sequence", "min_length", self.min_length, 1)
        check_int("sequence", "max_length", self.max_length, self.min_length, 1000)
        check_int("sequence", "max_value", self.max_value, 1, 10**9)
        if self.test_max_length:
            check_int("sequence", "test_max_length", self.test_max_length, self.min_length, 1000)
        check_int("sequence", "size_train", self.size_train, 1)
        check_int("sequence", "size_test", self.size_test, 1)
        check_int("sequence", "seed", self.seed, 0)

    def split(self, name: SplitName) -> GeneratedSplit:
        """The problems of "train" or "test"."""
        size = self.size_test if name == "test" else self.size_train
        return GeneratedSplit(self, name, size, self.seed)

    def draw(self, rng: random.Random, name: SplitName) -> tuple[object, Problem]:
        """(content that decides the split, problem) from `rng`."""
        longest = self.test_max_length if name == "test" else 0
        count = rng.randint(self.min_length, longest or self.max_length)
        numbers = [rng.randint(0, self.max_value) for _ in range(count)]
        thought, answer = solve(self.kind, numbers)
        shown = " ".join(map(str, numbers))
        ask = f"count {numbers[0]} in {shown}:" if self.kind == "count" else f"{self.kind} {shown}:"
        problem = Problem(prompt=ask, answer=answer, solution=worked(thought, answer), index=0)
        return sorted(numbers), problem


def solve(kind: str, numbers: list[int]) -> tuple[str, str]:
    """(working, answer)."""
    if kind == "reverse":
        return "from the end", " ".join(map(str, reversed(numbers)))
    if kind == "sort":
        ordered = sorted(numbers)
        tally = [f"{n} x{ordered.count(n)}" for n in sorted(set(ordered))]
        return ", ".join(tally), " ".join(map(str, ordered))
    seen = 0
    steps = []
    for number in numbers:
        seen += number == numbers[0]
        steps.append(f"{number}:{seen}")
    return " ".join(steps), str(seen)
