"""What form an expression has: which arithmetic is left undone in it, whether it is factored.

Training must not pay for the question handed back (an integral, a product still to be multiplied),
so an answer may leave undone only the kinds of arithmetic that the gold answer leaves undone too.
"""

from __future__ import annotations

from fractions import Fraction

from rlvr_jax.rewards.math_field import rational
from rlvr_jax.rewards.math_stream import Node, children, walk

_TRIG = frozenset({"sin", "cos", "tan", "cot", "sec", "csc"})
_INVERSE = frozenset({"arcsin", "arccos", "arctan", "arccot", "arcsec", "arccsc"})
_OTHER = frozenset({"abs", "gcd", "lcm", "max", "min", "floor", "ceil", "det", "Re", "Im", "norm"})
_POLAR = frozenset({"cis", "trig", "exp", "root", "power"})


def is_constant(node: Node) -> bool:
    """No variable in it."""
    return not any(n[0] in ("sym", "text", "dots") for n in walk(node))


def has_i(node: Node) -> bool:
    return any(n == ("const", "i") for n in walk(node))


def undone(node: Node) -> set[str]:
    """Kinds of arithmetic left undone, for example {"sum of numbers", "factorial"}."""
    kinds: set[str] = set()
    for part in walk(node):
        rule = _RULES.get(part[0])
        if rule:
            kinds |= rule(part)
    return kinds


def left_undone(answer: Node, gold: Node) -> set[str]:
    """What the answer leaves undone and the gold does not."""
    kinds = undone(answer) - undone(gold)
    if kinds & {"cis", "trig"} and has_i(gold):
        kinds -= _POLAR  # polar form of a complex number
    return kinds


def _flat(node: Node, kind: str) -> list[Node]:
    parts = []
    for child in node[1:]:
        if child[0] == "neg":
            child = child[1]
        parts.extend(_flat(child, kind) if child[0] == kind else [child])
    return parts


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
    if rational(exponent) == 0:
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
    roots = [f for f in factors if is_constant(f) and undone(f) & {"root"} and f[0] != "add"]
    many = {"product of numbers"} if len(numbers) > 1 else set()
    if len(roots) > 1:
        many.add("product of roots")
    if sum(f == ("const", "i") for f in factors) > 1:
        many.add("product of numbers")
    return many


def _quotient(node: Node) -> set[str]:
    if has_i(node[2]):
        return {"complex quotient"}
    top, bottom = rational(node[1]), rational(node[2])
    if top is None or not bottom:
        return set()
    whole = (top / bottom).denominator == 1 and abs(bottom) != 1
    return {"quotient"} if whole else set()


def _sum(node: Node) -> set[str]:
    numbers = [t for t in _flat(node, "add") if rational(t) is not None]
    return {"sum of numbers"} if len(numbers) > 1 else set()


def _set_operation(node: Node) -> set[str]:
    return {"set operation"} if node[2][0] == node[3][0] == "set" else set()


_RULES = {
    "big": _big,
    "det": lambda node: {"determinant"},
    "fn": _function,
    "root": _root,
    "pow": _power,
    "mul": _product,
    "div": _quotient,
    "add": _sum,
    "setop": _set_operation,
}


def _sums_in_product(node: Node) -> int:
    """How many sums a product multiplies; a power of a sum counts as its exponent."""
    if node[0] == "neg":
        return _sums_in_product(node[1])
    if node[0] == "add":
        return int(not is_constant(node))
    if node[0] == "pow":
        power = rational(node[2])
        times = int(power) if power is not None and 1 <= power <= 99 else 0
        return times * _sums_in_product(node[1])
    return sum(map(_sums_in_product, children(node))) if node[0] == "mul" else 0


def expanded(answer: Node, gold: Node) -> bool:
    """The gold is a product of several sums and the answer is a plain sum: not factored."""
    return _sums_in_product(gold) > 1 and answer[0] == "add"
