"""Countdown: an expression that uses each given number once and makes the target.

The parser is a small recursive descent over exact rationals; nothing is ever evaluated by Python.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from fractions import Fraction

from rlvr_jax.rewards.base import REWARDS, Example, Reward, check_finite
from rlvr_jax.rewards.extract import check_places, extract
from rlvr_jax.rewards.format import shape_fault
from rlvr_jax.types import Completion, Problem, Verdict

MAX_CHARS = 400
MAX_DEPTH = 50

_TOKEN = re.compile(r"\s*(?:(\d+)|([-+*/()]))", re.ASCII)
_SIGNS = str.maketrans({"×": "*", "÷": "/", "−": "-"})


class ExpressionError(ValueError):
    """An expression outside the grammar; `reason` is its code."""

    def __init__(self, reason: str):
        super().__init__(reason)
        self.reason = reason


def evaluate(text: str) -> tuple[Fraction, list[int]]:
    """Value of an expression of integers, + - * / (also × ÷ −) and parentheses, and its numbers.

    ExpressionError with reason "too_long", "unparsable", "too_deep" or "division_by_zero".
    """
    if len(text) > MAX_CHARS:
        raise ExpressionError("too_long")
    return _Parser(_tokens(text.translate(_SIGNS).strip())).run()


def _tokens(text: str) -> list[str]:
    tokens, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if not match:
            raise ExpressionError("unparsable")
        tokens.append(match[1] or match[2])
        at = match.end()
    return tokens


class _Parser:
    """sum = product (±product)*;  product = factor ([*/] factor)*;  factor = -factor | (sum) | n"""

    def __init__(self, tokens: list[str]):
        self.tokens = tokens + ["end"]
        self.at = 0
        self.numbers: list[int] = []

    def run(self) -> tuple[Fraction, list[int]]:
        value = self._sum(0)
        if self._next() != "end":
            raise ExpressionError("unparsable")
        return value, self.numbers

    def _next(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1]

    def _sum(self, depth: int) -> Fraction:
        value = self._product(depth)
        while self.tokens[self.at] in ("+", "-"):
            sign = 1 if self._next() == "+" else -1
            value += sign * self._product(depth)
        return value

    def _product(self, depth: int) -> Fraction:
        value = self._factor(depth)
        while self.tokens[self.at] in ("*", "/"):
            if self._next() == "*":
                value *= self._factor(depth)
                continue
            divisor = self._factor(depth)
            if divisor == 0:
                raise ExpressionError("division_by_zero")
            value /= divisor
        return value

    def _factor(self, depth: int) -> Fraction:
        if depth > MAX_DEPTH:
            raise ExpressionError("too_deep")
        token = self._next()
        if token == "-":
            return -self._factor(depth + 1)
        if token == "(":
            value = self._sum(depth + 1)
            if self._next() != ")":
                raise ExpressionError("unparsable")
            return value
        if not token.isdigit():
            raise ExpressionError("unparsable")
        self.numbers.append(int(token))
        return Fraction(int(token))


def countdown_fault(text: str, numbers: list[int], target: int) -> str:
    """Why the expression does not solve the puzzle, as a reason code; "" if it does.

    "= target" after the expression is allowed.  Reasons: those of `evaluate`, "wrong_numbers" (each
    given number exactly once), "mismatch".
    """
    left, equals, right = text.partition("=")
    if equals and right.strip() != str(target):
        return "unparsable" if not right.strip().lstrip("-").isdecimal() else "mismatch"
    try:
        value, used = evaluate(left)
    except ExpressionError as error:
        return error.reason
    if Counter(used) != Counter(numbers):
        return "wrong_numbers"
    return "" if value == target else "mismatch"


@REWARDS.register("countdown")
@dataclasses.dataclass(frozen=True)
class Countdown(Reward):
    """Pays for an expression over problem.meta["numbers"], each once, equal to meta["target"].

    extract: where the expression may stand (see "numeric").  right, wrong: what it earns.
    format_score: added for the shape <think>...</think><answer>...</answer>.
    """

    extract: tuple[str, ...] = ("answer_tag", "boxed")
    right: float = 1.0
    wrong: float = 0.0
    format_score: float = 0.0

    def __post_init__(self):
        check_places(self.extract)
        check_finite(right=self.right, wrong=self.wrong, format_score=self.format_score)

    def __call__(self, completion: Completion, problem: Problem) -> Verdict:
        puzzle = _puzzle(problem)
        if puzzle is None:
            return Verdict(status="unknown", reason="bad_gold", stage="gold", gold=problem.answer)
        found = extract(completion.text, self.extract)
        reason = "no_answer" if found is None else "" if found else "empty"
        reason = reason or countdown_fault(found, *puzzle)
        shaped = float(not shape_fault(completion.text))
        return Verdict(
            status="wrong" if reason else "scored",
            score=(self.wrong if reason else self.right) + self.format_score * shaped,
            reason=reason,
            parts={"correct": float(not reason), "format": shaped},
            stage="extract" if not found else "expression",
            extracted=found,
            gold=problem.answer or f"{puzzle[0]} -> {puzzle[1]}",
        )

    @classmethod
    def example(cls) -> Example:
        meta = {"numbers": [8, 2, 4], "target": 24}
        problem = Problem(prompt="Make 24.", answer="(8-2)*4", index=0, meta=meta)
        right = "<think>6 * 4</think><answer>(8 - 2) * 4</answer>"
        return Example(cls(), problem, right, wrong="<think>?</think><answer>24</answer>")


def _puzzle(problem: Problem) -> tuple[list[int], int] | None:
    """Numbers and target of the problem, or None where the data lacks them."""
    numbers, target = problem.meta.get("numbers"), problem.meta.get("target")
    if not isinstance(target, int) or isinstance(numbers, str) or numbers is None:
        return None
    numbers = list(numbers)
    return (numbers, target) if all(isinstance(n, int) for n in numbers) else None
