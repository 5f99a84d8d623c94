r"""Folded mathematical text to tokens.

A token is (kind, value):
    ("num", Fraction | text of digits)  a literal; integers keep their digits for ``4210_5``
    ("name", "x")                       one letter;  ("cmd", "frac") a LaTeX command or known name
    ("text", "feet")                    contents of \text{...}, or a bare English word
    ("op", "+")                         one character, or one of <= >= != || ...
    ("begin", "pmatrix"), ("end", ...), ("row", "")
"""

from __future__ import annotations

import re
from fractions import Fraction

from rlvr_jax.rewards.extract import closing_brace
from rlvr_jax.rewards.math_units import MULTIPLIERS, is_unit_text, known_unit, word_set

MAX_DIGITS = 1200  # of one literal
MAX_TOKENS = 1500
MAX_TEN = 400  # exponent of 1.5e3


class Unparsable(ValueError):
    """Text outside the grammar; `reason` is a code."""

    def __init__(self, reason: str = "unparsable"):
        super().__init__(reason)
        self.reason = reason


FUNCTIONS = word_set(
    "sin cos tan cot sec csc arcsin arccos arctan arccot arcsec arccsc asin acos atan sinh cosh "
    "tanh "
    "coth sech csch arcsinh arccosh arctanh log ln lg exp gcd lcm max min det deg dim arg Re Im "
    "floor ceil abs sgn sign cis"
)
KNOWN_NAMES = FUNCTIONS | {"sqrt", "pi", "infty", "infinity", "inf", "oo", "and", "or", "cbrt"}
_RENAMED = {"infinity": "infty", "inf": "infty", "oo": "infty", "sqrt": "usqrt"}
_TEXT_CMDS = word_set(
    "text textbf textrm textit texttt textsf textsc textup textnormal mathrm mathbf mathit mathsf "
    "mathtt mbox hbox "
    "operatorname mathcal bm boldsymbol bf rm it"
)
_CURRENCIES = {"pounds": "£", "euro": "€", "dollar": "$", "textdollar": "$"}
_IGNORED = word_set("quad qquad displaystyle textstyle limits hline cdotp centering hfill")

_GROUP = r"(?:\{,\}|,\\!\s*|\\!,|\\,|\\ |\\;|\\:|~|\\!)"
_NUMBER = re.compile(
    rf"(\d{{1,3}}(?:{_GROUP}\d{{3}})+(?!\d)|\d{{1,3}}(?: \d{{3}})+(?![\d/])"
    r"|\d{1,3}(?:,\d{3})+(?!\d)|\d+)?(\.\d+)?",
    re.ASCII,
)
_REPEAT = re.compile(r"\\(?:overline|bar|dot)\s*(?:\{(\d+)\}|(\d))|\((\d+)\)(?=$|[^\w.])", re.ASCII)
_HEX_DIGITS = "0123456789ABCDEFabcdef"
_BASED = re.compile(
    r"\d*[A-F][0-9A-F]*(?=\s*_\s*\{?\s*1[1-6]\b)|[0-9a-f]{2,99}(?=\s*_\s*\{?\s*16\b)", re.ASCII
)
_SUBSCRIPT = re.compile(r"\s*_")
_TEN = re.compile(r"[eE]([+-]?\d{1,4})(?!\w)", re.ASCII)
_COMMAND = re.compile(r"\\([A-Za-z]+)\*?|\\(.)", re.DOTALL)
_LETTERS = re.compile(r"[A-Za-z]+")
_SAME = {"**": "^"}
_TWO = ("<=", ">=", "!=", "...", "**", "||", "->", ":=")


