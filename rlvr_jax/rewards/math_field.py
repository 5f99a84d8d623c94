r"""Exact equality of expressions in bounded time: rationals, then arithmetic modulo a large prime.

`rational` evaluates exactly where the value is a rational of moderate size.  `same` maps both sides
by one ring homomorphism into the integers modulo a prime p near 2^89: variables, pi and e become
random elements, i a root of -1, sqrt(q) a root of q.  Equal expressions have equal images.  Unequal
ones (rational functions of degree d) collide with probability about d/p (Schwartz 1980, Zippel
1979).  Huge powers cost a modular power; nothing grows.  Other functions get a random value for
each (name, arguments): equal images still mean equal, unequal ones mean nothing (`Undecided`).
"""

from __future__ import annotations

import functools
import hashlib
import math
from fractions import Fraction

from rlvr_jax.rewards.math_stream import Node, children

MAX_BITS = 40_000  # of an exact rational
MAX_EXPONENT = 10**18
_TRIAL = 20_000  # radicands are factored by trial division up to here


class Undecided(Exception):
    """The exact stage cannot tell."""


class TooBig(Exception):
    """A number beyond the guards: no such answer is accepted."""


class Undefined(Exception):
    """The expression has no value (division by zero)."""


class _OtherPrime(Exception):
    """A radicand has no root modulo this prime."""


# ---- exact rationals -----------------------------------------------------------------------------


def rational(node: Node) -> Fraction | None:
    """The exact value if it is a rational of at most MAX_BITS bits, else None."""
    rule = _RATIONAL.get(node[0])
    value = rule(node) if rule else None
    if value is not None and max(value.numerator.bit_length(), value.denominator.bit_length()) > (
        MAX_BITS
    ):
        return None
    return value


def _values(node: Node) -> list[Fraction] | None:
    values = []
    for child in children(node):
        value = rational(child)
        if value is None:
            return None
        values.append(value)
    return values


def _all(function):
    """A rule that needs the values of all children."""

    def rule(node: Node) -> Fraction | None:
        values = _values(node)
        return None if values is None else function(*values)

    return rule


def _power(base: Fraction, exponent: Fraction) -> Fraction | None:
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    if base in (0, 1, -1):
        bits = 1
    if abs(exponent) * bits > MAX_BITS or (base == 0 and exponent <= 0):
        return None
    if exponent.denominator == 1:
        return base ** int(exponent)
    root = _exact_root(base, exponent.denominator)
    return None if root is None else root**exponent.numerator


def _exact_root(value: Fraction, degree: int) -> Fraction | None:
    """The real root if it is rational."""
    if degree < 1 or degree > 64 or (value < 0 and degree % 2 == 0):
        return None
    parts = []
    for n in (abs(value.numerator), value.denominator):
        root = _integer_root(n, degree)
        if root**degree != n:
            return None
        parts.append(root)
    return Fraction(parts[0] if value >= 0 else -parts[0], parts[1])


