r"""Presentation taken off (colours, sizes, alignment) and rare notations rewritten as common ones.

Works on text with unicode folded to LaTeX.  Each rule is one linear substitution.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

_GROUP = r"\{[^{}]*\}"
_DROPPED = re.compile(
    rf"\\(?:text)?color\s*(?:\[[^\]]*\]\s*)?{_GROUP}|\\colorbox\s*{_GROUP}"
    rf"|\\(?:hspace|vspace|hphantom|vphantom|phantom|label|tag|mspace)\*?\s*{_GROUP}"
    r"|\\(?:tiny|scriptsize|footnotesize|small|normalsize|large|Large|LARGE|huge|Huge|bfseries"
    r"|ensuremath|underline|uline|emph|mathstrut|strut|noindent|newline|nonumber|notag)"
    r"(?![A-Za-z])\s*"
)
_LEAD = re.compile(r"\A[\s$]*\\(?:therefore|Rightarrow|Longrightarrow|implies)(?![A-Za-z])\s*")
_END_MARK = re.compile(r"\\(?:blacksquare|square|checkmark|qed|Box|qedsymbol)(?![A-Za-z])[\s$.]*$")
_ALIGNED = re.compile(
    r"\\begin\{(align(?:ed)?|gather(?:ed)?|equation|split|eqnarray)(\*?)\}"
    r"((?:(?!\\begin).)*?)\\end\{\1\2\}",
    re.DOTALL,
)
_ROW = re.compile(r"\\\\(?:\s*\[[^\]]*\])?")
_CIRC = r"\^\s*(?:\{\s*\\circ\s*\}|\\circ)"
_TEMPERATURE = re.compile(
    rf"{_CIRC}\s*(?:\\(?:text|mathrm)\s*\{{\s*([CF])\s*\}}|([CF])(?![A-Za-z]))"
    rf"|\\(?:text|mathrm)\s*\{{\s*{_CIRC}\s*([CF])\s*\}}"
)
_MINUTES = re.compile(
    rf"(\d{{1,6}})\s*{_CIRC}\s*(\d{{1,2}})\s*(?:'(?!')|\^\s*\{{?\s*\\prime\s*\}}?)"
    r"(?:\s*(\d{1,2})\s*(?:''|\"))?",
    re.ASCII,
)
_CHOOSE = re.compile(
    r"(?:\{\s*\}|(?<![\w}\s]))\s*[_^]\s*(?:\{(\w{1,9})\}|(\w))\s*([CP])\s*_\s*(?:\{(\w{1,9})\}|(\w))",
    re.ASCII,
)
_ORDINAL = re.compile(
    r"(?<=\d)\s*\^\s*\{\s*(?:\\(?:text|mathrm|rm)\s*\{?\s*)?(?:st|nd|rd|th)\s*\}{1,2}", re.ASCII
)
_MOD = re.compile(
    r"\(\s*(?:\\text\s*\{\s*)?mod\s*\}?\s*(\d{1,99})\s*\)|\\b?mod\s+(\d{1,99})", re.ASCII
)
_BASED = re.compile(
    r"(?:\\(?:text|mathrm)\s*\{\s*([0-9A-Fa-f]{1,99})\s*\}|(?<![\w)}])\(([0-9A-F]{1,99})\))"
    r"\s*_(?=\s*\{?\s*\(?\d)",
    re.ASCII,
)
_OUTWARD = re.compile(r"([\[\]])([^][(),;]+[,;][^][(),;]+)([\[\]])")  # ]0,1[ is (0,1)
_STYLE = r"\\(?:mathbf|boldsymbol|bm|mathrm|vec)"
_VECTORS_HINT = re.compile(r"\\(?:hat|widehat|mathbf|boldsymbol|bm|vec)")
_UNIT_VECTOR = re.compile(
    rf"\\(?:hat|widehat)\s*(?:\{{\s*)?(?:{_STYLE}\s*)?(?:\{{\s*)?\\?([ijk])(?:math)?(?:\s*\}}){{0,2}}"
    rf"|\\(?:mathbf|boldsymbol|bm|vec)\s*(?:\{{\s*([ijk])\s*\}}|([ijk]))(?![A-Za-z])"
)


def _rows(match: re.Match) -> str:
    """Aligned lines as one: a line that begins with "=" goes on, the others are members."""
    said = ""
    for row in _ROW.split(match[3].replace("&", " ")):
        row = row.strip().rstrip(",")
        if row:
            said += (" " if row.startswith("=") or not said else ", ") + row
    return said


def _temperature(match: re.Match) -> str:
    letter = next(filter(None, match.groups()))
    return r"\text{ celsius}" if letter == "C" else r"\text{ fahrenheit}"


def _minutes(match: re.Match) -> str:
    parts = [int(part or 0) for part in match.groups()]
    value = Fraction(parts[0]) + Fraction(parts[1], 60) + Fraction(parts[2], 3600)
    return rf"({value.numerator}/{value.denominator})^{{\circ}}"


def _choose(match: re.Match) -> str:
    top, bottom = match[1] or match[2], match[4] or match[5]
    if match[3] == "C":
        return rf"\binom{{{top}}}{{{bottom}}}"
    return rf"\frac{{{top}!}}{{({top}-{bottom})!}}"


def _outward(match: re.Match) -> str:
    left, inside, right = match.groups()
    return f"{'(' if left == ']' else '['}{inside}{')' if right == '[' else ']'}"


def _vectors(text: str) -> str:
    r"""Unit vectors under one name, if it is not \mathbf{i} alone, which may be a number."""
    if not _VECTORS_HINT.search(text):
        return text
    found = {next(filter(None, match.groups())) for match in _UNIT_VECTOR.finditer(text)}
    if not found & {"j", "k"}:
        return text
    return _UNIT_VECTOR.sub(lambda m: rf"\hat{{{next(filter(None, m.groups()))}_{{0}}}}", text)


# (what must stand in the text, pattern, replacement)
_RULES: tuple[tuple[str, re.Pattern, str | Callable[[re.Match], str]], ...] = (
    ("\\begin", _ALIGNED, _rows),
    ("\\", _DROPPED, " "),
    ("\\", _LEAD, ""),
    ("\\", _END_MARK, ""),
    ("\\circ", _TEMPERATURE, _temperature),
    ("\\circ", _MINUTES, _minutes),
    ("^", _ORDINAL, ""),
    ("mod", _MOD, lambda m: rf"\pmod{{{m[1] or m[2]}}}"),
    ("_", _CHOOSE, _choose),
    ("_", _BASED, lambda m: f"{(m[1] or m[2]).upper()}_"),
    ("[", _OUTWARD, _outward),
    ("]", _OUTWARD, _outward),
)


def plain(text: str) -> str:
    """The text without presentation and rare notations."""
    for sign, pattern, replacement in _RULES:
        if sign in text:
            text = pattern.sub(replacement, text)
    return _vectors(text) if "\\" in text else text
