r"""Labels and lists: what an assignment names, the members of a list, both readings of ``\pm``."""

from __future__ import annotations

import itertools
import re
from fractions import Fraction

from rlvr_jax.rewards.math_stream import APPLIED, Node, walk
from rlvr_jax.rewards.math_units import word_set

_DOTS = ("dots",)
_MAX_FILLED = 1000
# functions of a bare name that say which quantity is meant: |AB|, floor(x), det A, sin(theta)
_QUANTITIES = word_set(
    "abs norm floor ceil det dim max min gcd lcm arg Re Im sin cos tan cot sec csc"
)


def label(node: Node) -> tuple[Node, Node] | None:
    """(label, value) of an assignment such as ``x = 5``, ``5 = x``, ``|z| = 7``; else None."""
    if node[0] != "rel" or node[1] not in ("=", "approx", "equiv") or len(node) != 4:
        return None
    for name, value in ((node[2], node[3]), (node[3], node[2])):
        if is_name(name) and name not in walk(value):
            return name, value
    told = is_quantity(node[2]) and not is_name(node[2])
    return (node[2], node[3]) if told else None


_DENIALS = word_set(
    "not no nor isn't wrong incorrect false never neither either except unless cannot or maybe "
    "perhaps instead"
)


def is_name(node: Node) -> bool:
    if node[0] == "text":
        return not _DENIALS & set(re.findall(r"[\w']+", node[1]))
    return node[0] == "sym" or (node[0] == "fn" and node[1].rstrip("'") in APPLIED)


def is_quantity(node: Node) -> bool:
    r"""A name, or what stands for a number without saying which: ``|AB|``, ``\int_0^1 f(x)dx``."""
    if is_name(node) or node[0] == "big":
        return True
    if node[0] != "fn" or node[1] not in _QUANTITIES or not all(map(_bare, node[2:])):
        return False
    # |x| = 5 and sin x = 1/2 are equations still to be solved; |z| = 5 says which number is meant
    unknown = any(part[1:] in (("x",), ("y",)) for part in walk(node))
    return not unknown or node[1] in ("floor", "ceil", "max", "min")


def _bare(node: Node) -> bool:
    return all(map(is_name, node[1:])) if node[0] == "mul" else is_name(node)


def stated(node: Node, whole: bool = False) -> Node:
    """What an answer states: its labels, and all but the last member of a chain, taken off.

    whole: an equation without a label is the answer itself.
    """
    if node[0] in ("list", "set"):
        fixed = 2 if node[0] == "list" else 1
        return (*node[:fixed], *(stated(item, whole) for item in node[fixed:]))
    if node[0] != "rel":
        return node
    found = label(node)
    if found:
        return found[1]
    ops = node[1].split()
    if whole or not set(ops) <= {"=", "approx"}:
        return node
    return node[2 + ops.index("approx")] if "approx" in ops else node[-1]


def labelled(node: Node, alphabetical: bool = False) -> list[Node] | None:
    """The values of a list in which every member has a label of its own, in the order written.

    alphabetical: by label where the labels are neighbours in the alphabet (y = 3, x = 2 is (2, 3)).
    """
    found = [label(item) for item in node[2:]] if node[0] == "list" else []
    if len(found) < 2 or not all(found) or len({name for name, _ in found}) < 2:
        return None
    if alphabetical:
        names = sorted(str(name[1]) for name, _ in found)
        if len(set(names)) < len(names):
            return None
        if "".join(names) in "abcdefghijklmnopqrstuvwxyz":
            found = sorted(found, key=lambda pair: str(pair[0][1]))
    return [value for _, value in found]


def has_symbol(node: Node) -> bool:
    return any(part[0] in ("sym", "text") for part in walk(node))


def substitute(node: Node, env: dict[str, Node]) -> Node:
    """The node with other nodes for its variables."""
    if node[0] == "sym":
        return env.get(node[1], node)
    return tuple(substitute(part, env) if type(part) is tuple else part for part in node)


def members(node: Node) -> list[Node] | None:
    """The members of a list or set, labels taken off (``n = 2, 3``; ``x = 2`` or ``x = 3``), ± read
    as two values; None for a single value."""
    if node[0] not in ("list", "set"):
        both = expand(node)
        return both if len(both) > 1 else None
    items = list(node[2:] if node[0] == "list" else node[1:])
    labels = [label(item) for item in items]
    names = {found[0] for found in labels if found}
    if len(names) == 1 and (all(labels) or not any(labels[1:])):
        items = [found[1] if found else item for found, item in zip(labels, items, strict=True)]
    return [one for item in _filled(items) for one in expand(item)]


def _filled(items: list[Node]) -> list[Node]:
    """1, 2, ..., 5 written out, where whole numbers in even steps leave no doubt."""
    if items.count(_DOTS) != 1 or len(items) < 4 or items[-2] != _DOTS:
        return items
    values = [item[1] for item in items if item[0] == "num"]
    steps = {b - a for a, b in itertools.pairwise(values[:-1])}
    if len(values) != len(items) - 1 or len(steps) != 1 or (len(values) < 4 and steps != {1}):
        return items
    (step,), last = steps, values[-1]
    count = (last - values[0]) / step if step else Fraction(0)
    if count.denominator != 1 or not len(values) - 2 < count < _MAX_FILLED:
        return items
    return [("num", values[0] + step * k) for k in range(int(count) + 1)]


def expand(node: Node) -> list[Node]:
    r"""Both readings of ``\pm``; several are independent, unless ``\mp`` (the opposite) occurs."""
    signs = [part for part in walk(node) if part[0] == "pm"]
    if not signs:
        return [node]
    linked = any(part[1] == "mp" for part in signs) or len(signs) > 4
    if linked:
        found = [_sign(node, 1, every=True), _sign(node, -1, every=True)]
    else:
        found = [one for s in (1, -1) for one in expand(_sign(node, s, every=False))]
    return found


def _sign(node: Node, sign: int, every: bool) -> Node:
    """The node with one sign chosen for the first ± (or for every one)."""
    if node[0] == "pm":
        plus = (node[1] == "pm") == (sign > 0)
        left, right = (_sign(p, sign, every) for p in node[2:]) if every else node[2:]
        right = right if plus else ("neg", right)
        return right if left == ("num", Fraction(0)) else ("add", left, right)
    parts, done = [], False
    for part in node:
        if type(part) is tuple and not done:
            new = _sign(part, sign, every)
            done = not every and new != part
            part = new
        parts.append(part)
    return tuple(parts)
