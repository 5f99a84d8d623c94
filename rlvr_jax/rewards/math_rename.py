r"""Free names: the constant of integration and whole-number parameters may be called otherwise."""

from __future__ import annotations

from rlvr_jax.rewards.math_labels import stated, substitute
from rlvr_jax.rewards.math_stream import Node, walk
from rlvr_jax.rewards.math_units import word_set

_CONSTANTS = word_set("C K k c D A C_0 C_1")
_PARAMETERS = word_set("k n m")
_FREE = _PARAMETERS | {"C"}
_PI = ("const", "pi")


def renamed(answer: Node, gold: Node) -> Node:
    """The answer with the gold's name for its one free parameter, if both have one."""
    if not _names(gold) & _FREE:
        return answer
    mine, theirs = stated(answer), stated(gold)
    names, gold_names = _names(mine), _names(theirs)
    if len(names - gold_names) != 1 or len(gold_names - names) != 1:
        return answer
    (name,), (gold_name,) = names - gold_names, gold_names - names
    if gold_name == "C" and name in _CONSTANTS:
        free = _is_term(("sym", name), mine) and _is_term(("sym", "C"), theirs)
    else:
        free = {name, gold_name} <= _PARAMETERS and _whole(gold_name, theirs)
    return substitute(answer, {name: ("sym", gold_name)}) if free else answer


def _names(node: Node) -> set[str]:
    return {part[1] for part in walk(node) if part[0] == "sym"}


def _is_term(name: Node, node: Node) -> bool:
    return node[0] == "add" and name in node[1:]


def _whole(name: str, node: Node) -> bool:
    r"""Whether the name stands for every whole number: ``2k\pi``, or k \in Z is said."""
    if ("space", "Z") in walk(node):
        return True
    return any(
        part[0] == "mul" and ("sym", name) in walk(part) and _PI in walk(part)
        for part in walk(node)
    )
