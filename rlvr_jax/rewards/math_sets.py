"""Sets of real numbers: intervals, inequalities, finite sets, and their unions and differences.

Two sets are equal if they hold the same cells of the line that their end points cut (each point and
each gap between neighbours), so only the order of the end points matters.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from fractions import Fraction

from rlvr_jax.rewards.math_field import Undecided
from rlvr_jax.rewards.math_labels import expand
from rlvr_jax.rewards.math_stream import Node, walk

INFINITY = ("const", "oo")
MINUS_INFINITY = ("neg", INFINITY)
_FLIP = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "!=": "!="}
_ORDER = frozenset(_FLIP)


class NotASet(Exception):
    """The expression is no set of real numbers that this module reads."""


# Sets: ("interval", low, high, brackets) | ("points", a, ..) | ("join" | "meet" | "less", A, B)


def interval(low: Node, high: Node, brackets: str) -> Node:
    return ("interval", brackets, low, high)


REALS = interval(MINUS_INFINITY, INFINITY, "()")


def looks_like_set(node: Node) -> bool:
    """Whether the expression can only be a set of numbers: then the other side is read as one."""
    kind = node[0]
    if kind == "tuple":
        return len(node) == 4 and (node[1] in ("[)", "(]", "[]") or _unbounded(node))
    if kind == "rel":
        return bool(set(node[1].split()) & (_ORDER | {"in"}))
    if kind == "list":
        return _excluding(node) or all(
            child[0] == "rel" and looks_like_set(child) for child in node[2:]
        )
    return kind in ("setop", "space", "builder")


def readable(node: Node) -> bool:
    try:
        read(node)
    except NotASet:
        return False
    return True


def is_ordering(node: Node) -> bool:
    return node[0] == "rel" and set(node[1].split()) <= _ORDER


def _unbounded(node: Node) -> bool:
    return INFINITY in node[2:] or MINUS_INFINITY in node[2:]


def read(node: Node) -> Node:
    """The set that an expression denotes.  NotASet if it denotes none."""
    rule = _READ.get(node[0])
    if rule is None:
        raise NotASet
    return rule(node)


def _tuple(node: Node) -> Node:
    if len(node) != 4 or (node[1][0] == "[" and _is_infinite(node[2])):
        raise NotASet
    if node[1][1] == "]" and _is_infinite(node[3]):
        raise NotASet  # closed where there is no point
    return interval(node[2], node[3], node[1])


def _finite(node: Node) -> Node:
    if any(n[0] in ("tuple", "text", "rel", "dots", "matrix") for n in walk(node)) or any(
        n[0] == "set" for n in node[1:]
    ):
        raise NotASet
    return ("points", *node[1:])


def _operation(node: Node) -> Node:
    kind = {"union": "join", "intersect": "meet", "minus": "less"}[node[1]]
    return (kind, read(node[2]), read(node[3]))


def _space(node: Node) -> Node:
    if node[1] != "R":
        raise NotASet
    return REALS


def _excluding(node: Node) -> bool:
    r"""``x \ne 2, 3``"""
    first, *rest = node[2:]
    return first[:2] == ("rel", "!=") and all(item[0] in ("num", "neg", "div") for item in rest)


def _listed(node: Node) -> Node:
    if _excluding(node):
        first, *rest = node[2:]
        points = (("rel", "!=", first[2], item) for item in rest)
        node = ("list", "and", first, *points)
    kind = "join" if node[1] == "or" else "meet"
    kinds = ("rel", "tuple") if kind == "join" else ("rel",)  # (0, 1) or (2, 3) is a union
    if not all(child[0] in kinds for child in node[2:]):
        raise NotASet
    return functools.reduce(lambda a, b: (kind, a, b), (read(child) for child in node[2:]))


def _builder(node: Node) -> Node:
    head, condition = node[1], node[2]
    return ("meet", read(head), read(condition)) if head[0] == "rel" else read(condition)


def _relation(node: Node) -> Node:
    r"""``a < x <= b``, ``x \ne a``, ``x \in S``: the variable must stand alone on its side."""
    ops, sides = node[1].split(), node[2:]
    if ops == ["in"]:
        return read(sides[1])
    if not set(ops) <= _ORDER | {"="}:
        raise NotASet
    bare = [k for k, side in enumerate(sides) if side[0] == "sym"]
    if len(bare) != 1 or any(
        n[0] == "sym" for k, s in enumerate(sides) if k not in bare for n in walk(s)
    ):
        raise NotASet
    at = bare[0]
    parts = []
    for k in range(len(ops)):
        if k == at:
            parts.append(_half_line(ops[k], sides[k + 1]))
        elif k + 1 == at:
            parts.append(_half_line(_FLIP.get(ops[k], ops[k]), sides[k]))
        else:
            raise NotASet
    return functools.reduce(lambda a, b: ("meet", a, b), parts)


def _half_line(op: str, bound: Node) -> Node:
    if op == "=":
        return ("points", bound)
    if op == "!=":
        return ("less", REALS, ("points", *expand(bound)))
    if op in ("<", "<="):
        return interval(MINUS_INFINITY, bound, "(]" if op == "<=" else "()")
    return interval(bound, INFINITY, "[)" if op == ">=" else "()")


_READ: dict[str, Callable[[Node], Node]] = {
    "tuple": _tuple,
    "set": _finite,
    "setop": _operation,
    "space": _space,
    "list": _listed,
    "builder": _builder,
    "rel": _relation,
}


def variable(node: Node) -> str:
    """The variable that a condition speaks of, or ""."""
    for part in walk(node):
        if part[0] == "rel":
            names = [side[1] for side in part[2:] if side[0] == "sym"]
            if names:
                return names[0]
    return ""


def equal(a: Node, b: Node, value: Callable[[Node], object]) -> bool:
    """Whether two sets (from `read`) are equal.  `value` gives a finite end point as a number."""
    ends = {end for part in walk(a) for end in _ends(part)}
    ends |= {end for part in walk(b) for end in _ends(part)}
    finite = [end for end in ends if not _is_infinite(end)]
    if len(finite) > 60:
        raise Undecided
    numbers = sorted(((value(end), end) for end in finite), key=lambda pair: pair[0])
    cell, count = {}, 0
    for k, (number, end) in enumerate(numbers):
        count += k == 0 or not _close(number, numbers[k - 1][0])
        cell[end] = 2 * count - 1
    for end in ends:
        if _is_infinite(end):
            cell[end] = -1 if end == MINUS_INFINITY else 2 * count + 1
    return all(_holds(a, c, cell) == _holds(b, c, cell) for c in range(2 * count + 1))


def _close(x, y) -> bool:
    """Equal, or equal but for rounding where the numbers are not exact."""
    if isinstance(x, Fraction):
        return x == y
    return abs(x - y) <= abs(x) * 2.0**-300


def _is_infinite(end: Node) -> bool:
    return any(part == INFINITY for part in walk(end))


def _ends(part: Node) -> tuple[Node, ...]:
    if part[0] == "interval":
        return part[2:]
    return part[1:] if part[0] == "points" else ()


def _holds(node: Node, c: int, cell: dict[Node, int]) -> bool:
    if node[0] == "points":
        return any(cell[end] == c for end in node[1:])
    if node[0] == "interval":
        low, high = cell[node[2]], cell[node[3]]
        if low < c < high:
            return True
        return (c == low and node[1][0] == "[") or (c == high and node[1][1] == "]")
    left, right = _holds(node[1], c, cell), _holds(node[2], c, cell)
    return {"join": left or right, "meet": left and right, "less": left and not right}[node[0]]
