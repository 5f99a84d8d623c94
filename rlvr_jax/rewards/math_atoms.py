r"""The atoms of the grammar: literals, symbols, brackets, commands, functions, matrices."""

from __future__ import annotations

from fractions import Fraction

from rlvr_jax.rewards.math_lex import FUNCTIONS, Unparsable
from rlvr_jax.rewards.math_stream import (
    ALIASES,
    APPLIED,
    BIG,
    END,
    FN_ALIASES,
    GREEK,
    INVERSE,
    NOTHING,
    ONE,
    SPACES,
    Node,
    Stream,
)
from rlvr_jax.rewards.math_units import word_set

_CLOSERS = {"lvert": "rvert", "lfloor": "rfloor", "lceil": "rceil", "lVert": "rVert"}
_FENCES = {"lvert": "abs", "lfloor": "floor", "lceil": "ceil", "lVert": "norm"}
_ACCENTS = word_set(
    "overline bar vec hat tilde widehat overrightarrow dot ddot pmod boldsymbol "
    "overarc wideparen not"
)
_MATRICES = word_set("matrix pmatrix bmatrix Bmatrix smallmatrix array vmatrix Vmatrix")
_ROWS = word_set("cases aligned align gathered rcases")
_ORDINALS = ("th", "st", "nd", "rd")
CURRENCY = {"$": "dollar", "£": "sterling", "€": "euro"}


def atom(s: Stream) -> Node:
    """One operand without what follows it (powers, factorials, ...)."""
    kind, value = s.next()
    if kind == "num":
        return _number(s, value)
    if kind == "name":
        return _symbol(s, value)
    if kind == "begin":
        return _matrix(s, value)
    if kind == "cmd":
        return _command(s, value)
    if kind == "op" and value in ("(", "["):
        return _bracket(s, value)
    if kind == "op" and value == "{":
        return _group(s)
    if kind == "op" and value == "\\{":
        return _set(s)
    if kind == "op" and value in ("|", "||"):
        return _absolute(s, value)
    if kind == "op" and value in CURRENCY:
        minus = s.take("-")
        amount = s.rule("product")
        return ("unit", ("neg", amount) if minus else amount, CURRENCY[value])
    raise Unparsable


def _number(s: Stream, value: str | Fraction) -> Node:
    if isinstance(value, Fraction):
        return ("num", value)
    if s.peek() == ("op", "_"):
        s.at += 1
        return ("base", value, group_text(s).casefold().strip("()"))
    if not value.isdigit():
        raise Unparsable
    mixed = _mixed(s)
    return ("num", Fraction(int(value)) + mixed)


def _mixed(s: Stream) -> Fraction:
    r"""The fraction of a mixed number (``1\frac{1}{2}``, ``1 1/2``) that follows, else 0."""
    start = s.at
    try:
        if s.take("frac", "dfrac", "tfrac", "cfrac"):
            top, bottom = _argument(s, digits=1), _argument(s, digits=1)
        elif [s.peek(i)[0] for i in (0, 2)] == ["num", "num"] and s.peek(1) == ("op", "/"):
            top, bottom = (("num", Fraction(s.peek(i)[1])) for i in (0, 2))
            s.at += 3
        else:
            return Fraction(0)
    except Unparsable:
        s.at = start
        return Fraction(0)
    whole = top[0] == bottom[0] == "num" and top[1].denominator == bottom[1].denominator == 1
    if whole and 0 < top[1] < bottom[1]:
        return top[1] / bottom[1]
    s.at = start
    return Fraction(0)


def _symbol(s: Stream, name: str) -> Node:
    if s.peek() == ("op", "_"):
        s.at += 1
        name += "_" + group_text(s)
    elif name in ("e", "i"):
        return ("const", name)
    while s.take("'"):
        name += "'"
    if name.rstrip("'") in APPLIED and s.peek() == ("op", "("):
        return ("fn", name, *_arguments(atom(s)))
    return ("sym", name)


def group_text(s: Stream) -> str:
    """The tokens of a braced group (or the next token) as text."""
    if not s.take("{"):
        kind, value = s.next()
        if kind not in ("num", "name", "text", "cmd"):
            raise Unparsable
        return str(value)
    said, open_braces = [], 1
    while True:
        kind, value = s.next()
        if (kind, value) == END:
            raise Unparsable
        open_braces += (value == "{") - (value == "}")
        if not open_braces:
            return "".join(said)
        said.append(str(value))