def _integer_root(n: int, degree: int) -> int:
    if degree == 2:
        return math.isqrt(n)
    low, high = 0, 1 << (n.bit_length() // degree + 1)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if middle**degree <= n else (low, middle - 1)
    return low


def _root(base: Fraction, degree: Fraction) -> Fraction | None:
    return _exact_root(base, int(degree)) if degree.denominator == 1 else None


def _quotient(top: Fraction, bottom: Fraction) -> Fraction | None:
    return top / bottom if bottom else None


def _whole(*values: Fraction) -> bool:
    return all(v.denominator == 1 for v in values)


def _function(node: Node) -> Fraction | None:
    values = _values(node)
    if values is None:
        return None
    name = node[1]
    if name == "factorial" and _whole(*values) and 0 <= values[0] <= 2000:
        return Fraction(math.factorial(int(values[0])))
    if name == "binom" and _whole(*values) and 0 <= values[1] <= values[0] <= 2000:
        return Fraction(math.comb(int(values[0]), int(values[1])))
    if name in ("gcd", "lcm") and _whole(*values):
        return Fraction(getattr(math, name)(*map(int, values)))
    simple = {"abs": abs, "floor": math.floor, "ceil": math.ceil}.get(name)
    if simple and len(values) == 1:
        return Fraction(simple(values[0]))
    return {"max": max, "min": min}[name](values) if name in ("max", "min") else None


_RATIONAL = {
    "num": lambda node: node[1],
    "neg": _all(lambda a: -a),
    "add": _all(lambda *v: sum(v, Fraction(0))),
    "mul": _all(lambda *v: math.prod(v, start=Fraction(1))),
    "div": _all(_quotient),
    "pow": _all(_power),
    "root": _all(_root),
    "pct": _all(lambda a: a / 100),
    "fn": _function,
}


# ---- the field -----------------------------------------------------------------------------------


def _is_prime(n: int) -> bool:
    """Miller-Rabin with 12 fixed bases."""
    small = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
    if any(n % q == 0 for q in small):
        return False
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in small:
        x = pow(base, odd, n)
        if x in (1, n - 1):
            continue
        for _ in range(twos - 1):
            x = x * x % n
            if x == n - 1:
                break
        else:
            return False
    return True


@functools.lru_cache(maxsize=64)
def prime(index: int) -> int:
    """The index-th prime above 2^89 that is 1 modulo 8 (-1 and 2 have roots)."""
    n = 2**89 + 1 if index == 0 else prime(index - 1) + 8
    while not _is_prime(n):
        n += 8
    return n


@functools.lru_cache(maxsize=4096)
def _element(p: int, *key: object) -> int:
    """A fixed pseudo-random element for a key."""
    digest = hashlib.sha256(repr((p, key)).encode()).digest()
    return int.from_bytes(digest[:16], "big") % (p - 2) + 2


class Field:
    """The integers modulo one prime, with values for the variables.

    seed: another seed is another point.  opaque: set once a value was drawn for a function.
    """

    def __init__(self, index: int = 0, seed: int = 0):
        self.p = prime(index)
        self.seed = seed
        self.opaque = False

    def value(self, node: Node) -> int:
        """The image of the node."""
        rule = _FIELD.get(node[0], Field.draw)
        return rule(self, node)

    def draw(self, node: Node) -> int:
        """A random element for the kind, the names and the images of the children."""
        self.opaque = True
        key = [self.value(part) if type(part) is tuple else part for part in node]
        return _element(self.p, self.seed, *key)

    def inverse(self, value: int) -> int:
        if value % self.p == 0:
            raise Undefined
        return pow(value, -1, self.p)

    def sqrt(self, n: int) -> int:
        """A root of a small integer, the same for every expression.  Tonelli-Shanks."""
        root = _modular_root(n % self.p, self.p)
        if root is None:
            raise _OtherPrime
        return root


@functools.lru_cache(maxsize=4096)
def _modular_root(n: int, p: int) -> int | None:
    if pow(n, (p - 1) // 2, p) != 1:
        return None
    odd, twos = p - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    z = next(z for z in range(2, 999) if pow(z, (p - 1) // 2, p) == p - 1)
    c, root, t = pow(z, odd, p), pow(n, (odd + 1) // 2, p), pow(n, odd, p)
    while t != 1:
        order, square = 0, t
        while square != 1:
            square, order = square * square % p, order + 1
        b = pow(c, 1 << (twos - order - 1), p)
        twos, c = order, b * b % p
        t, root = t * c % p, root * b % p
    return root


def _number(f: Field, node: Node) -> int:
    return node[1].numerator * f.inverse(node[1].denominator) % f.p


def _symbol(f: Field, node: Node) -> int:
    return _element(f.p, f.seed, "sym", node[1])


def _constant(f: Field, node: Node) -> int:
    if node[1] == "oo":
        raise Undecided
    return f.sqrt(-1) if node[1] == "i" else _element(f.p, 0, "const", node[1])


def _product(f: Field, node: Node) -> int:
    result = 1
    for child in node[1:]:
        result = result * f.value(child) % f.p
    return result


def _field_power(f: Field, node: Node) -> int:
    exponent = rational(node[2])
    if exponent is None:
        return f.draw(node)
    if abs(exponent) > MAX_EXPONENT:
        raise TooBig
    if exponent.denominator == 1:
        base = f.value(node[1])
        if exponent < 0:
            base = f.inverse(base)
        if base == 0 and exponent == 0:
            raise Undefined
        return pow(base, abs(int(exponent)), f.p)
    root = _radical(f, node[1], exponent.denominator, node)
    return pow(f.inverse(root) if exponent < 0 else root, abs(exponent.numerator), f.p)


def _field_root(f: Field, node: Node) -> int:
    degree = rational(node[2])
    if degree is None or degree.denominator != 1 or not 2 <= degree <= 64:
        return f.draw(node)
    return _radical(f, node[1], int(degree), node)


def _radical(f: Field, base: Node, degree: int, node: Node) -> int:
    """A root of a rational: its prime factors' roots; of anything else, a drawn element."""
    value = rational(base)
    if value is None or value == 0:
        return 0 if value == 0 else f.draw(("radical", base, ("num", Fraction(degree))))
    if value < 0 and degree != 2:
        return f.draw(node)
    # n-th root of a/b is the n-th root of a*b^(n-1), over b
    whole = abs(value.numerator) * value.denominator ** (degree - 1)
    if whole.bit_length() > 2000:
        return f.draw(node)
    result = f.inverse(value.denominator)
    if value < 0:
        result = result * f.sqrt(-1) % f.p
    for q, power in _factor(whole):
        outside, inside = divmod(power, degree)
        result = result * pow(q, outside, f.p) % f.p
        if inside and degree == 2 and q < _TRIAL**2:
            result = result * f.sqrt(q) % f.p
        elif inside:
            f.opaque = True
            key = math.gcd(inside, degree)
            drawn = _element(f.p, "radical", q, degree // key)
            result = result * pow(drawn, inside // key, f.p) % f.p
    return result


@functools.lru_cache(maxsize=1024)
def _factor(n: int) -> tuple[tuple[int, int], ...]:
    """Factors by trial division; what is left counts as one factor."""
    found, q = [], 2
    while q * q <= n and q < _TRIAL:
        power = 0
        while n % q == 0:
            n, power = n // q, power + 1
        if power:
            found.append((q, power))
        q += 1 if q == 2 else 2
    if n > 1:
        root = math.isqrt(n)
        found.append((root, 2) if root * root == n else (n, 1))
    return tuple(found)


def _field_function(f: Field, node: Node) -> int:
    exact = rational(node)
    if exact is not None:
        return _number(f, ("num", exact))
    name = node[1]
    if name == "binom" and len(node) == 4:
        low = rational(node[3])
        if low is not None and low.denominator == 1 and 0 <= low <= 50:
            top, result = f.value(node[2]), 1
            for k in range(int(low)):
                result = result * (top - k) % f.p
            return result * f.inverse(math.factorial(int(low))) % f.p
    return f.draw(node)


_FIELD = {
    "num": _number,
    "sym": _symbol,
    "const": _constant,
    "neg": lambda f, n: -f.value(n[1]) % f.p,
    "add": lambda f, n: sum(f.value(c) for c in n[1:]) % f.p,
    "mul": _product,
    "div": lambda f, n: f.value(n[1]) * f.inverse(f.value(n[2])) % f.p,
    "pow": _field_power,
    "root": _field_root,
    "fn": _field_function,
    "pct": lambda f, n: f.value(n[1]) * f.inverse(100) % f.p,
    "deg": lambda f, n: f.value(n[1]) * _constant(f, ("const", "pi")) * f.inverse(180) % f.p,
}


def images(nodes: list[Node], seed: int = 0) -> tuple[list[int], int, bool]:
    """The images of several nodes in one field, its prime, and whether a value was drawn.

    Undecided, TooBig or Undefined where there are none.
    """
    for index in range(48):
        field = Field(index, seed)
        try:
            return [field.value(node) for node in nodes], field.p, field.opaque
        except _OtherPrime:
            continue
    raise Undecided


def same(a: Node, b: Node) -> bool:
    """Exact equality.  Undecided if the images differ and functions or open roots were drawn."""
    if a == b:
        return True
    left, right = rational(a), rational(b)
    if left is not None and right is not None:
        return left == right
    (x, y), _, opaque = images([a, b])
    if x == y:
        return True
    if opaque:
        raise Undecided
    return False
