r"""Labels and lists: what an assignment names, the members of a list, both readings of ``\pm``."""

from __future__ import annotations

from fractions import Fraction

from rlvr_jax.rewards.math_stream import Node, walk


def label(node: Node) -> tuple[Node, Node] | None:
    """(label, value) of an assignment such as ``x = 5``, ``5 = x``, ``f(x) = x^2``; else None."""
    if node[0] != "rel" or node[1] not in ("=", "approx") or len(node) != 4:
        return None
    for name, value in ((node[2], node[3]), (node[3], node[2])):
        plain = name[0] in ("sym", "text") or (name[0] == "fn" and name[1].rstrip("'") in "fghFGPp")
        if plain and name not in walk(value):
            return name, value
    return None


def has_symbol(node: Node) -> bool:
    return any(part[0] in ("sym", "text") for part in walk(node))


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
    return [one for item in items for one in expand(item)]


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
