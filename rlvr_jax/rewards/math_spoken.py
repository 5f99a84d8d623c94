"""Numbers said in words: "twelve", "twenty-one", "two thirds", "1 and a half", "3rd"."""

from __future__ import annotations

import re
from fractions import Fraction

from rlvr_jax.rewards.math_units import MULTIPLIERS

_UNITS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
)
_DECADES = "twenty thirty forty fifty sixty seventy eighty ninety"
_ONES = {word: n for n, word in enumerate(_UNITS.split())}
_TENS = {word: 10 * n for n, word in enumerate(_DECADES.split(), start=2)}
_MAX_CHARS = 60
_ORDINAL = re.compile(r"(\d{1,9})\s*(?:st|nd|rd|th)", re.ASCII)
_HALF = re.compile(r"(.+?)\s+and\s+(?:a|one)\s+(half|third|quarter)")


def spoken(text: str) -> Fraction | None:
    """The value of a number in lower-case words (with at least one word), or None."""
    if len(text) > _MAX_CHARS or text.isdigit():
        return None
    ordinal = _ORDINAL.fullmatch(text)
    if ordinal:
        return Fraction(ordinal[1])
    half = _HALF.fullmatch(text)
    if half:
        whole = Fraction(half[1]) if re.fullmatch(r"\d{1,9}", half[1]) else _whole(half[1])
        return None if whole is None else whole + MULTIPLIERS[half[2]]
    *head, last = text.replace("-", " ").split() or [""]
    part = MULTIPLIERS.get(last)
    if part is not None and part < 1 and head:
        top = Fraction(1) if head == ["a"] else _whole(" ".join(head))
        return None if top is None else top * part
    return _whole(text)


def _whole(text: str) -> Fraction | None:
    """A whole number in words, such as "two thousand one hundred and five"."""
    total, part, before = 0, 0, ""
    words = [word for word in text.replace("-", " ").split() if word != "and"]
    for word in words:
        many = MULTIPLIERS.get(word)
        if (
            word in _ONES
            and before in ("", "tens", "many")
            and (before != "tens" or word != "zero")
        ):
            part, before = part + _ONES[word], "ones"
        elif word in _TENS and before in ("", "many"):
            part, before = part + _TENS[word], "tens"
        elif many == 100 and before == "ones":
            part, before = part * 100, "many"
        elif many is not None and many >= 1000 and before and part:
            total, part, before = total + part * int(many), 0, "many"
        else:
            return None
    return Fraction(total + part) if words else None
