"""Knights and knaves: knights always tell the truth, knaves always lie; who is what?

prompt    Ada says: "Ben is a knave". Ben says: "Ada is a knight and I am a knight". ...
solution  <think>...</think><answer>Ada is a knight, Ben is a knave</answer>
answer    Ada is a knight, Ben is a knave

Xie et al. 2025, Logic-RL (arXiv:2502.14768); Johnson-Laird and Byrne 1990.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Sequence
from typing import ClassVar

from rlvr_jax.tasks.base import MAX_DRAWS, TASKS, GeneratedSplit, SplitName, check_int, worked
from rlvr_jax.types import Problem

NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gina", "Hugo", "Iris", "Jack")
INTRO = "Knights always tell the truth and knaves always lie. "
ASK = " Who is a knight and who is a knave?"

# A statement is (operator, parts...): ("is", person, wanted), ("not", s), ("and" | "or" | "if" |
# "iff", s, t).  `wanted` is True for knight.
Statement = tuple


def holds(statement: Statement, knights: Sequence[bool]) -> bool:
    """Whether the statement is true where person i is a knight as `knights[i]` says."""
    kind = statement[0]
    if kind == "is":
        return knights[statement[1]] == statement[2]
    parts = [holds(part, knights) for part in statement[1:]]
    if kind == "not":
        return not parts[0]
    rules = {"and": parts[0] and parts[-1], "or": parts[0] or parts[-1]}
    rules |= {"if": not parts[0] or parts[-1], "iff": parts[0] == parts[-1]}
    return rules[kind]


def solve(statements: Sequence[Statement]) -> list[tuple[bool, ...]]:
    """All assignments in which exactly the knights' statements are true; one statement a person."""
    every = itertools.product((True, False), repeat=len(statements))
    return [
        knights
        for knights in every
        if all(holds(s, knights) == knights[i] for i, s in enumerate(statements))
    ]


def say(statement: Statement, speaker: int, names: Sequence[str]) -> str:
    """The statement in words, as `speaker` says it."""
    kind = statement[0]
    if kind == "is":
        who = "I am" if statement[1] == speaker else f"{names[statement[1]]} is"
        return f"{who} a {'knight' if statement[2] else 'knave'}"
    parts = [say(part, speaker, names) for part in statement[1:]]
    forms = {
        "not": "it is not true that {0}",
        "and": "{0} and {1}",
        "or": "{0} or {1}",
        "if": "if {0} then {1}",
        "iff": "{0} if and only if {1}",
    }
    return forms[kind].format(*parts)


@TASKS.register("knights")
@dataclasses.dataclass(frozen=True)
class Knights:
    """Puzzles with exactly one solution, one statement a person.

    min_people, max_people: drawn evenly.
    depth: how far statements nest; 1: "Ada is a knave and I am a knight".  (With bare "Ada is a
        knave" alone, turning everybody round solves the puzzle too.)
    size_train, size_test: problems in each split; test problems are distinct, and no test problem
        is a train problem with other names.
    """

    min_people: int = 2
    max_people: int = 3
    depth: int = 1
    size_train: int = 100_000
    size_test: int = 256
    seed: int = 0

    reward: ClassVar[str] = "knights"

    def __post_init__(self):
        check_int("knights", "min_people", self.min_people, 2)
        check_int("knights", "max_people", self.max_people, self.min_people, len(NAMES))
        check_int("knights", "depth", self.depth, 1, 3)
        check_int("knights", "size_train", self.size_train, 1)
        check_int("knights", "size_test", self.size_test, 1)
        check_int("knights", "seed", self.seed, 0)

    def split(self, name: SplitName) -> GeneratedSplit:
        """The problems of "train" or "test"."""
        size = self.size_test if name == "test" else self.size_train
        return GeneratedSplit(self, name, size, self.seed)

    def draw(self, rng: random.Random, name: SplitName) -> tuple[object, Problem]:
        """(content that decides the split, problem) from `rng`; both splits are alike."""
        people = rng.randint(self.min_people, self.max_people)
        for _ in range(MAX_DRAWS):
            statements = [self._statement(rng, people, i, self.depth) for i in range(people)]
            solutions = solve(statements)
            if len(solutions) == 1:
                break
        else:
            raise ValueError(f"{self}: no puzzle with one solution in {MAX_DRAWS} draws")
        names = rng.sample(NAMES, people)
        return statements, puzzle(statements, solutions[0], names)

    def _statement(self, rng: random.Random, people: int, speaker: int, depth: int) -> Statement:
        kind = rng.choice(("is", "not", "and", "or", "if", "iff")) if depth else "is"
        if kind == "is":
            others = [i for i in range(people) if i != speaker or depth < self.depth]
            return ("is", rng.choice(others), rng.random() < 0.5)
        count = 1 if kind == "not" else 2
        parts = [self._statement(rng, people, speaker, depth - 1) for _ in range(count)]
        return (kind, *parts)


def puzzle(
    statements: Sequence[Statement], knights: Sequence[bool], names: Sequence[str]
) -> Problem:
    """The problem in words; the demonstration checks each statement against the solution."""
    lines = [f'{names[i]} says: "{say(s, i, names)}".' for i, s in enumerate(statements)]
    roles = {n: "knight" if k else "knave" for n, k in zip(names, knights, strict=True)}
    answer = ", ".join(f"{name} is a {role}" for name, role in roles.items())
    checks = [
        f"{name} is a {role}, so what {name} says must be {'true' if role == 'knight' else 'false'}"
        for name, role in roles.items()
    ]
    return Problem(
        prompt=INTRO + " ".join(lines) + ASK,
        answer=answer,
        solution=worked("; ".join(checks) + ". All fits.", answer),
        index=0,
        meta={"roles": roles},
    )
