"""Numeric exact answer: the completion's number equals the gold number as a rational."""

from __future__ import annotations

import dataclasses
import re
from fractions import Fraction

from rlvr_jax.rewards.base import REWARDS, Example, Reward, check_finite
from rlvr_jax.rewards.extract import check_places, extract, last_boxed
from rlvr_jax.rewards.format import shape_fault
from rlvr_jax.types import Completion, Problem, Verdict

MAX_CHARS = 400  # longer answers are wrong unread; also below CPython's limit on int() digits
MAX_EXPONENT = 400

_NUMBER = re.compile(
    r"([+-]?)(?:(\d{1,3}(?:,\d{3})+|\d+)(?:\.(\d*))?|\.(\d+))(?:[eE]([+-]?\d{1,5}))?", re.ASCII
)
_DRESS = str.maketrans({"−": "-", "–": "-", "$": None, "£": None, "€": None})


def parse_number(text: str) -> Fraction | None:
    r"""The exact value of one number, or None.

    Integers, decimals, exponents up to ±400, a/b and ``\frac{a}{b}``; groups of three digits may be
    parted by commas; a currency sign, one pair of math dollars and a final full stop are dropped.
    """
    if len(text) > MAX_CHARS:
        return None
    text = text.strip().replace("\\$", "").translate(_DRESS).strip()
    text = text.removesuffix(".").strip() if not text.endswith("..") else text
    fraction = re.fullmatch(r"([+-]?)\\[dt]?frac\{([^{}]*)\}\{([^{}]*)\}", text)
    if fraction:
        text = f"{fraction[1]}{fraction[2]}/{fraction[3]}"
    top, slash, bottom = text.partition("/")
    value = _plain(top.strip())
    if value is None or not slash:
        return value
    divisor = _plain(bottom.strip())
    return value / divisor if divisor else None


def _plain(text: str) -> Fraction | None:
    match = _NUMBER.fullmatch(text)
    if not match:
        return None
    sign, whole, decimals, bare, exponent = match.groups()
    decimals = decimals or bare or ""
    power = int(exponent or 0)
    if abs(power) > MAX_EXPONENT:
        return None
    value = Fraction(int((whole or "").replace(",", "") + decimals or "0"))
    value *= Fraction(10) ** (power - len(decimals))
    return -value if sign == "-" else value


def parse_percent(text: str) -> tuple[Fraction | None, bool]:
    """The number and whether a percent sign followed it."""
    bare = text.strip().rstrip("$. ").removesuffix("%").removesuffix("\\").rstrip()
    percent = bare != text.strip().rstrip("$. ")
    return parse_number(bare if percent else text), percent


def same_number(answer: str, gold: str) -> bool | None:
    """Exact equality; None if the answer is not a number.  ValueError if the gold is not.

    A percent sign on one side only is read both ways: 50% agrees with 50 and with 0.5.
    """
    gold_value, gold_percent = parse_percent(gold)
    if gold_value is None:
        raise ValueError(f"the gold answer {gold!r} is not a number")
    value, percent = parse_percent(answer)
    if value is None:
        return None
    if value == gold_value:
        return True
    if percent != gold_percent:
        return value == gold_value * 100 if percent else value * 100 == gold_value
    return False


@REWARDS.register("numeric")
@dataclasses.dataclass(frozen=True)
class Numeric(Reward):
    r"""Pays for a number equal to the gold one, without tolerance.

    extract: where the answer may stand, tried in order: "answer_tag" (last <answer>...</answer>),
    "boxed" (last \boxed{}), "hashes" (after the last ####).
    right, wrong: what a right and a wrong answer earn.  format_score: added, whatever the answer,
    for the shape <think>...</think><answer>...</answer>.
    """

    extract: tuple[str, ...] = ("answer_tag", "boxed", "hashes")
    right: float = 1.0
    wrong: float = 0.0
    format_score: float = 0.0

    def __post_init__(self):
        check_places(self.extract)
        check_finite(right=self.right, wrong=self.wrong, format_score=self.format_score)

    def __call__(self, completion: Completion, problem: Problem) -> Verdict:
        found = extract(completion.text, self.extract)
        gold = problem.answer.rpartition("####")[2].strip()
        reason = self._fault(found, gold)
        if reason == "bad_gold":
            return Verdict(status="unknown", reason=reason, stage="gold", gold=gold)
        shaped = float(not shape_fault(completion.text))
        return Verdict(
            status="wrong" if reason else "scored",
            score=(self.wrong if reason else self.right) + self.format_score * shaped,
            reason=reason,
            parts={"correct": float(not reason), "format": shaped},
            stage="extract" if found is None else "number",
            extracted=found,
            gold=gold,
        )

    def _fault(self, found: str | None, gold: str) -> str:
        if found is None:
            return "no_answer"
        if not found:
            return "empty"
        if len(found) > MAX_CHARS:
            return "too_long"
        try:
            same = same_number(last_boxed(found) or found, gold)
        except ValueError:  # the gold: a fault of the data, not of the answer
            return "bad_gold"
        return "unparsable" if same is None else "" if same else "mismatch"

    @classmethod
    def example(cls) -> Example:
        problem = Problem(prompt="3 + 4?", answer="7", index=0)
        right = "<think>3 + 4 = 7</think><answer>7</answer>"
        return Example(cls(), problem, right, wrong="<think>hm</think><answer>8</answer>")
