"""Countdown: an expression that uses each given number once and makes the target.

The parser is a small recursive descent over exact rationals; nothing is ever evaluated by Python.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from rlvr_jax.rewards.base import REWARDS, Example, Reward, check_finite
from rlvr_jax.rewards.dress import undress
from rlvr_jax.rewards.extract import check_places, extract
from rlvr_jax.rewards.format import shape_fault
from rlvr_jax.types import Completion, Problem, Verdict

MAX_CHARS = 400
MAX_DEPTH = 50

_TOKEN = re.compile(r"\s*(?:(0|[1-9]\d*)(?!\d)|([-+*/()\[\]{}]|\\frac))", re.ASCII)
_SIGNS = str.maketrans(
    dict.fromkeys("×·⋅∙∗", "*") | dict.fromkeys("÷∕⁄", "/") | {"−": "-", "–": "-"}
)
_TEX = (
    (re.compile(r"\\(?:times|cdot|ast)(?![A-Za-z])|(?<=[\s)\]])x(?=[\s(\[])"), "*"),
    (re.compile(r"\\div(?![A-Za-z])"), "/"),
    (re.compile(r"\\[dt]frac(?![A-Za-z])"), r"\\frac"),
    (re.compile(r"\\(?:left|right)(?=\s*[()\[\]])|\\[,;:! ]"), " "),
)
_CLOSING = {"(": ")", "[": "]"}


class Literal(NamedTuple):
    """A number as it was written.  minus: "" none before it; "sign" one that opens an expression,
    which may be arithmetic or part of the number; "number" one right after an operator."""

    size: int
    minus: str = ""


class ExpressionError(ValueError):
    """An expression outside the grammar; `reason` is its code."""

    def __init__(self, reason: str):
        super().__init__(reason)
        self.reason = reason


def evaluate(text: str) -> tuple[Fraction, list[Literal]]:
    r"""Value of an expression of integers, + - * / and brackets, and its numbers in order.

    Signs may be typeset (× · ÷ −, " x ", ``\times``, ``\frac{a}{b}``).  A minus opens an expression
    or stands between two operands; right after an operator it must belong to a number.  No power,
    no implicit product, no decimals, no leading zeros.
    ExpressionError with reason "too_long", "unparsable", "too_deep" or "division_by_zero".
    """
    if len(text) > MAX_CHARS:
        raise ExpressionError("too_long")
    return _Parser(_tokens(_plain(text))).run()


def _plain(text: str) -> str:
    text = text.translate(_SIGNS)
    for pattern, sign in _TEX:
        text = pattern.sub(sign, text)
    return text.strip()


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
    r"""sum = [-] product (±product)*;  product = factor ([*/] factor)*;
    factor = n | -n after an operator | (sum) | [sum] | \frac{sum}{sum}"""

    def __init__(self, tokens: list[str]):
        self.tokens = tokens + ["end"]
        self.at = 0
        self.numbers: list[Literal] = []

    def run(self) -> tuple[Fraction, list[Literal]]:
        value = self._sum(0)
        self._expect("end")
        return value, self.numbers

    def _next(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1]

    def _expect(self, token: str) -> None:
        if self._next() != token:
            raise ExpressionError("unparsable")

    def _sum(self, depth: int) -> Fraction:
        if depth > MAX_DEPTH:
            raise ExpressionError("too_deep")
        opens = "sign" if self.tokens[self.at] == "-" else ""
        self.at += bool(opens)
        value = self._product(depth, opens) * (-1 if opens else 1)
        while self.tokens[self.at] in ("+", "-"):
            sign = 1 if self._next() == "+" else -1
            value += sign * self._product(depth)
        return value

    def _product(self, depth: int, minus: str = "") -> Fraction:
        value = self._factor(depth, minus)
        while self.tokens[self.at] in ("*", "/"):
            if self._next() == "*":
                value *= self._factor(depth)
            else:
                value = _quotient(value, self._factor(depth))
        return value

    def _factor(self, depth: int, minus: str = "") -> Fraction:
        token = self._next()
        if token in _CLOSING:
            value = self._sum(depth + 1)
            self._expect(_CLOSING[token])
            return value
        if token == "\\frac":
            top, bottom = self._braced(depth), self._braced(depth)
            return _quotient(top, bottom)
        if token == "-" and not minus:
            token, minus = self._next(), "number"
        if not token.isdigit():
            raise ExpressionError("unparsable")
        self.numbers.append(Literal(int(token), minus))
        return Fraction(-int(token) if minus == "number" else int(token))

    def _braced(self, depth: int) -> Fraction:
        self._expect("{")
        value = self._sum(depth + 1)
        self._expect("}")
        return value


def _quotient(value: Fraction, divisor: Fraction) -> Fraction:
    if divisor == 0:
        raise ExpressionError("division_by_zero")
    return value / divisor


def uses_once(used: Sequence[Literal], numbers: Sequence[int]) -> bool:
    """Whether the written numbers are the given ones, each exactly once.

    A written n without a minus is a given n.  One whose minus opens an expression is a given n or a
    given -n; one whose minus follows an operator is a given -n.
    """
    given = Counter(numbers)
    for size in {abs(n) for n in numbers} | {literal.size for literal in used}:
        minus = Counter(literal.minus for literal in used if literal.size == size)
        plus_given = given[size]
        minus_given = given[-size] if size else 0
        if minus.total() != plus_given + minus_given:
            return False
        if minus[""] > plus_given or minus["number"] > minus_given:
            return False
    return True


def countdown_fault(text: str, numbers: Sequence[int], target: int) -> str:
    """Why the expression does not solve the puzzle, as a reason code; "" if it does.

    "= target" after the expression and "target =" before it are allowed, and what `undress` drops.
    Reasons: those of `evaluate`, "wrong_numbers" (each given number exactly once), "mismatch".
    """
    if len(text) > MAX_CHARS:
        return "too_long"
    left, equals, right = undress(text).translate(_SIGNS).partition("=")
    if equals and left.strip() == str(target) and not _integer(right):
        left, right = right, left
    if equals and right.strip() != str(target):
        return "mismatch" if _integer(right) else "unparsable"
    try:
        value, used = evaluate(left)
    except ExpressionError as error:
        return error.reason
    if not uses_once(used, numbers):
        return "wrong_numbers"
    return "" if value == target else "mismatch"


def _integer(text: str) -> bool:
    return re.fullmatch(r"\s*-?\d+\s*", text, re.ASCII) is not None


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
    whole = isinstance(numbers, list | tuple) and all(map(is_whole, numbers))
    return (list(numbers), target) if whole and numbers and is_whole(target) else None


def is_whole(value: Any) -> bool:
    """Whether a value of the data is an integer (true and false are none)."""
    return isinstance(value, int) and not isinstance(value, bool)
