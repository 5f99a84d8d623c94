"""Sums, differences and products of small numbers, with the working shown.

prompt    7+12+20=
solution  <think>7+12=19;19+20=39</think><answer>39</answer>
answer    39
"""

from __future__ import annotations

import dataclasses
import random
from typing import ClassVar

from rlvr_jax.tasks.base import (
    TASKS,
    GeneratedSplit,
    SplitName,
    check_characters,
    check_int,
    check_share,
    worked,
)
from rlvr_jax.types import Problem

APPLY = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b}
SLIPS = (-10, -2, -1, 1, 2, 10)  # a carry lost or gained, a miscount


@TASKS.register("arithmetic")
@dataclasses.dataclass(frozen=True)
class Arithmetic:
    """Chains of + - * over integers 1..max_operand, products first.

    min_operands, max_operands: operands a problem has, drawn evenly from this range.
    operations: some of "+-*", each drawn evenly.
    size_train, size_test: problems in each split; test problems are distinct, and no test problem
        is a reordering of a train problem.
    solution_error_rate: probability that one step of a *train* solution slips by 1, 2 or 10; the
        wrong value is carried on, so a chain of n steps ends right with about (1 - rate)^n.
        Answers, and the test split's solutions, are always right.
    """

    min_operands: int = 3
    max_operands: int = 3
    max_operand: int = 20
    operations: str = "+"
    size_train: int = 100_000
    size_test: int = 256
    solution_error_rate: float = 0.0
    seed: int = 0

    reward: ClassVar[str] = "numeric"

    def __post_init__(self):
        check_int("arithmetic", "min_operands", self.min_operands, 2)
        check_int("arithmetic", "max_operands", self.max_operands, self.min_operands, 32)
        check_int("arithmetic", "max_operand", self.max_operand, 1, 10**9)
        check_characters("arithmetic", "operations", self.operations, tuple(APPLY))
        check_int("arithmetic", "size_train", self.size_train, 1)
        check_int("arithmetic", "size_test", self.size_test, 1)
        check_int("arithmetic", "seed", self.seed, 0)
        check_share("arithmetic", "solution_error_rate", self.solution_error_rate)

    def split(self, name: SplitName) -> GeneratedSplit:
        """The problems of "train" or "test"."""
        size = self.size_test if name == "test" else self.size_train
        return GeneratedSplit(self, name, size, self.seed)

    def draw(self, rng: random.Random, name: SplitName) -> tuple[object, Problem]:
        """(content that decides the split, problem) from `rng`."""
        count = rng.randint(self.min_operands, self.max_operands)
        numbers = [rng.randint(1, self.max_operand) for _ in range(count)]
        signs = [rng.choice(self.operations) for _ in range(count - 1)]
        slips = random.Random(rng.getrandbits(64))  # apart: the rate must not move the problems
        rate = self.solution_error_rate if name == "train" else 0.0
        _, value = solve(numbers, signs, slips, 0.0)
        steps, claimed = solve(numbers, signs, slips, rate)
        problem = Problem(
            prompt=chain(numbers, signs) + "=",
            answer=str(value),
            solution=worked(";".join(steps), str(claimed)),
            index=0,
            meta={"operands": tuple(numbers), "operations": "".join(signs)},
        )
        return [sorted(numbers), sorted(signs)], problem


def chain(numbers: list[int], signs: list[str]) -> str:
    """The expression as text."""
    return str(numbers[0]) + "".join(s + str(n) for s, n in zip(signs, numbers[1:], strict=True))


def solve(
    numbers: list[int], signs: list[str], rng: random.Random, error_rate: float
) -> tuple[list[str], int]:
    """(steps as text, value): products first, then left to right, one operation a step.

    Each step's result slips with probability `error_rate` and is carried on.
    """
    numbers, signs = list(numbers), list(signs)
    steps = []
    while signs:
        at = signs.index("*") if "*" in signs else 0
        a, b, sign = numbers[at], numbers[at + 1], signs[at]
        value = APPLY[sign](a, b)
        if rng.random() < error_rate:
            slip = rng.choice(SLIPS)
            value += abs(slip) if 0 <= value < -slip else slip  # no sign no one would write
        steps.append(f"{a}{sign}{b}={value}")
        numbers[at : at + 2] = [value]
        del signs[at]
    return steps, numbers[0]
