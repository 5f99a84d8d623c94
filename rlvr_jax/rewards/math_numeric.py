"""Equality by evaluation at several points with many digits, where the exact stage is undecided.

Runs in a worker process.  Two expressions are the same if they agree at every sample point at which
both have a value, to within rounding, at two precisions (400 and 1200 bits).  The tolerance is
relative to the largest intermediate value, so 10^-18 is never 10^-19 and an exact zero is found.
Values are real unless the imaginary unit occurs; where a real expression has no real value
(logarithm of a negative number) the point does not count.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from fractions import Fraction

from rlvr_jax.rewards.math_field import TooBig, Undecided, Undefined, rational
from rlvr_jax.rewards.math_form import has_i
from rlvr_jax.rewards.math_stream import Node, walk

PRECISIONS = (400, 1200)
SLACK = 60  # bits of rounding allowed
MAX_LOG2 = 2.0**40  # of any magnitude
_POINTS = 14
_ENOUGH = 3  # points at which both sides must have a value


class Evaluator:
    """Evaluates trees at one point.  scale: the largest magnitude met so far."""

    def __init__(self, bits: int, env: dict[str, Fraction], complex_values: bool):
        import mpmath  # only workers pay for the import

        self.mp = mpmath.mp.clone()
        self.mp.prec = bits
        self.env = env
        self.complex = complex_values
        self.scale = self.mp.mpf(0)

    def value(self, node: Node):
        """The value; Undefined, TooBig, or Undecided for kinds that have none."""
        rule = _RULES.get(node[0])
        if rule is None:
            raise Undecided
        value = rule(self, node)
        if self.mp.isnan(value) or self.mp.isinf(value):
            raise Undefined
        self.scale = max(self.scale, abs(value))
        return value

    def exact(self, q: Fraction):
        return self.mp.mpf(q.numerator) / q.denominator

    def checked(self, value):
        """A complex value where only real ones count is no value."""
        if not self.complex and isinstance(value, self.mp.mpc):
            if value.imag:
                raise Undefined
            return value.real
        return value

    def moderate(self, value):
        """An argument that functions can reduce in bounded time."""
        if abs(value) > 2**64:
            raise TooBig
        return value


def _number(e: Evaluator, node: Node):
    return e.exact(node[1])


def _symbol(e: Evaluator, node: Node):
    return e.exact(e.env[node[1]])


def _constant(e: Evaluator, node: Node):
    if node[1] == "oo":
        raise Undecided
    return {"pi": +e.mp.pi, "e": +e.mp.e}[node[1]] if node[1] != "i" else e.mp.mpc(0, 1)


def _fold(operation: Callable) -> Callable:
    def rule(e: Evaluator, node: Node):
        return functools.reduce(operation, (e.value(child) for child in node[1:]))

    return rule


def _quotient(e: Evaluator, node: Node):
    top, bottom = e.value(node[1]), e.value(node[2])
    if abs(bottom) <= e.scale * e.mp.mpf(2) ** (SLACK - e.mp.prec):
        raise Undefined
    return top / bottom


def _power(e: Evaluator, node: Node):
    exponent = rational(node[2])
    base = e.value(node[1])
    power = e.value(node[2]) if exponent is None else e.exact(exponent)
    if base == 0:
        if e.mp.re(power) > 0:
            return base
        raise Undefined
    if abs(power) * abs(e.mp.log(abs(base), 2)) > MAX_LOG2:
        raise TooBig
    whole = e.mp.isint(power)
    if exponent is not None and not whole and not e.complex and base < 0:
        if exponent.denominator % 2:  # the real root, as school has it
            root = -e.mp.root(-base, exponent.denominator)
            return root**exponent.numerator
        raise Undefined
    return e.checked(base ** (int(e.mp.re(power)) if whole else power))


def _root(e: Evaluator, node: Node):
    degree = rational(node[2])
    base = e.value(node[1])
    if degree is None or degree.denominator != 1 or not 0 < degree < 10**6:
        raise Undecided
    if not e.complex and base < 0:
        if degree % 2:
            return -e.mp.root(-base, int(degree))
        raise Undefined
    return e.mp.root(base, int(degree))


def _function(e: Evaluator, node: Node):
    name, args = node[1], [e.value(arg) for arg in node[2:]]
    rule = _FUNCTIONS.get(name)
    if rule is None:
        raise Undecided
    try:
        return e.checked(rule(e, *args))
    except (ZeroDivisionError, ValueError) as error:  # a pole, or outside the domain
        raise Undefined from error
    except TypeError as error:  # a wrong number of arguments
        raise Undecided from error


def _log(e: Evaluator, x, base=None):
    if x == 0:
        raise Undefined
    return e.mp.log(x) if base is None else e.mp.log(x) / e.mp.log(base)


def _factorial(e: Evaluator, x):
    if abs(x) > 10**6:
        raise TooBig
    return e.mp.gamma(x + 1)


def _binomial(e: Evaluator, n, k):
    if max(abs(n), abs(k)) > 10**6:
        raise TooBig
    return e.mp.binomial(n, k)


def _whole_only(name: str) -> Callable:
    def rule(e: Evaluator, *args):
        if not all(e.mp.isint(x) for x in args):
            raise Undecided
        if max(map(abs, args)) > e.mp.mpf(2) ** 4000:
            raise TooBig
        value = rational(("fn", name, *(("num", Fraction(int(x))) for x in args)))
        return e.mp.mpf(int(value))

    return rule


def _plain(name: str) -> Callable:
    return lambda e, x: getattr(e.mp, name)(e.moderate(x))


_FUNCTIONS: dict[str, Callable] = {
    **{name: _plain(name) for name in ("sin", "cos", "tan", "cot", "sec", "csc")},
    **{name: _plain(name) for name in ("sinh", "cosh", "tanh", "coth", "sech", "csch")},
    **{f"arc{n}": _plain(f"a{n}") for n in ("sin", "cos", "tan", "cot", "sec", "csc")},
    **{f"arc{n}": _plain(f"a{n}") for n in ("sinh", "cosh", "tanh")},
    "ln": _log,
    "log": _log,
    "abs": lambda e, x: abs(x),
    "norm": lambda e, x: abs(x),
    "floor": lambda e, x: e.mp.floor(e.moderate(x)),
    "ceil": lambda e, x: e.mp.ceil(e.moderate(x)),
    "sgn": lambda e, x: e.mp.sign(x),
    "Re": lambda e, x: e.mp.re(x),
    "Im": lambda e, x: e.mp.im(x),
    "overline": lambda e, x: e.mp.conj(x),
    "max": lambda e, *x: max(x),
    "min": lambda e, *x: min(x),
    "gcd": _whole_only("gcd"),
    "lcm": _whole_only("lcm"),
    "factorial": _factorial,
    "binom": _binomial,
}

KNOWN = frozenset(_FUNCTIONS)  # functions that can be evaluated

_RULES: dict[str, Callable] = {
    "num": _number,
    "sym": _symbol,
    "const": _constant,
    "neg": lambda e, n: -e.value(n[1]),
    "add": _fold(lambda a, b: a + b),
    "mul": _fold(lambda a, b: a * b),
    "div": _quotient,
    "pow": _power,
    "root": _root,
    "fn": _function,
    "pct": lambda e, n: e.value(n[1]) / 100,
    "deg": lambda e, n: e.value(n[1]) * e.mp.pi / 180,
}


def variables(*nodes: Node) -> list[str]:
    return sorted({n[1] for node in nodes for n in walk(node) if n[0] == "sym"})


def points(names: list[str]) -> list[dict[str, Fraction]]:
    """Sample points: positive, mixed in sign, large, small and whole, always the same ones."""
    rng = random.Random(20250)
    found = []
    for k in range(_POINTS if names else 1):
        low, high = ((1, 300), (-300, 300), (100, 3000), (1, 97))[k % 4]
        point = {}
        for name in names:
            value = Fraction(rng.randint(low, high) * 2 + 1, 97)
            point[name] = Fraction(rng.randint(1, 9)) if k % 5 == 4 else value
        found.append(point)
    return found


def same(a: Node, b: Node) -> bool:
    """Whether both agree wherever both have a value.  Undecided, TooBig, Undefined if not known."""
    names, agreed = variables(a, b), 0
    for point in points(names):
        try:
            if not _agree(a, b, point):
                return False
        except Undefined:
            continue
        agreed += 1
        if agreed >= (6 if names else 1):
            return True
    if agreed < (_ENOUGH if names else 1):
        raise Undefined
    return True


def _agree(a: Node, b: Node, point: dict[str, Fraction]) -> bool:
    complex_values = has_i(a) or has_i(b)
    for bits in PRECISIONS:
        e = Evaluator(bits, point, complex_values)
        left, right = e.value(a), e.value(b)
        if abs(left - right) > e.scale * e.mp.mpf(2) ** (SLACK - bits):
            return False
    return True


def proportional(a: Node, b: Node) -> bool:
    """Whether a = c b with a constant c other than 0."""
    ratios = []
    for point in points(variables(a, b)):
        e = Evaluator(PRECISIONS[0], point, has_i(a) or has_i(b))
        try:
            ratios.append(e.value(("div", a, b)))
        except Undefined:
            continue
        if abs(ratios[-1] - ratios[0]) > abs(ratios[0]) * e.mp.mpf(2) ** (2 * SLACK - e.mp.prec):
            return False
    if len(ratios) < _ENOUGH:
        raise Undefined
    return ratios[0] != 0


def real(node: Node):
    """The value of a real constant, for ordering; Undefined if it has none."""
    if variables(node):
        raise Undecided
    return Evaluator(PRECISIONS[0], {}, False).value(node)
