"""What form an expression has: which arithmetic is left undone in it, whether it is factored.

Training must not pay for the question handed back (an integral, a product still to be multiplied),
so an answer may leave undone only the kinds of arithmetic that the gold answer leaves undone too.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from rlvr_jax.rewards.math_field import rational
from rlvr_jax.rewards.math_stream import Node, children, walk

_TRIG = frozenset({"sin", "cos", "tan", "cot", "sec", "csc"})
_INVERSE = frozenset({"arcsin", "arccos", "arctan", "arccot", "arcsec", "arccsc"})
_OTHER = frozenset({"abs", "gcd", "lcm", "max", "min", "floor", "ceil", "det", "Re", "Im", "norm"})
_CONDITIONS = frozenset({"rel", "builder", "setop", "big"})  # have variables of their own
_POLAR = frozenset({"cis", "trig", "exp", "root", "power"})


def is_constant(node: Node) -> bool:
    """No variable in it."""
    return not any(n[0] in ("sym", "text", "dots") for n in walk(node))


def has_i(node: Node) -> bool:
    return any(n == ("const", "i") for n in walk(node))


def undone(node: Node) -> set[str]:
    """Kinds of arithmetic left undone, for example {"sum of numbers", "factorial"}."""
    return _undone(_canonical(node))


def _undone(node: Node) -> set[str]:
    kinds: set[str] = set()
    for part in walk(node):
        rule = _RULES.get(part[0])
        if rule:
            kinds |= rule(part)
    return kinds


def left_undone(answer: Node, gold: Node) -> set[str]:
    """What the answer leaves undone and the gold does not."""
    kinds = undone(answer)
    if kinds:
        gold_kinds = undone(gold)
        kinds -= gold_kinds
        if gold_kinds:
            kinds -= {"root"}  # 2 - sqrt(3) for tan 15
    if kinds and has_i(gold):
        kinds -= {"zero"}  # 0 + 1i
        if kinds & {"cis", "trig"}:
            kinds -= _POLAR  # polar form of a complex number
    names = _names(answer)
    if names and _has_more(names, answer, gold):
        kinds.add("variable")  # 42 + x - x
    return kinds


def _has_more(names: set[str], answer: Node, gold: Node) -> bool:
    """Whether the answer has a variable that the gold lacks; a unit may look like one (5m)."""
    more = names - _names(gold)
    more -= {part[2] for part in walk(gold) if part[0] == "unit"} if more else set()
    return bool(more) and not any(part[0] in _CONDITIONS for part in walk(answer))


def _names(node: Node) -> set[str]:
    return {part[1] for part in walk(node) if part[0] == "sym"}


def _canonical(node: Node) -> Node:
    """Terms and factors in a fixed order, so that equal parts look alike."""
    parts = [_canonical(part) if type(part) is tuple else part for part in node]
    if node[0] in ("add", "mul"):
        parts[1:] = sorted(parts[1:], key=repr)
    return tuple(parts)


def _flat(node: Node, kind: str) -> list[Node]:
    parts = []
    for child in node[1:]:
        if child[0] == "neg":
            child = child[1]
        parts.extend(_flat(child, kind) if child[0] == kind else [child])
    return parts


def _factors(node: Node, sign: int = 1) -> Iterator[tuple[Node, int]]:
    """(base, exponent) of the factors of a product or quotient; not yet put together."""
    if node[0] == "neg":
        yield from _factors(node[1], sign)
    elif node[0] == "mul":
        for part in node[1:]:
            yield from _factors(part, sign)
    elif node[0] == "div":
        yield from _factors(node[1], sign)
        yield from _factors(node[2], -sign)
    elif node[0] == "pow" and _whole(node[2]):
        yield node[1], sign * int(rational(node[2]) or 0)
    else:
        yield node, sign


def _whole(node: Node) -> bool:
    value = rational(node)
    return value is not None and value.denominator == 1 and abs(value) < 10**6


def _literal_part(node: Node) -> tuple:
    """What is left of a term without its numbers: equal for like terms."""
    powers: dict[Node, int] = {}
    for base, exponent in _factors(node):
        if rational(base) is None:
            powers[base] = powers.get(base, 0) + exponent
    return tuple(sorted(((base, n) for base, n in powers.items() if n), key=repr))


def _uncancelled(node: Node) -> set[str]:
    """A factor both above and below the line, or a whole number that a number divides."""
    above: set[Node] = set()
    below: set[Node] = set()
    top = bottom = Fraction(1)
    for base, exponent in _factors(node):
        value = rational(base)
        if value is None:
            (above if exponent > 0 else below).add(base)
        elif exponent in (1, -1):
            top, bottom = (top * value, bottom) if exponent > 0 else (top, bottom * value)
    kinds = {"common factor"} if above & below else set()
    whole = top and abs(bottom) not in (0, 1) and (top / bottom).denominator == 1
    if whole and not is_constant(node):
        kinds.add("quotient")
    return kinds


def _is_ten(node: Node) -> bool:
    return node[0] == "pow" and node[1] == ("num", Fraction(10)) and rational(node[2]) is not None


def _big(node: Node) -> set[str]:
    return {f"big {node[1]}"}


def _function(node: Node) -> set[str]:
    name = node[1]
    if name in _TRIG:
        return {"trig"}
    if name in _INVERSE:
        return {"arctrig"}
    if name in ("ln", "log"):
        return {"log"}
    if name in ("factorial", "factorial2", "binom"):
        return {name} if is_constant(node) else set()
    return {name} if name in _OTHER else set()


def _root(node: Node) -> set[str]:
    if not is_constant(node):
        return set()
    return {"exact root"} if rational(node) is not None else {"root"}


def _power(node: Node) -> set[str]:
    base, exponent = node[1], node[2]
    if rational(exponent) == 0 or (rational(base) == 1 and rational(exponent) is None):
        return {"power"}
    if not (is_constant(base) and is_constant(exponent)) or _is_ten(node):
        return set()
    if base == ("const", "e"):
        return {"cis"} if has_i(exponent) else set() if rational(exponent) else {"exp"}
    power = rational(exponent)
    if power is not None and power.denominator != 1:
        return {"exact root"} if rational(node) is not None else {"root"}
    return {"power"}


def _product(node: Node) -> set[str]:
    factors = _flat(node, "mul")
    numbers = [f for f in factors if rational(f) is not None and not _is_ten(f)]
    roots = [f for f in factors if is_constant(f) and _undone(f) & {"root"} and f[0] != "add"]
    many = {"product of numbers"} if len(numbers) > 1 else set()
    if len(roots) > 1:
        many.add("product of roots")
    if sum(f == ("const", "i") for f in factors) > 1:
        many.add("product of numbers")
    if any(rational(f) == 0 for f in factors):
        many.add("zero")
    return many | _uncancelled(node)


def _quotient(node: Node) -> set[str]:
    if has_i(node[2]):
        return {"complex quotient"}
    top, bottom = rational(node[1]), rational(node[2])
    if top == 0 and bottom is None:
        return {"zero"}
    if top is None or not bottom:
        return _uncancelled(node)
    whole = (top / bottom).denominator == 1 and abs(bottom) != 1
    return {"quotient"} if whole or len(node) > 3 else set()  # 3 ÷ 4 is still to be divided


def _sum(node: Node) -> set[str]:
    terms = _flat(node, "add")
    values = [rational(t) for t in terms]
    kinds = {"sum of numbers"} if len(values) - values.count(None) > 1 else set()
    if 0 in values:
        kinds = kinds - {"sum of numbers"} | {"zero"}
    parts = [_literal_part(t) for t, value in zip(terms, values, strict=True) if value is None]
    return kinds | ({"like terms"} if len(set(parts)) < len(parts) else set())


def _negation(node: Node) -> set[str]:
    return {"double minus"} if node[1][0] == "neg" else set()


def _set_operation(node: Node) -> set[str]:
    return {"set operation"} if node[2][0] == node[3][0] == "set" else set()


_RULES = {
    "big": _big,
    "det": lambda node: {"determinant"},
    "fn": _function,
    "root": _root,
    "pow": _power,
    "mul": _product,
    "neg": _negation,
    "div": _quotient,
    "add": _sum,
    "setop": _set_operation,
}


def _sums_in_product(node: Node) -> int:
    """How many sums a product multiplies; a power of a sum counts as its exponent."""
    if node[0] == "neg":
        return _sums_in_product(node[1])
    if node[0] == "div":
        return _sums_in_product(node[1])
    if node[0] == "add":
        return int(not is_constant(node))
    if node[0] == "pow":
        power = rational(node[2])
        times = int(power) if power is not None and 1 <= power <= 99 else 0
        return times * _sums_in_product(node[1])
    return sum(map(_sums_in_product, children(node))) if node[0] == "mul" else 0


def _has_power(node: Node) -> bool:
    """Whether x, y or z or a power of it is a factor."""
    factors = [base for base, exponent in _factors(node) if exponent > 0]
    return any(base in (("sym", "x"), ("sym", "y"), ("sym", "z")) for base in factors)


def expanded(answer: Node, gold: Node) -> bool:
    """Whether the gold asks for a product and the answer multiplies fewer sums.

    A gold asks for one that multiplies several sums, or x, y or z and a sum: x(x + 1).  In other
    letters the latter is a formula, which may be multiplied out: n(n + 1) = n^2 + n.
    """
    sums = _sums_in_product(gold) if gold[0] != "div" else 0
    if sums < 1 or (sums == 1 and not (gold[0] != "add" and _has_power(gold))):
        return False
    if answer[0] == "add" or _sums_in_product(answer) < sums:
        return True
    return sums == 1 and not _has_power(answer)