def _bracket(s: Stream, opener: str) -> Node:
    bars, s.bars = s.bars, 0
    node = s.rule("items")
    kind, closer = s.next()
    s.bars = bars
    if kind != "op" or closer not in (")", "]"):
        raise Unparsable
    if node[0] == "list" and node[1] == ",":
        return ("tuple", opener + closer, *node[2:])
    if opener + closer not in ("()", "[]"):
        raise Unparsable
    return node


def _group(s: Stream) -> Node:
    bars, s.bars = s.bars, 0
    node = s.rule("items")
    if s.take("choose"):
        node = ("fn", "binom", node, s.rule("items"))
    elif s.take("over"):
        node = ("div", node, s.rule("items"))
    s.need("}")
    s.bars = bars
    return ("set", *node[2:]) if node[0] == "list" else node


def _set(s: Stream) -> Node:
    if s.take("\\}"):
        return ("set",)
    bars, s.bars = s.bars, -1
    node = s.rule("items")
    if s.take(":", "|", "mid"):
        node = ("builder", node, s.rule("items"))
    else:
        node = ("set", *node[2:]) if node[0] == "list" else ("set", node)
    s.need("\\}")
    s.bars = bars
    return node


def _absolute(s: Stream, bar: str) -> Node:
    bars = s.bars
    s.bars = max(bars, 0) + 1
    node = s.rule("sum")
    s.need(bar)
    s.bars = bars
    return ("fn", "abs" if bar == "|" else "norm", node)


def _argument(s: Stream, digits: int = 0) -> Node:
    """A braced group or one token; `digits`: how many digits of a bare number, 0 = all."""
    kind, value = s.peek()
    if kind == "num" and digits and isinstance(value, str) and len(value) > digits:
        s.tokens[s.at] = ("num", value[digits:])
        return ("num", Fraction(int(value[:digits])))
    if kind == "num":
        s.at += 1
        return ("num", Fraction(value))
    return atom(s)


def _command(s: Stream, name: str) -> Node:
    if name in ("frac", "dfrac", "tfrac", "cfrac"):
        return _fraction(s)
    if name in ("sqrt", "usqrt", "cbrt"):
        return _root(s, name)
    if name in ("binom", "dbinom", "tbinom"):
        return ("fn", "binom", _argument(s, digits=1), _argument(s, digits=1))
    if name in ("pi", "infty"):
        return ("const", "pi" if name == "pi" else "oo")
    if name in ("emptyset", "varnothing"):
        return ("set",)
    if name == "mathbb" or name in SPACES:
        return ("space", group_text(s) if name == "mathbb" else name)
    if name in _CLOSERS:
        return _fenced(s, name)
    if name == "langle":
        node = s.rule("items")
        s.need("rangle")
        return ("tuple", "()", *node[2:]) if node[0] == "list" else node
    if name in ("ldots", "dots", "cdots", "vdots", "ddots"):
        return ("dots",)
    if name in BIG:
        return _big(s, name)
    if name in FUNCTIONS:
        return _function(s, name)
    if name in _ACCENTS:
        return _accent(name, _argument(s))
    if ALIASES.get(name, name) in GREEK:
        return _symbol(s, ALIASES.get(name, name))
    raise Unparsable


def _accent(name: str, node: Node) -> Node:
    r"""``\vec{a}`` and ``\overline{AB}`` are names; over anything else a function."""
    parts = node[1:] if node[0] == "mul" else (node,)
    if all(part[0] == "sym" for part in parts) and name != "pmod":
        return ("sym", f"{name} {' '.join(part[1] for part in parts)}")
    return ("fn", name, node)


def _fenced(s: Stream, name: str) -> Node:
    bars, s.bars = s.bars, 0
    node = s.rule("sum")
    s.need(_CLOSERS[name])
    s.bars = bars
    return ("fn", _FENCES[name], node)


def _fraction(s: Stream) -> Node:
    top, bottom = _argument(s, digits=1), _argument(s, digits=1)
    if bottom[:2] == ("mul", ("sym", "d")) and len(bottom) == 3:
        if top == ("sym", "d"):
            return ("big", "diff", bottom[2], NOTHING, s.rule("product"))
        if top[:2] == ("mul", ("sym", "d")) and len(top) == 3:
            return ("sym", f"d{top[2][1]}/d{bottom[2][1]}")
    return ("div", top, bottom)


