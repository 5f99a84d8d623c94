"""Equality by evaluation at several points with many digits, where the exact stage is undecided.

Runs in a worker process.  Two expressions are the same if they agree at every sample point at which
both have a value, to within rounding, at 400 bits and once at 1200.  Each value carries a
bound of its rounding error, so 10^-18 is never 10^-19, and sin(pi) is found to be 0.
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
MARGIN = (
    2**16
)  # the error bound is first order; differences up to MARGIN times it count as rounding
MAX_LOG2 = 2.0**40  # of any magnitude
_POINTS = 14
_ENOUGH = 3  # points at which both sides must have a value


@functools.lru_cache(maxsize=4)
def _context(bits: int):
    """An mpmath context of its own, never the global one."""
    import mpmath  # only workers pay for the import

    context = mpmath.mp.clone()
    context.prec = bits
    return context


class Evaluator:
    """Evaluates trees at one point; each value has an error bound (running error analysis)."""

    def __init__(self, bits: int, env: dict[str, Fraction], complex_values: bool):
        self.mp = _context(bits)
        self.unit = self.mp.mpf(2) ** (1 - bits)
        self.env = env
        self.complex = complex_values

    def value(self, node: Node) -> tuple:
        """(value, error); Undefined, TooBig, or Undecided for kinds that have none."""
        rule = _RULES.get(node[0])
        if rule is None:
            raise Undecided
        value, error = rule(self, node)
        if self.mp.isnan(value) or self.mp.isinf(value):
            raise Undefined
        return value, error + abs(value) * self.unit

    def exact(self, q: Fraction) -> tuple:
        return self.mp.mpf(q.numerator) / q.denominator, self.mp.mpf(0)

    def real_part(self, value):
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


def _number(e: Evaluator, node: Node) -> tuple:
    return e.exact(node[1])


def _symbol(e: Evaluator, node: Node) -> tuple:
    return e.exact(e.env[node[1]])


def _constant(e: Evaluator, node: Node) -> tuple:
    if node[1] == "oo":
        raise Undecided
    value = {"pi": +e.mp.pi, "e": +e.mp.e}[node[1]] if node[1] != "i" else e.mp.mpc(0, 1)
    return value, e.mp.mpf(0)


def _sum(e: Evaluator, node: Node) -> tuple:
    total, error = e.mp.mpf(0), e.mp.mpf(0)
    for child in node[1:]:
        value, more = e.value(child)
        total += value
        error += more + abs(total) * e.unit
    return total, error


def _product(e: Evaluator, node: Node) -> tuple:
    total, error = e.mp.mpf(1), e.mp.mpf(0)
    for child in node[1:]:
        value, more = e.value(child)
        error = error * abs(value) + more * abs(total) + abs(total * value) * e.unit
        total *= value
    return total, error


def _quotient(e: Evaluator, node: Node) -> tuple:
    (top, top_error), (bottom, bottom_error) = e.value(node[1]), e.value(node[2])
    if abs(bottom) <= MARGIN * bottom_error:
        raise Undefined  # cannot be told from 0
    value = top / bottom
    return value, (top_error + abs(value) * bottom_error) / abs(bottom)


def _power(e: Evaluator, node: Node) -> tuple:
    exponent = rational(node[2])
    base, base_error = e.value(node[1])
    power, power_error = e.value(node[2]) if exponent is None else e.exact(exponent)
    if abs(base) <= MARGIN * base_error:  # cannot be told from 0
        if e.mp.re(power) > 0:
            return base * 0, (abs(base) + base_error) ** e.mp.re(power)
        raise Undefined
    log = abs(e.mp.log(base))
    if abs(power) * log > MAX_LOG2:
        raise TooBig
    value = _raise(e, base, power, exponent)
    relative = abs(power) * base_error / abs(base) + log * (power_error + abs(power) * e.unit)
    return value, abs(value) * relative


def _raise(e: Evaluator, base, power, exponent: Fraction | None):
    if e.mp.isint(power):
        return base ** int(e.mp.re(power))
    if exponent is not None and not e.complex and base < 0:
        if exponent.denominator % 2 == 0 or exponent.denominator > 10**6:
            raise Undefined
        # the real root, as school has it
        return (-e.mp.root(-base, exponent.denominator)) ** exponent.numerator
    return e.real_part(base**power)


def _root(e: Evaluator, node: Node) -> tuple:
    degree = rational(node[2])
    if degree is None or degree.denominator != 1 or not 0 < degree < 10**6:
        raise Undecided
    return _power(e, ("pow", node[1], ("num", 1 / degree)))


def _function(e: Evaluator, node: Node) -> tuple:
    rule = _FUNCTIONS.get(node[1])
    if rule is None:
        raise Undecided
    args = [e.value(arg) for arg in node[2:]]
    try:
        value = e.real_part(rule(e, *(x for x, _ in args)))
        error = abs(value) * 16 * e.unit
        for k, (x, step) in enumerate(args):
            if step and node[1] not in _STEPS:
                moved = [y + step if j == k else y for j, (y, _) in enumerate(args)]
                error += 2 * abs(rule(e, *moved) - value)
                # near 1 the inverse sine and cosine are steep: bound by the chord of 2 eps
                error += step if abs(x) != 1 else e.mp.sqrt(4 * step)
        return value, error
    except (ZeroDivisionError, ValueError) as fault:  # a pole, or outside the domain
        raise Undefined from fault
    except TypeError as fault:  # a wrong number of arguments
        raise Undecided from fault


def _log(e: Evaluator, x, base=None):
    if x == 0:
        raise Undefined
    return e.mp.log(x) if base is None else e.mp.log(x) / e.mp.log(base)


def _conjugate(e: Evaluator, z):
    if not e.mp.im(z):
        raise Undecided  # a bar over a real number is notation for something else
    return e.mp.conj(z)


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
    "overline": _conjugate,
    "max": lambda e, *x: max(x),
    "min": lambda e, *x: min(x),
    "gcd": _whole_only("gcd"),
    "lcm": _whole_only("lcm"),
    "factorial": _factorial,
    "binom": _binomial,
}

KNOWN = frozenset(_FUNCTIONS)  # functions that can be evaluated

_STEPS = frozenset({"floor", "ceil", "sgn", "gcd", "lcm"})  # constant between their jumps

_MINUS_ONE, _HUNDRED, _HALF_TURN = (("num", Fraction(n)) for n in (-1, 100, 180))
_RULES: dict[str, Callable] = {
    "num": _number,
    "sym": _symbol,
    "const": _constant,
    "neg": lambda e, n: _product(e, ("mul", _MINUS_ONE, n[1])),
    "add": _sum,
    "mul": _product,
    "div": _quotient,
    "pow": _power,
    "root": _root,
    "fn": _function,
    "pct": lambda e, n: _quotient(e, ("div", n[1], _HUNDRED)),
    "deg": lambda e, n: _product(e, ("mul", n[1], ("div", ("const", "pi"), _HALF_TURN))),
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
            if not _agree(a, b, point, PRECISIONS[:1] if agreed else PRECISIONS):
                return False
        except Undefined:
            continue
        agreed += 1
        if agreed >= (6 if names else 1):
            return True
    if agreed < (_ENOUGH if names else 1):
        raise Undefined
    return True


def _agree(a: Node, b: Node, point: dict[str, Fraction], precisions: tuple[int, ...]) -> bool:
    complex_values = has_i(a) or has_i(b)
    for bits in precisions:
        e = Evaluator(bits, point, complex_values)
        (left, error), (right, more) = e.value(a), e.value(b)
        if abs(left - right) > MARGIN * (error + more):
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
        (first, error), (ratio, more) = ratios[0], ratios[-1]
        if abs(ratio - first) > MARGIN * (error + more):
            return False
    if len(ratios) < _ENOUGH:
        raise Undefined
    value, error = ratios[0]
    return abs(value) > MARGIN * error


def real(node: Node):
    """The value of a real constant, for ordering; Undefined if it has none."""
    if variables(node):
        raise Undecided
    return Evaluator(PRECISIONS[0], {}, False).value(node)[0]
