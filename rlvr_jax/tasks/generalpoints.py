"""GeneralPoints: make the target from four cards, each used once.

prompt    Cards: K, 4, 2, 8. J, Q and K count as 10. Make 24 with + - * / and parentheses, ...
solution  <think>10+4=14;14+8=22;22+2=24</think><answer>10+4+8+2</answer>
answer    24                       (any formula of that value is right)

Chu et al. 2025 (arXiv:2501.17161): train under one rule for the face cards or one target, test
under another.
"""

from __future__ import annotations

import dataclasses
import functools
import random
from fractions import Fraction
from typing import ClassVar

from rlvr_jax.tasks.base import MAX_DRAWS, TASKS, GeneratedSplit, SplitName, check_int, worked
from rlvr_jax.types import Problem

DECK = ("A", *map(str, range(2, 11)), "J", "Q", "K")
FACES = {  # what the letters are worth: the rule of training, and the one for out of distribution
    "ten": {"A": 1, "J": 10, "Q": 10, "K": 10},
    "rank": {"A": 1, "J": 11, "Q": 12, "K": 13},
}
RULES = {
    "ten": "J, Q and K count as 10.",
    "rank": "J counts as 11, Q as 12 and K as 13.",
}


@functools.lru_cache(maxsize=200_000)
def find(values: tuple[Fraction, ...], target: int) -> tuple[str, tuple[str, ...]] | None:
    """(formula, steps) that make the target from the sorted values, each once, or None."""
    return _search(tuple((value, str(value)) for value in values), target)


def _search(
    terms: tuple[tuple[Fraction, str], ...], target: int
) -> tuple[str, tuple[str, ...]] | None:
    if len(terms) == 1:
        return (terms[0][1], ()) if terms[0][0] == target else None
    for i, (a, left) in enumerate(terms):
        for j, (b, right) in enumerate(terms):
            if i == j:
                continue
            rest = tuple(term for k, term in enumerate(terms) if k not in (i, j))
            for sign, value in _joined(a, b, i < j):
                found = _search((*rest, (value, f"({left}{sign}{right})")), target)
                if found:
                    return found[0], (f"{a}{sign}{b}={value}", *found[1])
    return None


def _joined(a: Fraction, b: Fraction, ordered: bool) -> list[tuple[str, Fraction]]:
    """Signs and values; sums and products only in one order."""
    results = [("-", a - b)] + ([("/", a / b)] if b else [])
    return [("+", a + b), ("*", a * b), *results] if ordered else results


@TASKS.register("generalpoints")
@dataclasses.dataclass(frozen=True)
class GeneralPoints:
    """Hands of cards from which the target can be made.

    num_cards: cards of a hand.  target: what to make.
    faces: "ten" (J, Q, K count 10) or "rank" (11, 12, 13).
    test_faces, test_target: the rule and the target of the test split, to study what was learned
        out of distribution; "" and 0 mean as in training.  Face cards are in every test hand then.
    size_train, size_test: problems in each split; no test hand is a train hand in another order.
    """

    num_cards: int = 4
    target: int = 24
    faces: str = "ten"
    test_faces: str = ""
    test_target: int = 0
    size_train: int = 100_000
    size_test: int = 256
    seed: int = 0

    reward: ClassVar[str] = "generalpoints"

    def __post_init__(self):
        check_int("generalpoints", "num_cards", self.num_cards, 2, 5)
        check_int("generalpoints", "target", self.target, 1, 1000)
        check_int("generalpoints", "test_target", self.test_target, 0, 1000)
        check_int("generalpoints", "size_train", self.size_train, 1)
        check_int("generalpoints", "size_test", self.size_test, 1)
        check_int("generalpoints", "seed", self.seed, 0)
        for name in ("faces", "test_faces"):
            value = getattr(self, name)
            if value not in FACES and (name == "faces" or value):
                raise ValueError(
                    f'task generalpoints: {name} is "{value}", allowed are {", ".join(FACES)}'
                )

    def split(self, name: SplitName) -> GeneratedSplit:
        """The problems of "train" or "test"."""
        size = self.size_test if name == "test" else self.size_train
        return GeneratedSplit(self, name, size, self.seed)

    def draw(self, rng: random.Random, name: SplitName) -> tuple[object, Problem]:
        """(content that decides the split, problem) from `rng`."""
        test = name == "test"
        faces = self.test_faces if test and self.test_faces else self.faces
        target = self.test_target if test and self.test_target else self.target
        for _ in range(MAX_DRAWS):
            cards = [rng.choice(DECK) for _ in range(self.num_cards)]
            if faces != self.faces and not set(cards) & {"J", "Q", "K"}:
                continue
            values = [FACES[faces].get(card) or int(card) for card in cards]
            found = find(tuple(sorted(map(Fraction, values))), target)
            if found:
                break
        else:
            raise ValueError(f"{self}: no hand makes {target} in {MAX_DRAWS} draws")
        formula, steps = found
        prompt = (
            f"Cards: {', '.join(cards)}. {RULES[faces]} Make {target} with + - * / and "
            "parentheses, each card once."
        )
        problem = Problem(
            prompt=prompt,
            answer=str(target),
            solution=worked(";".join(steps), formula[1:-1]),
            index=0,
            meta={"numbers": values, "letters": FACES[faces], "target": target},
        )
        return sorted(cards), problem
