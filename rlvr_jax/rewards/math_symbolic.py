"""Trees to SymPy objects, by constructors only, for what evaluation at points cannot decide.

Sums, products, integrals, derivatives and limits are carried out here.  Runs in a worker process:
SymPy has no bound on time or memory, and with gmpy2 a large power can abort the interpreter.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from rlvr_jax.rewards.math_field import MAX_BITS, TooBig, Undecided, rational
from rlvr_jax.rewards.math_stream import NOTHING, Node, walk
from rlvr_jax.rewards.math_units import word_set

MAX_NODES = 400
MAX_TERMS = 10**4  # of a finite product, which SymPy may multiply out
_PLAIN = word_set("sin cos tan cot sec csc sinh cosh tanh log floor factorial gcd lcm")


def same(a: Node, b: Node) -> bool:
    """Whether SymPy reduces a - b to 0.  Undecided where it cannot tell or cannot read a kind."""
    import sympy  # only workers pay for the import

    if sum(1 for node in (a, b) for _ in walk(node)) > MAX_NODES:
        raise Undecided
    try:
        reduced = sympy.simplify((convert(a) - convert(b)).doit())
    except (TypeError, ValueError, NotImplementedError, AttributeError, ArithmeticError) as error:
        # SymPy's own ways of giving up on odd input: nothing is decided, and the verdict says so
        raise Undecided from error
    if reduced == 0:
        return True
    if reduced.is_number and reduced.is_finite and not reduced.atoms(sympy.Function):
        value = sympy.N(reduced, 60)
        return bool(value.is_comparable and abs(value) < sympy.Float("1e-50"))
    raise Undecided


def convert(node: Node):
    """The SymPy object of a tree.  Undecided for kinds without one."""
    rule = _RULES.get(node[0])
    if rule is None:
        raise Undecided
    return rule(node)


def _sympy():
    import sympy

    return sympy


def _number(node: Node):
    return _sympy().Rational(node[1].numerator, node[1].denominator)


def _constant(node: Node):
    sympy = _sympy()
    return {"pi": sympy.pi, "e": sympy.E, "i": sympy.I, "oo": sympy.oo}[node[1]]


def _symbol(node: Node):
    return _sympy().Symbol(node[1])


def _power(node: Node):
    base, exponent = rational(node[1]), rational(node[2])
    if exponent is not None and abs(exponent) > 10**6:
        raise TooBig
    if base is not None and exponent is not None:
        bits = max(base.numerator.bit_length(), base.denominator.bit_length())
        if abs(exponent) * bits > MAX_BITS:
            raise TooBig
    return _sympy().Pow(convert(node[1]), convert(node[2]))


def _function(node: Node):
    sympy = _sympy()
    names = {
        "ln": sympy.log,
        "abs": sympy.Abs,
        "arcsin": sympy.asin,
        "arccos": sympy.acos,
        "arctan": sympy.atan,
        "binom": sympy.binomial,
        "ceil": sympy.ceiling,
    }
    rule = names.get(node[1]) or (getattr(sympy, node[1]) if node[1] in _PLAIN else None)
    if rule is None:
        raise Undecided
    large = [v for v in map(rational, node[2:]) if v is not None and abs(v) > 10**4]
    if large and node[1] in ("factorial", "binom"):
        raise TooBig
    return rule(*map(convert, node[2:]))


def _big(node: Node):
    name, lower, upper, body = node[1:]
    sympy = _sympy()
    if name in ("sum", "prod"):
        if lower[0] != "rel" or lower[1] != "=" or lower[2][0] != "sym" or upper == NOTHING:
            raise Undecided
        terms = rational(("add", upper, ("neg", lower[3])))
        if terms is not None and terms > MAX_TERMS and name == "prod":
            raise TooBig
        bounds = (_symbol(lower[2]), convert(lower[3]), convert(upper))
        return {"sum": sympy.Sum, "prod": sympy.Product}[name](convert(body), bounds)
    if name == "int":
        integrand, variable = _integrand(body)
        if lower == NOTHING or upper == NOTHING:
            raise Undecided
        return sympy.Integral(convert(integrand), (variable, convert(lower), convert(upper)))
    if name == "diff":
        return sympy.Derivative(convert(body), convert(lower))
    if name == "lim" and lower[0] == "rel" and lower[1] == "to":
        return sympy.Limit(convert(body), convert(lower[2]), convert(lower[3]))
    raise Undecided


def _integrand(body: Node) -> tuple[Node, object]:
    """The integrand and the variable of ``f d x`` (as the factors d, x at the end)."""
    factors = body[1:] if body[0] == "mul" else (body,)
    if len(factors) < 2 or factors[-2] != ("sym", "d") or factors[-1][0] != "sym":
        raise Undecided
    rest = factors[:-2] or (("num", Fraction(1)),)
    return ("mul", *rest), _symbol(factors[-1])


_RULES: dict[str, Callable[[Node], object]] = {
    "num": _number,
    "const": _constant,
    "sym": _symbol,
    "neg": lambda n: -convert(n[1]),
    "add": lambda n: _sympy().Add(*map(convert, n[1:])),
    "mul": lambda n: _sympy().Mul(*map(convert, n[1:])),
    "div": lambda n: convert(n[1]) / convert(n[2]),
    "pow": _power,
    "root": lambda n: _power(("pow", n[1], ("div", ("num", Fraction(1)), n[2]))),
    "fn": _function,
    "big": _big,
    "pct": lambda n: convert(n[1]) / 100,
    "deg": lambda n: convert(n[1]) * _sympy().pi / 180,
}