def tokenize(text: str) -> list[tuple[str, object]]:
    """Tokens of folded text.  Unparsable for characters outside the alphabet."""
    tokens: list[tuple[str, object]] = []
    at = depth = 0
    while at < len(text):
        if len(tokens) > MAX_TOKENS:
            raise Unparsable("too_long")
        char = text[at]
        if char in " \t\n~$\r":
            at += 1
        elif char in _HEX_DIGITS and (hexadecimal := _BASED.match(text, at)):
            tokens.append(("num", hexadecimal[0].upper()))
            at = hexadecimal.end()
        elif char.isdigit() or (char == "." and text[at + 1 : at + 2].isdigit()):
            at = _number(text, at, depth, tokens)
        elif char == "\\":
            at = _command(text, at, tokens)
            depth += (tokens[-1:] == [("op", "\\{")]) - (tokens[-1:] == [("op", "\\}")])
        elif char.isalpha():
            at = _letters(text, at, tokens)
        else:
            at = _operator(text, at, tokens)
            depth += (char in "([") - (char in ")]")
    return tokens


def _operator(text: str, at: int, tokens: list) -> int:
    after = text[at - 1 : at]
    factorial = text.startswith("!=", at) and (after.isdigit() or after == ")")  # 5!=120
    for two in _TWO if not factorial else ():
        if text.startswith(two, at):
            tokens.append(("cmd", "ldots") if two == "..." else ("op", _SAME.get(two, two)))
            return at + len(two)
    if text[at] not in "+-*/^_()[]{}|,;:=<>!&'%£€":
        raise Unparsable
    tokens.append(("op", text[at]))
    return at + 1


def _number(text: str, at: int, depth: int, tokens: list) -> int:
    match = _NUMBER.match(text, at)
    whole, decimals = match[1] or "", match[2] or ""
    end = match.end()
    if depth and "," in whole and not re.search(r"\{,\}|\\!", whole):
        whole = whole.split(",")[0]  # inside brackets a bare comma parts members
        decimals, end = "", at + len(whole)
    digits = re.sub(r"[^\d]", "", whole)
    if len(digits) + len(decimals) > MAX_DIGITS:
        raise Unparsable("too_long")
    if not digits.isascii() or not (digits or decimals):
        raise Unparsable
    repeat = _REPEAT.match(text, end) if decimals or text[end : end + 1] == "." else None
    if not decimals and text[end : end + 1] == ".":
        repeat = _REPEAT.match(text, end + 1)
    if repeat and (repeat[3] is None or len(decimals) <= 1):
        tokens.append(
            ("num", _repeating(digits, decimals[1:], next(filter(None, repeat.groups()))))
        )
        return repeat.end()
    dots = re.match(r"\s*(?:\.\.\.|\\[lc]?dots(?![A-Za-z]))\s*$", text[end:])
    block = re.search(r"(\d{1,6}?)\1{2,}$", decimals[1:]) if dots else None
    if block:
        tokens.append(("num", _repeating(digits, decimals[1:], block[1])))
        return len(text)
    ten = _TEN.match(text, end)
    if ten and abs(int(ten[1])) <= MAX_TEN:
        value = Fraction((digits or "0") + decimals) * Fraction(10) ** int(ten[1])
        tokens.append(("num", value))
        return ten.end()
    if decimals and _SUBSCRIPT.match(text, end):  # 0.1_2: the digits count
        tokens.append(("num", (digits or "0") + decimals))
        return end
    tokens.append(("num", Fraction(digits + decimals) if decimals else digits))
    return end


def _repeating(whole: str, decimals: str, block: str) -> Fraction:
    """whole.decimals followed by block for ever."""
    fixed = Fraction(int((whole or "0") + decimals), 10 ** len(decimals))
    return fixed + Fraction(int(block), (10 ** len(block) - 1) * 10 ** len(decimals))


def _command(text: str, at: int, tokens: list) -> int:
    match = _COMMAND.match(text, at)
    if not match:
        raise Unparsable
    name, end = match[1], match.end()
    if name is None:
        return _escaped(match[2], end, tokens)
    if name in ("begin", "end"):
        stop = text.find("}", end)
        if text[end : end + 1] != "{" or stop < 0:
            raise Unparsable
        tokens.append((name, text[end + 1 : stop].strip("* ")))
        column = re.compile(r"\{[lcr| ]*\}").match(text, stop + 1) if name == "begin" else None
        return column.end() if column else stop + 1
    if name in _TEXT_CMDS:
        return _text(text, end, name, tokens)
    if name in _CURRENCIES:
        tokens.append(("op", _CURRENCIES[name]))
    elif name == "colon":
        tokens.append(("op", ":"))
    elif name not in _IGNORED:
        tokens.append(("cmd", name))
    return end


