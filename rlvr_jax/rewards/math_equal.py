r"""Whether a mathematical answer equals the gold answer.

Stages, cheapest first; the first that can tell decides:

    string     the folded texts agree
    number     both are plain numbers: exact rationals
    text       the gold is words, a choice, a clock time: compared as words
    structure  parsed; labels, sets, units, ... taken apart; expressions equal in a field (exact)
    numeric    in a worker: agreement at many points with many digits
    symbolic   in a worker: SymPy, for sums and integrals and what evaluation cannot decide

`compare` runs the stages up to "structure" in bounded time, or all of them.  Model text is never
given to eval, sympify or a parser that could run it.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from fractions import Fraction

from rlvr_jax.rewards import math_numeric, math_symbolic
from rlvr_jax.rewards.math_compare import equal
from rlvr_jax.rewards.math_field import TooBig, Undecided, Undefined
from rlvr_jax.rewards.math_form import expanded, left_undone
from rlvr_jax.rewards.math_judge import ExactJudge
from rlvr_jax.rewards.math_labels import label, stated
from rlvr_jax.rewards.math_lex import Unparsable
from rlvr_jax.rewards.math_parse import parse
from rlvr_jax.rewards.math_rename import renamed
from rlvr_jax.rewards.math_stream import Node, walk
from rlvr_jax.rewards.math_text import MAX_CHARS, compact, fold, strip_text_commands
from rlvr_jax.rewards.math_words import as_words, synonym, words_match

_PLAIN = re.compile(
    r"(-?)(?:(\d{1,300}(?:\.\d{1,300})?)|\\frac\{(\d{1,99})\}\{(\d{1,99})\}|(\d{1,99})/(\d{1,99}))",
    re.ASCII,
)
_CLOCK = re.compile(r"(\d{1,2}):(\d\d)\s*([ap]\.?m\.?)?", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class MathOptions:
    """Where conventions differ.  The defaults are for training.

    allow_undone: accept 2^{10} for 1024, 5! for 120, an integral for its value.
    require_factored: a gold that multiplies several sums needs a product, not the expanded sum.
    require_units: a unit (or %, °) that one side leaves out is an error.
    equation_value: accept "x + y + z = 7" for 7.
    tolerance: relative error allowed where the gold is a rational but no integer; 0 = exact.
    percent_asked: the question asks for a percentage, so a gold of 25 takes 25% too.
    """

    allow_undone: bool = False
    require_factored: bool = True
    require_units: bool = False
    equation_value: bool = True
    tolerance: float = 0.0
    percent_asked: bool = False

    def __post_init__(self):
        if not 0.0 <= self.tolerance < 0.5:
            raise ValueError(f"tolerance must be at least 0 and below 0.5, got {self.tolerance!r}")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """right: True, False, or None where the checker cannot tell (never the answer's doing).
    stage: what decided.  reason: a code unless right."""

    right: bool | None
    stage: str
    reason: str = ""


class NumericJudge(ExactJudge):
    """Decides by the exact stage, then by evaluation, then by SymPy.  For workers."""

    def same(self, a: Node, b: Node) -> bool:
        try:
            return super().same(a, b)
        except Undecided:
            pass
        try:
            return math_numeric.same(a, b)
        except (Undecided, Undefined):
            return math_symbolic.same(a, b)

    def proportional(self, a: Node, b: Node) -> bool:
        try:
            return super().proportional(a, b)
        except Undecided:
            return math_numeric.proportional(a, b)

    def real(self, node: Node) -> object:
        return math_numeric.real(node)


def compare(
    answer: str, gold: str, options: MathOptions | None = None, full: bool = False
) -> Outcome | None:
    """How an answer compares with a gold answer.

    full=False: the stages of bounded time; None if they cannot tell.  full=True: all stages, to be
    run in a worker, for they have no bound of their own.
    """
    options = options or MathOptions()
    gold = gold.rpartition("####")[2] if "####" in gold else gold  # a worked solution of GSM8K
    if len(answer) > MAX_CHARS:
        right = answer.strip() == gold.strip()
        return Outcome(right, "length", "" if right else "too_long")
    folded, gold_folded = fold(answer), fold(gold)
    text, gold_text = compact(folded), compact(gold_folded)
    if not text or not as_words(folded):
        return Outcome(False, "string", "empty")
    if text == gold_text:
        return Outcome(True, "string")
    value, gold_value = _plain(text), _plain(gold_text)
    if value is not None and gold_value is not None and not options.tolerance:
        right = value == gold_value
        return Outcome(right, "number", "" if right else "mismatch")
    clock = _clock(gold_folded)
    if clock:
        right = _clock(folded) == clock
        return Outcome(right, "text", "" if right else "mismatch")
    right = words_match(folded, gold_folded)
    if right is not None:
        return Outcome(right, "text", "" if right else "mismatch")
    return _compare_trees(folded, gold_folded, options, full)


def _plain(text: str) -> Fraction | None:
    """The value of an integer, a decimal or a fraction of integers that is no whole number."""
    match = _PLAIN.fullmatch(text)
    if not match:
        return None
    sign, number, *parts = match.groups()
    if number:
        return Fraction(sign + number)
    top, bottom = (int(part) for part in parts if part)
    if bottom == 0 or (top % bottom == 0 and bottom != 1):
        return None
    return Fraction(-top if sign else top, bottom)


def _clock(text: str) -> tuple[int, str, bool] | None:
    """(hour, minutes, whether the half of the day is known) of a time of day.

    Minutes keep their digits so that 3:5 stays a ratio.
    """
    match = _CLOCK.fullmatch(strip_text_commands(text).replace("\\", "").strip())
    if not match or int(match[2]) > 59:
        return None
    hour, half = int(match[1]), (match[3] or "").lower()[:1]
    if half and 1 <= hour <= 12:
        hour = hour % 12 + (12 if half == "p" else 0)
    return hour, match[2], bool(half) or hour > 12


def _compare_trees(answer: str, gold: str, options: MathOptions, full: bool) -> Outcome | None:
    try:
        theirs = _parse_gold(gold)
    except Unparsable:
        return Outcome(None, "gold", "gold_unparsable")
    try:
        mine = _parse_like(answer, theirs)
    except Unparsable as error:
        return Outcome(False, "parse", error.reason)
    mine = renamed(mine, theirs)
    judge = (NumericJudge if full else ExactJudge)(
        options.equation_value, options.require_units, options.tolerance, options.percent_asked
    )
    stage = "numeric" if full else "structure"
    try:
        if not equal(mine, theirs, judge):
            return Outcome(False, stage, "mismatch")
    except TooBig:
        return Outcome(False, stage, "too_big")
    except Undefined:
        return Outcome(False, stage, "undefined")
    except Undecided:
        if not options.allow_undone and left_undone(*_stated(mine, theirs)):
            return Outcome(False, "form", "unevaluated")
        if not full:
            return None
        return Outcome(None if _opaque(theirs) else False, stage, "undecided")
    return _form(mine, theirs, options, stage)


@functools.lru_cache(maxsize=4096)
def _parse_gold(gold: str) -> Node:
    return parse(synonym(gold) or gold)


def _parse_like(answer: str, gold: Node) -> Node:
    r"""The answer's tree; where the gold is a list, commas before three digits part members; where
    it is a column, ``\binom{3}{-7}`` is one."""
    mine = parse(synonym(answer) or answer)
    if gold[0] in ("list", "set") and mine[0] == "num" and "," in answer:
        return parse(answer.replace(",", ", "))
    if gold[0] == "matrix" and mine[:2] == ("fn", "binom"):
        return ("matrix", 1, *mine[2:])
    return mine


def _opaque(node: Node) -> bool:
    """Parts that no stage can evaluate."""
    return any(
        part[0] in ("big", "dots", "cases") or _unknown_function(part) for part in walk(node)
    )


def _unknown_function(part: Node) -> bool:
    return part[0] == "fn" and part[1] not in math_numeric.KNOWN


def _stated(mine: Node, theirs: Node) -> tuple[Node, Node]:
    """What both sides state; an answer to an equation without a label stays whole."""
    named, gold_named = label(mine), label(theirs)
    equation = theirs[0] == "rel" and not gold_named
    if mine[0] == theirs[0] == "rel" and named and gold_named and named[0] != gold_named[0]:
        return mine, theirs  # y = x/2 for x = 2y
    return stated(mine, whole=equation), stated(theirs, whole=True)


def _form(mine: Node, theirs: Node, options: MathOptions, stage: str) -> Outcome:
    mine, theirs = _stated(mine, theirs)
    if not options.allow_undone and left_undone(mine, theirs):
        return Outcome(False, "form", "unevaluated")
    if options.require_factored and expanded(mine, theirs):
        return Outcome(False, "form", "not_factored")
    return Outcome(True, stage)
