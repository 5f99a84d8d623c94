r"""Tokens to the tree of math_stream.py, by recursive descent.  Nothing is evaluated.

From the loosest to the tightest binding: lists, relations, set operations, sums, products, and the
atoms of math_atoms.py.
"""

from __future__ import annotations

from fractions import Fraction

from rlvr_jax.rewards.math_atoms import CURRENCY, atom, group_text, postfix
from rlvr_jax.rewards.math_lex import Unparsable, tokenize
from rlvr_jax.rewards.math_names import quantity
from rlvr_jax.rewards.math_spoken import spoken
from rlvr_jax.rewards.math_stream import END, RELATIONS, SETOPS, ZERO, Node, Stream
from rlvr_jax.rewards.math_units import MULTIPLIERS, SUFFIXES, is_unit_text, known_unit, word_set

MAX_CHARS = 1500


def parse(text: str) -> Node:
    """The tree of folded text.  Unparsable where it is outside the grammar."""
    if len(text) > MAX_CHARS:
        raise Unparsable("too_long")
    tokens = tokenize(text)
    if not tokens:
        raise Unparsable("empty")
    stream = Stream(tokens, _RULES)
    node = stream.rule("items")
    if stream.peek() != END:
        raise Unparsable
    return node


def _separator(s: Stream) -> str:
    """Consume what parts the members of a list; "" if there is nothing of the kind."""
    kind, value = s.peek()
    found = ""
    while True:
        if kind == "op" and value in (",", ";"):
            found = found or ","
        elif kind == "cmd" and value in ("and", "or", "land", "lor", "wedge", "vee"):
            found = "or" if value in ("or", "lor", "vee") else "and"
        elif kind == "text" and value.casefold() in ("and", "or", "&"):
            found = "or" if value.casefold() == "or" else "and"
        else:
            return found
        s.at += 1
        kind, value = s.peek()


def _items(s: Stream) -> Node:
    """One relation, or a list of several."""
    items, sep = [_relation(s)], ""
    while True:
        found = _separator(s)
        if not found:
            break
        sep = found if found != "," else sep or ","
        items.append(_relation(s))
    return items[0] if len(items) == 1 else ("list", sep, *items)


def _relation(s: Stream) -> Node:
    exprs, ops = [quantity(s) or _setop(s)], []
    while True:
        kind, value = s.peek()
        if kind == "cmd" and value == "not" and s.peek(1)[1] in ("=", "in"):
            s.at += 1
            value = "!=" if s.peek()[1] == "=" else "notin"
        if kind not in ("op", "cmd") or value not in RELATIONS | {"notin": "notin"}:
            break
        if value == "mid" and s.bars < 0:
            break
        s.at += 1
        ops.append(RELATIONS.get(value, value))
        exprs.append(_setop(s))
    if ops:
        return ("rel", tuple_of(ops), *exprs)
    if s.bars >= 0 and s.peek() == ("op", ":"):
        return _ratio(s, exprs[0])
    return exprs[0]


def tuple_of(ops: list[str]) -> str:
    """Relation signs as one string, so that every tuple in a node is a node."""
    return " ".join(ops)


def _ratio(s: Stream, first: Node) -> Node:
    items = [first]
    while s.take(":"):
        items.append(_sum(s))
    return ("ratio", *items)


def _setop(s: Stream) -> Node:
    left = _sum(s)
    while s.peek()[0] == "cmd" and s.peek()[1] in SETOPS:
        op = SETOPS[s.next()[1]]
        left = ("setop", op, left, _sum(s))
    return left


def _sum(s: Stream) -> Node:
    terms = []
    kind, value = s.peek()
    if kind == "text" and not value[:1].isdigit():
        return _words(s)
    if s.take("pm", "mp"):
        node: Node = ("pm", value, ZERO, _product(s))
    else:
        sign = -1 if value == "-" and kind == "op" else 1
        s.take("-", "+")
        node = _product(s)
        node = _negated(node) if sign < 0 else node
    terms.append(node)
    while True:
        kind, value = s.peek()
        if kind == "op" and value in ("+", "-"):
            s.at += 1
            if s.peek() == ("op", "-") and value == "+":  # 14.0 + -1.0i
                s.at += 1
                value = "-"
            term = _product(s)
            terms.append(("neg", term) if value == "-" else term)
        elif kind == "cmd" and value in ("pm", "mp"):
            s.at += 1
            terms = [("pm", value, _added(terms), _product(s))]
        else:
            return _added(terms)