def _escaped(char: str, end: int, tokens: list) -> int:
    if char == "\\":
        tokens.append(("row", ""))
    elif char in "{}":
        tokens.append(("op", "\\" + char))
    elif char in "%$|":
        tokens.append(("op", {"%": "%", "$": "$", "|": "||"}[char]))
    elif char not in ",;:! \n":
        raise Unparsable
    return end


def _text(text: str, end: int, name: str, tokens: list) -> int:
    brace = re.compile(r"\s*\{").match(text, end)
    if not brace:
        if name in ("bf", "rm", "it"):
            return end
        raise Unparsable
    stop = closing_brace(text, brace.end())
    if stop < 0:
        raise Unparsable
    inner = text[brace.end() : stop]
    bare = inner.strip(" ~$\\.,")
    letter = len(bare) == 1 and bare.isalpha()
    variable = bare.islower() and not known_unit(bare) and bare not in "ct" and _after_value(tokens)
    if letter and (name != "text" or variable):
        tokens.append(("name", bare))
    elif bare in KNOWN_NAMES and not (known_unit(bare) and _after_value(tokens)):
        tokens.append(("cmd", bare))
    elif bare == "to" and tokens[-1:] and tokens[-1][0] == "num":
        tokens.append(("op", ":"))  # 3 to 4
    elif re.match(r"[-+]?[\d.]", bare):
        tokens.extend(tokenize(bare))
    else:
        tokens.extend([("op", ",")] * inner.strip().startswith(","))
        tokens.append(("text", " ".join(bare.replace("\\", " ").replace("$", " ").split())))
    return stop + 1


def _letters(text: str, at: int, tokens: list) -> int:
    match = _LETTERS.match(text, at)
    if not match:
        raise Unparsable
    run = match[0]
    known = (
        run if run in KNOWN_NAMES else run.lower() if run.lower() in ("and", "or", "pi") else None
    )
    if known:
        tokens.append(("cmd", _RENAMED.get(known, known)))
        return match.end()
    if run == "to" and tokens[-1:] and tokens[-1][0] == "num":
        tokens.append(("op", ":"))
        return match.end()
    if _after_value(tokens) and _unit_run(run, text[at - 1 : at].isspace(), text[match.end() :]):
        rest = re.compile(r"[A-Za-z][A-Za-z /'.]*(?:\^\{?[23]\}?)?").match(text, at)
        if rest.end() == len(text) or run.lower() in MULTIPLIERS:
            stop = match.end() if run.lower() in MULTIPLIERS else rest.end()
            tokens.append(("text", text[at:stop].strip()))
            return stop
    if len(run) >= 3 and run.lower() in MULTIPLIERS:
        tokens.append(("text", run))
        return match.end()
    for prefix in sorted(FUNCTIONS | {"sqrt", "pi"}, key=len, reverse=True):
        if len(prefix) > 1 and run.endswith(prefix) and len(run) - len(prefix) == 1:
            tokens.extend([("name", run[0]), ("cmd", _RENAMED.get(prefix, prefix))])
            return match.end()
    tokens.extend(("name", char) for char in run)
    return match.end()


def _after_value(tokens: list) -> bool:
    return bool(tokens) and (tokens[-1][0] == "num" or tokens[-1][1] in ("}", ")"))


def _unit_run(run: str, spaced: bool, rest: str) -> bool:
    """Whether bare letters behind a number read as a word rather than as variables."""
    word = run.lower()
    if word in MULTIPLIERS or word in ("degrees", "degree", "percent"):
        return True
    if len(run) == 1:
        return False
    if known_unit(word) and (spaced or len(run) == 2):
        return True
    return spaced and len(run) >= 3 and bool(set(word) & set("aeiouy")) and is_unit_text(run + rest)
