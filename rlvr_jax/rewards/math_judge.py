"""Who decides on single expressions: the interface, and the exact judge."""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol

from rlvr_jax.rewards.math_field import Undecided, images, rational, same
from rlvr_jax.rewards.math_stream import Node


class Judge(Protocol):
    """Decides on single expressions."""

    equation_value: bool
    require_units: bool
    percent_asked: bool

    def same(self, a: Node, b: Node) -> bool: ...
    def proportional(self, a: Node, b: Node) -> bool: ...
    def real(self, node: Node) -> object: ...


class ExactJudge:
    """Decides exactly and in bounded time, or raises Undecided.

    tolerance: relative error allowed against a gold that is a rational but no integer.
    """

    def __init__(
        self, equation_value=True, require_units=False, tolerance=0.0, percent_asked=False
    ):
        self.percent_asked = percent_asked
        self.equation_value = equation_value
        self.require_units = require_units
        self.tolerance = Fraction(tolerance)

    def same(self, a: Node, b: Node) -> bool:
        if self.tolerance:
            left, right = rational(a), rational(b)
            if left is not None and right is not None and right.denominator != 1:
                return abs(left - right) <= self.tolerance * abs(right)
        return same(a, b)

    def proportional(self, a: Node, b: Node) -> bool:
        (x, y), p, _ = images([a, b], seed=1)
        (u, v), q, opaque = images([a, b], seed=2)
        if p != q:
            raise Undecided
        if not (x and y):
            return False
        if (x * v - u * y) % p == 0:
            return True
        if opaque:
            raise Undecided
        return False

    def real(self, node: Node) -> object:
        value = rational(node)
        if value is None:
            raise Undecided
        return value
