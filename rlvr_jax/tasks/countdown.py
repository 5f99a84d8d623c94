"""Countdown: reach a target with the given numbers, each used exactly once.

prompt    Make 54 from 3, 7, 25 with + - * / and parentheses, each number once.
solution  <think>25-7=18;18*3=54</think><answer>(25-7)*3</answer>
answer    54                       (any expression of that value is right)
"""

from __future__ import annotations

import dataclasses
import random
from typing import ClassVar, NamedTuple

from rlvr_jax.tasks.base import MAX_DRAWS, TASKS, GeneratedSplit, SplitName, check_int, worked
from rlvr_jax.types import Problem


class Term(NamedTuple):
    """A value, the expression that gives it, and how tightly that binds (0 sum, 1 product, 2)."""

    value: int
    text: str
    binds: int


@TASKS.register("countdown")
@dataclasses.dataclass(frozen=True)
class Countdown:
    """Numbers 1..max_number and a target 1..max_target, solvable by construction.

    The target is what a random combination of all numbers gives, with positive whole values
    throughout (a division is only drawn where it is exact).
    wording: the prompt; holds "{numbers}" and "{target}".  The default reads well to a pretrained
        model; a character model is served better by "{numbers} -> {target}: ".
    size_train, size_test: problems in each split; test problems are distinct, and no test problem
        is a reordering of a train problem.
    """

    num_numbers: int = 3
    max_number: int = 25
    max_target: int = 100
    wording: str = "Make {target} from {numbers} with + - * / and parentheses, each number once."
    size_train: int = 100_000
    size_test: int = 256
    seed: int = 0

    reward: ClassVar[str] = "countdown"

    def __post_init__(self):
        check_int("countdown", "num_numbers", self.num_numbers, 2, 8)
        check_int("countdown", "max_number", self.max_number, 1, 10**6)
        check_int("countdown", "max_target", self.max_target, 1, 10**9)
        check_int("countdown", "size_train", self.size_train, 1)
        check_int("countdown", "size_test", self.size_test, 1)
        check_int("countdown", "seed", self.seed, 0)
        for part in ("{numbers}", "{target}"):
            if part not in self.wording:
                raise ValueError(f"task countdown: wording lacks {part}: {self.wording!r}")

    def split(self, name: SplitName) -> GeneratedSplit:
        """The problems of "train" or "test"."""
        size = self.size_test if name == "test" else self.size_train
        return GeneratedSplit(self, name, size, self.seed)

    def draw(self, rng: random.Random, name: SplitName) -> tuple[object, Problem]:
        """(content that decides the split, problem) from `rng`; both splits are alike."""
        for _ in range(MAX_DRAWS):
            numbers = tuple(rng.randint(1, self.max_number) for _ in range(self.num_numbers))
            steps, term = combine(numbers, rng)
            if term.value <= self.max_target:
                break
        else:
            raise ValueError(
                f"{self}: no target within max_target in {MAX_DRAWS} draws; raise max_target"
            )
        prompt = self.wording.replace("{target}", str(term.value))
        problem = Problem(
            prompt=prompt.replace("{numbers}", ", ".join(map(str, numbers))),
            answer=str(term.value),
            solution=worked(";".join(steps), term.text),
            index=0,
            meta={"numbers": numbers, "target": term.value},
        )
        return [sorted(numbers), term.value], problem


def combine(numbers: tuple[int, ...], rng: random.Random) -> tuple[list[str], Term]:
    """(steps as text, term): join two random terms until one is left."""
    terms = [Term(n, str(n), 2) for n in numbers]
    steps = []
    while len(terms) > 1:
        a = terms.pop(rng.randrange(len(terms)))
        b = terms.pop(rng.randrange(len(terms)))
        if a.value < b.value:
            a, b = b, a
        joined = join(rng.choice(legal(a.value, b.value)), a, b)
        steps.append(f"{a.value}{joined[0]}{b.value}={joined[1].value}")
        terms.append(joined[1])
    return steps, terms[0]


def legal(a: int, b: int) -> str:
    """The operations that keep values positive and whole, for a >= b >= 1."""
    return "+*" + ("-" if a > b else "") + ("/" if a % b == 0 else "")


def join(sign: str, a: Term, b: Term) -> tuple[str, Term]:
    """(sign, a sign b), with the parentheses that are needed and no others."""
    level = 0 if sign in "+-" else 1
    left = f"({a.text})" if a.binds < level else a.text
    strict = sign in "-/"  # a-(b+c) and a/(b*c) need them on the right
    right = f"({b.text})" if b.binds < level or (strict and b.binds == level) else b.text
    value = {"+": a.value + b.value, "-": a.value - b.value, "*": a.value * b.value}
    return sign, Term(
        value[sign] if sign in value else a.value // b.value, left + sign + right, level
    )
