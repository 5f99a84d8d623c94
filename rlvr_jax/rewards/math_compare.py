r"""Whether two trees name the same answer: labels, lists, sets, tuples, units, matrices, equations.

Structure is compared here; single expressions are left to a judge:

    judge.same(a, b)          equal expressions        judge.real(a)  value of an end point
    judge.proportional(a, b)  a = c b, c constant
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from rlvr_jax.rewards import math_sets
from rlvr_jax.rewards.math_field import Undecided, rational
from rlvr_jax.rewards.math_judge import ExactJudge, Judge
from rlvr_jax.rewards.math_labels import (
    has_symbol,
    is_name,
    is_quantity,
    label,
    labelled,
    members,
    substitute,
)
from rlvr_jax.rewards.math_stream import APPLIED, Node, walk
from rlvr_jax.rewards.math_units import SUFFIXES, parse_unit

MAX_UNORDERED = 12  # members matched pair by pair in the exact stage
_CONTAINERS = frozenset(
    {"list", "set", "tuple", "matrix", "det", "cases", "rel", "text", "ratio", "base", "builder"}
    | {"setop", "space", "dots"}
)
_BASES = dict(
    zip(
        ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "twelve"),
        ("2", "3", "4", "5", "6", "7", "8", "9", "10", "12"),
        strict=True,
    )
) | {"sixteen": "16"}


def value_of(node: Node, judge: Judge) -> Node | None:
    r"""The value that an equation states, or None.

    Of an assignment, of ``x \in S``; the last side of a chain whose other sides are equal to it or
    name it (``A = 2 \cdot 3 = 6``); and (equation_value) a constant last side where the other sides
    hold several unknowns (``a + b = 7``).
    """
    found = label(node)
    if found:
        return found[1]
    if node[0] != "rel":
        return None
    ops = node[1].split()
    if ops == ["in"]:
        return node[3]
    if "approx" in ops:
        return _exact_part(node, ops.index("approx"), judge)
    if set(ops) != {"="}:
        return None
    *sides, last = node[2:]
    unnamed = [side for side in sides if not is_quantity(side)]
    if has_symbol(last) and not unnamed:
        return None
    free = judge.equation_value and not has_symbol(last)
    for side in unnamed:
        several = len({p[1] for p in walk(side) if p[0] == "sym"}) > 1
        if not (free and several) and not equal(side, last, judge):
            return None  # unequal, or an equation in one unknown, still to be solved
    return last


def _exact_part(node: Node, at: int, judge: Judge) -> Node | None:
    r"""What stands before the first ``\approx``, if what follows is near it."""
    ops, sides = node[1].split(), node[2:]
    exact: Node | None = sides[0]
    if at:
        exact = value_of(("rel", " ".join(ops[:at]), *sides[: at + 1]), judge)
    if exact is None or has_symbol(exact) or set(ops[at:]) - {"approx", "="}:
        return None
    values = [side[1] if side[0] in ("unit", "deg", "pct") else side for side in (exact, *sides)]
    value, *others = (judge.real(v) for v in (values[0], *values[at + 2 :]))
    return exact if all(abs(other - value) * 20 <= abs(value) for other in others) else None


# ---- comparison ----------------------------------------------------------------------------------


def equal(a: Node, g: Node, judge: Judge) -> bool:
    """Whether answer `a` names the same as gold `g`.  Undecided, TooBig, Undefined pass through."""
    return _equal(_element(a, g), _element(g, a), judge)


def _element(node: Node, other: Node) -> Node:
    """The element of a set of one against no set.  At the top level only: {{1}} is not {1}."""
    single = node[0] == "set" and len(node) == 2 and other[0] != "set"
    single = single and not (math_sets.looks_like_set(other) and other[0] != "rel")
    return node[1] if single and node[1][0] not in ("set", "pm") else node


def _member(a: Node, g: Node, judge: Judge) -> bool:
    """Equality of members, where a set is never its element."""
    return (a[0] == "set") == (g[0] == "set") and _equal(a, g, judge)


def _equal(a: Node, g: Node, judge: Judge) -> bool:
    if a == g:
        return True
    if math_sets.looks_like_set(g) or math_sets.looks_like_set(a):
        found = _as_sets(a, g, judge)
        if found is not None:
            return found
    if "rel" in (a[0], g[0]):
        return _relations(a, g, judge)
    values = labelled(g)
    if values is not None and (a[0] == "set" or (a[0] == "list" and not labelled(a))):
        plain = a[0] == "list" and not any(map(label, a[2:]))
        return plain and _ordered(a[2:], values, judge)
    mine, theirs = members(a), members(g)
    if "tuple" in (a[0], g[0]) and not (mine and theirs):
        return _tuples(a, g, judge)
    if mine is not None or theirs is not None:
        dots = ("dots",) in (mine or []) + (theirs or [])
        match = _ordered if dots else _unordered
        distinct = "set" in (a[0], g[0])
        return match(mine or [a], theirs or [g], judge, distinct) if _sizes(a, g) else False
    return _single(a, g, judge)


def _sizes(a: Node, g: Node) -> bool:
    """An empty set equals only an empty set."""
    return (a == ("set",)) == (g == ("set",))


def _single(a: Node, g: Node, judge: Judge) -> bool:
    mine, theirs = _modulus(a), _modulus(g)
    if mine or theirs:
        return theirs is not None and _congruent(mine or (a, theirs[1]), theirs, bool(mine), judge)
    for kinds, rule in _RULES:
        if a[0] in kinds or g[0] in kinds:
            return rule(a, g, judge)
    if a[0] in _CONTAINERS or g[0] in _CONTAINERS:
        return False
    if a[0] == g[0] == "fn" and a[1] != g[1] and (a[1] in APPLIED or g[1] in APPLIED):
        return False  # O(n) is not Theta(n)
    if any(part == math_sets.INFINITY for node in (a, g) for part in walk(node)):
        return False  # infinities are equal only to the letter
    return judge.same(a, g)


def _modulus(node: Node) -> tuple[Node, Node] | None:
    r"""(residue, modulus) of ``7 \pmod{10}``"""
    if node[0] != "mul" or node[-1][:2] != ("fn", "pmod"):
        return None
    return (node[1] if len(node) == 3 else node[:-1]), node[-1][2]


def _congruent(
    mine: tuple[Node, Node], theirs: tuple[Node, Node], classes: bool, judge: Judge
) -> bool:
    """Equal classes; an answer without a modulus must be the residue itself."""
    if not judge.same(mine[1], theirs[1]):
        return False
    residue, gold, modulus = rational(mine[0]), rational(theirs[0]), rational(theirs[1])
    if not classes or None in (residue, gold) or not modulus:
        return judge.same(mine[0], theirs[0])
    return (residue - gold) % modulus == 0


def _as_sets(a: Node, g: Node, judge: Judge) -> bool | None:
    names = {name for name in (math_sets.variable(a), math_sets.variable(g)) if name}
    try:
        right = math_sets.read(g)
        left = math_sets.read(a)
    except math_sets.NotASet:
        solved = g[0] == "rel" and math_sets.readable(g)
        # an inequality against a solved one is still to be solved
        return False if solved and math_sets.is_ordering(a) else None
    return len(names) < 2 and math_sets.equal(left, right, judge.real)


def _ordered(mine: Sequence[Node], theirs: Sequence[Node], judge: Judge, distinct=False) -> bool:
    return len(mine) == len(theirs) and all(
        _member(a, g, judge) for a, g in zip(mine, theirs, strict=True)
    )


def _unordered(mine: list[Node], theirs: list[Node], judge: Judge, distinct: bool) -> bool:
    """Equal as multisets; with `distinct` as sets."""
    exact = [[rational(item) for item in items] for items in (mine, theirs)]
    if None not in exact[0] + exact[1]:
        left, right = exact
        return set(left) == set(right) if distinct else sorted(left) == sorted(right)
    if max(len(mine), len(theirs)) > MAX_UNORDERED and isinstance(judge, ExactJudge):
        raise Undecided
    if distinct:
        return _covers(mine, theirs, judge) and _covers(theirs, mine, judge)
    left = list(theirs)
    for item in mine:
        found = next((other for other in left if _member(item, other, judge)), None)
        if found is None:
            return False
        left.remove(found)
    return not left


def _covers(items: list[Node], others: list[Node], judge: Judge) -> bool:
    return all(any(_member(item, other, judge) for other in others) for item in items)


def _relations(a: Node, g: Node, judge: Judge) -> bool:
    mine, theirs = label(a), label(g)
    if a[0] != "rel" or g[0] != "rel":
        left = value_of(a, judge) if a[0] == "rel" else a
        right = value_of(g, judge) if g[0] == "rel" else g
        return left is not None and right is not None and equal(left, right, judge)
    if mine and theirs and mine[0] == theirs[0]:
        return equal(mine[1], theirs[1], judge)
    if mine and theirs and mine[0][0] == theirs[0][0] == "fn":
        return _functions(mine, theirs, judge)
    if theirs and is_name(theirs[0]) and not has_symbol(theirs[1]):
        return False  # x = 5 is solved; 2x = 10 and y = 5 are something else
    ops, sides = _directed(a)
    gold_ops, gold_sides = _directed(g)
    if ops == gold_ops and _ordered(sides, gold_sides, judge):
        return True
    if len(ops) != 1 or ops != gold_ops or ops[0] not in ("=", "!=", "<", "<="):
        return False
    left, right = (("add", s[0], ("neg", s[1])) for s in (sides, gold_sides))
    if any(p[0] in _CONTAINERS for side in (left, right) for p in walk(side)):
        return False
    return judge.proportional(left, right) and (ops[0] in ("=", "!=") or _same_sign(left, right))


def _functions(mine: tuple[Node, Node], theirs: tuple[Node, Node], judge: Judge) -> bool:
    """f(x) = x + 1 and f(n) = n + 1: the names of the arguments are free."""
    (call, value), (gold_call, gold_value) = mine, theirs
    arguments = [part[1] for part in call[2:] + gold_call[2:] if part[0] == "sym"]
    if call[1] != gold_call[1] or len(call) != len(gold_call):
        return False
    if len(arguments) != 2 * len(call[2:]) or len(set(arguments)) < len(arguments):
        return False
    if {part[1] for part in walk(gold_value)} & set(arguments[: len(call) - 2]):
        return False
    names = dict(zip(arguments[: len(call) - 2], gold_call[2:], strict=True))
    return _equal(substitute(value, names), gold_value, judge)


def _directed(node: Node) -> tuple[list[str], list[Node]]:
    """Signs and sides with every > turned round."""
    ops, sides = node[1].split(), list(node[2:])
    if all(op in (">", ">=") for op in ops):
        return [{">": "<", ">=": "<="}[op] for op in reversed(ops)], sides[::-1]
    return ops, sides


def _same_sign(a: Node, b: Node) -> bool:
    """Whether the constant ratio of two proportional expressions is positive."""
    names = sorted({part[1] for part in walk(a) if part[0] == "sym"})
    for point in ((3, 7, 11, 2), (5, 1, 9, 4)):
        env = {name: ("num", Fraction(point[k % 4] + k)) for k, name in enumerate(names)}
        left, right = rational(substitute(a, env)), rational(substitute(b, env))
        if left and right:
            return left * right > 0
    raise Undecided


def _tuples(a: Node, g: Node, judge: Judge) -> bool:
    if a[0] == g[0] == "tuple":
        same_kind = a[1] == g[1] or len(a) > 4
        return same_kind and _ordered(a[2:], g[2:], judge)
    pair, other = (a, g) if a[0] == "tuple" else (g, a)
    if pair[1] not in ("()", "[]"):
        return False
    if other[0] == "list":
        if pair[1] == "[]" and len(pair) == 4:
            return False  # an interval, not its end points
        values = labelled(other, alphabetical=True)  # x = 2, y = 3 against (2, 3)
        if values is None:
            if pair is a or any(map(label, other[2:])):
                return False  # a list has no order; x = 0, 1 are two values of x
            values = list(other[2:])
    elif other[0] == "matrix" and pair[1] == "[]" and other[1] > 1:
        return _matrices(a, g, judge)
    elif other[0] == "matrix" and other[1] == 1:
        values = list(other[2:])
    else:
        return False
    mine, theirs = (pair[2:], values) if pair is a else (values, pair[2:])
    return _ordered(mine, theirs, judge)


def _as_matrix(node: Node) -> Node:
    """A scaled matrix multiplied out; [[1, 2], [3, 4]] as a matrix; else the node."""
    if node[0] == "mul" and sum(part[0] == "matrix" for part in node[1:]) == 1:
        rest = [part for part in node[1:] if part[0] != "matrix"]
        matrix = next(part for part in node[1:] if part[0] == "matrix")
        return (*matrix[:2], *(("mul", *rest, cell) for cell in matrix[2:]))
    if node[0] == "neg" and node[1][0] == "matrix":
        return (*node[1][:2], *(("neg", cell) for cell in node[1][2:]))
    if node[0] == "tuple" and {(row[0], len(row)) for row in node[2:]} == {("tuple", len(node[2]))}:
        return ("matrix", len(node[2]) - 2, *(cell for row in node[2:] for cell in row[2:]))
    return node


def _matrices(a: Node, g: Node, judge: Judge) -> bool:
    a, g = _as_matrix(a), _as_matrix(g)
    return a[0] == g[0] and a[1] == g[1] and _ordered(a[2:], g[2:], judge)


def _ratios(a: Node, g: Node, judge: Judge) -> bool:
    if a[0] != g[0]:
        if g[0] in ("num", "neg") and (rational(g) or Fraction(0)).denominator == 1:
            return False  # 5:1 is no way to write 5
        parts = [("div", *n[1:]) if n[0] == "ratio" and len(n) == 3 else n for n in (a, g)]
        return "ratio" not in (parts[0][0], parts[1][0]) and _single(*parts, judge)
    if _ordered(a[1:], g[1:], judge):
        return True
    if len(a) != len(g) or any(part[0] in _CONTAINERS for n in (a, g) for part in n[1:]):
        return False
    cross = [(("mul", a[k], g[1]), ("mul", g[k], a[1])) for k in range(2, len(a))]
    nonzero = all(rational(part) != 0 for n in (a, g) for part in n[1:])
    return nonzero and all(judge.same(x, y) for x, y in cross)


def _bases(a: Node, g: Node, judge: Judge) -> bool:
    """Digits in a written base: the same digits and base, or the base left out by the answer."""
    if g[0] != "base":
        return False
    digits = g[1].lstrip("0")
    if a[0] == "base":
        mine, theirs = (_BASES.get(n[2], n[2]) for n in (a, g))
        return a[1].lstrip("0") == digits and mine == theirs
    return a[0] == "num" and str(a[1]) == digits


def _units(a: Node, g: Node, judge: Judge) -> bool:
    value, gold = (n[1] if n[0] == "unit" else n for n in (a, g))
    if a[0] == "mul" and a[-1] == ("sym", g[2]):  # 5m for 5 metres
        return _equal(a[1] if len(a) == 3 else a[:-1], gold, judge)
    if a[0] != g[0]:
        if "deg" in (value[0], gold[0]) and "rad" in (a[2] if a[0] == "unit" else g[2]):
            return judge.same(value, gold)
        if a[0] == "unit" and a[2] in SUFFIXES:  # 5K may be 5000, never 5
            value = ("mul", value, ("num", Fraction(SUFFIXES[a[2]])))
        return not judge.require_units and equal(value, gold, judge)
    (key, factor), (gold_key, gold_factor) = parse_unit(a[2]), parse_unit(g[2])
    if key != gold_key:
        return False
    if factor == gold_factor:
        return equal(value, gold, judge)
    scaled = (("mul", value, ("num", factor)), ("mul", gold, ("num", gold_factor)))
    return judge.same(*scaled)


def _percent(a: Node, g: Node, judge: Judge) -> bool:
    """A sign on one side only: equal in value, or (numbers above 1) the answer leaves it out."""
    if _single_value(a, g, judge):
        return True
    if a[0] == g[0] or judge.require_units:
        return False
    if g[0] != "pct":
        return judge.percent_asked and judge.same(a[1], g)
    number = rational(a)
    return number is not None and abs(number) > 1 and judge.same(a, g[1])


def _degrees(a: Node, g: Node, judge: Judge) -> bool:
    """Degrees against radians in value, or the degree sign left out."""
    if a[0] == g[0]:
        return judge.same(a[1], g[1])
    bare, other = (a, g[1]) if g[0] == "deg" else (g, a[1])
    if rational(bare) is not None and rational(other) is not None:
        return not judge.require_units and judge.same(bare, other)
    return _single_value(a, g, judge)


def _single_value(a: Node, g: Node, judge: Judge) -> bool:
    if a[0] in _CONTAINERS or g[0] in _CONTAINERS:
        return False
    return judge.same(a, g)


_RULES: tuple[tuple[tuple[str, ...], Callable[[Node, Node, Judge], bool]], ...] = (
    (("text", "dots"), lambda a, g, judge: False),
    (("base",), _bases),
    (("ratio",), _ratios),
    (("matrix", "det", "cases"), _matrices),
    (("unit",), _units),
    (("pct",), _percent),
    (("deg",), _degrees),
)