def _negated(node: Node) -> Node:
    if node[0] in ("unit", "pct", "deg"):  # -$5 is minus five dollars
        return (node[0], _negated(node[1]), *node[2:])
    return ("neg", node)


def _added(terms: list[Node]) -> Node:
    return terms[0] if len(terms) == 1 else ("add", *terms)


def _words(s: Stream) -> Node:
    """Everything up to the next relation or separator as words: an answer in prose."""
    said = [str(s.next()[1])]
    while s.peek()[0] in ("text", "name", "num"):
        if str(s.peek()[1]).casefold() in ("and", "or"):
            break
        said.append(str(s.next()[1]))
    if s.take("("):
        said.append("(")
    if said[-1] == "(":
        raise Unparsable
    return ("text", " ".join(said).casefold())


def _product(s: Stream) -> Node:
    factors = [_factor(s)]
    while True:
        kind, value = s.peek()
        if s.take("*", "cdot", "times", "ast"):
            factors.append(_signed_factor(s))
        elif kind in ("op", "cmd") and value in ("/", "div"):
            s.at += 1
            sign = ("÷",) if value == "div" else ()
            factors = [("div", _multiplied(factors), _signed_factor(s), *sign)]
        elif kind == "text":
            return _with_text(s, _multiplied(factors))
        elif kind == "op" and value in CURRENCY:  # 5 €
            s.at += 1
            return ("unit", _multiplied(factors), CURRENCY[value])
        elif _starts(s) or (kind == "num" and factors[-1][:2] == _FACTORIAL):  # 10!10!
            factors.append(_factor(s))
        else:
            return _multiplied(factors)


_FACTORIAL = ("fn", "factorial")


def _multiplied(factors: list[Node]) -> Node:
    return factors[0] if len(factors) == 1 else ("mul", *factors)


def _signed_factor(s: Stream) -> Node:
    if s.take("-"):
        return ("neg", _signed_factor(s))
    s.take("+")
    return _factor(s)


def _with_text(s: Stream, value: Node) -> Node:
    """A value followed by text: a number word multiplies, other words are its unit."""
    text = s.peek()[1]
    if text.casefold() in ("and", "or", "&"):
        return value
    s.at += 1
    if value[0] == "unit" and text in SUFFIXES:  # $1.5M
        return _times(value, Fraction(SUFFIXES[text]))
    first, _, rest = text.casefold().partition(" ")
    if first in MULTIPLIERS:
        value = _times(value, MULTIPLIERS[first])
        if not rest:
            return _with_text(s, value) if s.peek()[0] == "text" else value
        text = rest
    named = text.casefold()
    if value[0] == "num" and spoken(named.strip("() ")) == value[1]:  # 1 (one)
        return value
    if named in _SIGNS:
        return (_SIGNS[named], value)
    while s.peek()[0] in ("text", "name") or s.peek()[1] in ("^", "/", "cdot"):
        text += _unit_piece(s)
    if not is_unit_text(text):
        raise Unparsable
    return ("unit", value, text)


_SIGNS = {"degree": "deg", "degrees": "deg", "percent": "pct", "per cent": "pct"}


def _times(value: Node, by: Fraction) -> Node:
    if value[0] == "num":
        return ("num", value[1] * by)
    if value[0] == "unit":
        return ("unit", _times(value[1], by), value[2])
    return ("mul", value, ("num", by))


def _unit_piece(s: Stream) -> str:
    kind, value = s.next()
    if kind == "name" and not known_unit(value):
        raise Unparsable  # a variable: 5 radians times x
    if kind in ("text", "name"):
        return f" {value}"
    if value != "^":
        return "/" if value == "/" else " "
    power = group_text(s)
    return f"^{power}"


_OPENERS = ("(", "[", "{", "\\{")
_STOPPERS = word_set(
    "and or land lor wedge vee cdot times ast div pm mp rangle rfloor rceil rvert rVert bmod mod "
    "circ prime not choose over degree"
)


def _starts(s: Stream) -> bool:
    """Whether the next token can begin a factor of an implicit product."""
    kind, value = s.peek()
    if kind in ("name", "begin"):
        return True
    if kind == "cmd":
        return value not in _STOPPERS and value not in RELATIONS and value not in SETOPS
    return kind == "op" and (value in _OPENERS or (value == "|" and s.bars == 0))


def _factor(s: Stream) -> Node:
    return postfix(s, atom(s))


_RULES = {"items": _items, "sum": _sum, "product": _product, "factor": _factor}