def _root(s: Stream, name: str) -> Node:
    degree = ("num", Fraction(3 if name == "cbrt" else 2))
    if name == "sqrt" and s.take("["):
        degree = s.rule("sum")
        s.need("]")
    return ("root", _argument(s), degree)


def _big(s: Stream, name: str) -> Node:
    lower = upper = NOTHING
    for _ in range(2):
        if s.take("_"):
            lower = _argument(s)
        elif s.take("^"):
            upper = _argument(s)
    return ("big", name, lower, upper, s.rule("product"))


def _function(s: Stream, name: str) -> Node:
    power, base = ONE, ("num", Fraction(10)) if name == "lg" else None
    name = FN_ALIASES.get(name, name)
    for _ in range(2):
        if s.take("^"):
            power = _exponent(s)
        elif s.take("_"):
            base = _argument(s)
    if power in (("num", Fraction(-1)), ("neg", ONE)) and name in INVERSE:
        name, power = INVERSE[name], ONE
    args = _arguments(_function_argument(s))
    if name == "cis":
        node = ("pow", ("const", "e"), ("mul", ("const", "i"), args[0]))
    elif name == "exp":
        node = ("pow", ("const", "e"), *args[:1])
    else:
        node = ("fn", name, *args, *([base] if base else []))
    return node if power == ONE else ("pow", node, power)


def _function_argument(s: Stream) -> Node:
    """A bracketed argument alone, else the product of what follows up to the next function."""
    if s.peek()[0] == "op" and s.peek()[1] in ("(", "{", "[", "\\{"):
        return atom(s)
    factors = [("neg", s.rule("factor")) if s.take("-") else s.rule("factor")]
    while s.peek()[0] in ("name",) or (
        s.peek()[0] == "cmd"
        and (
            s.peek()[1] in ("frac", "sqrt", "pi") or ALIASES.get(s.peek()[1], s.peek()[1]) in GREEK
        )
    ):
        factors.append(s.rule("factor"))
    return factors[0] if len(factors) == 1 else ("mul", *factors)


def _arguments(node: Node) -> tuple[Node, ...]:
    if node[0] == "tuple":
        return node[2:]
    return node[1:] if node[0] == "set" and len(node) > 1 else (node,)


def _matrix(s: Stream, env: str) -> Node:
    if env not in _MATRICES and env not in _ROWS:
        raise Unparsable
    rows: list[list[Node]] = [[]]
    while s.peek()[0] != "end":
        kind, value = s.peek()
        if kind == "row":
            s.at += 1
            rows.append([])
        elif value == "&" and kind == "op":
            s.at += 1
        else:
            rows[-1].append(s.rule("items"))
    if s.next() != ("end", env):
        raise Unparsable
    rows = [row for row in rows if row]
    if not rows or len({len(row) for row in rows}) != 1:
        raise Unparsable
    kind = "det" if env in ("vmatrix", "Vmatrix") else "matrix" if env in _MATRICES else "cases"
    return (kind, len(rows[0]), *(cell for row in rows for cell in row))


def _exponent(s: Stream) -> Node:
    sign = s.peek() == ("op", "-")
    s.take("-", "+")
    node = _argument(s)
    return ("neg", node) if sign else node


def postfix(s: Stream, node: Node) -> Node:
    """Powers, degrees, primes, factorials and percent signs behind an atom."""
    while True:
        if s.take("^"):
            node = _power(s, node)
        elif s.take("degree"):
            node = ("deg", node)
        elif s.take("!"):
            node = ("fn", "factorial2" if s.take("!") else "factorial", node)
        elif s.take("%"):
            node = ("pct", node)
        elif s.peek() == ("op", "'") and node[0] == "sym":
            s.at += 1
            node = ("sym", node[1] + "'")
        else:
            return node


def _power(s: Stream, node: Node) -> Node:
    ahead = [s.peek(i)[1] for i in range(3)]
    if ahead[0] in ("circ", "prime") or (
        ahead[0] == "{" and ahead[1:] in (["circ", "}"], ["prime", "}"])
    ):
        word = ahead[0] if ahead[0] != "{" else ahead[1]
        s.at += 1 if ahead[0] != "{" else 3
        if word == "circ":
            return ("deg", node)
        return ("sym", node[1] + "'") if node[0] == "sym" else node
    if ahead[0] == "{" and ahead[1] in _ORDINALS and ahead[2] == "}":
        s.at += 3
        return node
    if ahead[0] in _ORDINALS and s.peek()[0] == "text":
        s.at += 1
        return node
    return ("pow", node, _exponent(s))
