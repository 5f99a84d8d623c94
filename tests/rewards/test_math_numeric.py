from fractions import Fraction

import pytest

from rlvr_jax.rewards import math_numeric, math_symbolic
from rlvr_jax.rewards.math_field import TooBig, Undecided, Undefined
from rlvr_jax.rewards.math_parse import parse
from rlvr_jax.rewards.math_text import fold


def tree(text):
    return parse(fold(text))


@pytest.mark.parametrize(
    "a, b",
    [
        (r"\sin 2x", r"2\sin x\cos x"),
        (r"\sin^2 x+\cos^2 x", "1"),
        (r"\ln 8", r"3\ln 2"),
        (r"\ln(mn)", r"\ln m+\ln n"),
        (r"\frac{\ln 3}{\ln 2}", r"\log_2 3"),
        (r"\sqrt{3+2\sqrt2}", r"1+\sqrt2"),
        (r"\sqrt[3]{x}^2", "x^{2/3}"),
        (r"e^{i\pi}", "-1"),
        (r"\sqrt2 e^{i\pi/4}", "1+i"),
        (r"\sin\pi", "0"),
        (r"\arctan 1", r"\frac{\pi}{4}"),
        (r"\arcsin 1", r"\frac{\pi}{2}"),
        (r"\cos 60^\circ", r"\frac12"),
        ("x^{n+1}", r"x\cdot x^n"),
        (r"\binom{n}{k}", r"\frac{n!}{k!(n-k)!}"),
        (r"|x|", r"\sqrt{x^2}"),
        (r"\overline{3+4i}", "3-4i"),
        (r"\sqrt{1/n}", r"\frac{1}{\sqrt n}"),
        (r"\lfloor\pi\rfloor", "3"),
    ],
)
def test_same(a, b):
    assert math_numeric.same(tree(a), tree(b))


@pytest.mark.parametrize(
    "a, b",
    [
        (r"\sin x", r"\cos x"),
        (r"\sqrt{x^2}", "x"),
        (r"\ln 2", r"\log_{10} 2"),
        ("10^{-20}", "0"),
        ("10^{-20}", "2\\cdot10^{-20}"),
        (r"\frac{1}{2004!}", r"\frac{1}{2006!}"),
        (r"\sin 1", r"\sin 1+10^{-60}"),
        (r"e^{\pi\sqrt{163}}", "262537412640768744"),
        (r"\pi", "3.14159265358979323846264338327950288419716939937510"),
        ("e", "(1+10^{-9})^{10^9}"),
        ("e^x", "x^e"),
        (r"\tan^{-1} x", r"\frac{1}{\tan x}"),
    ],
)
def test_not_the_same(a, b):
    assert not math_numeric.same(tree(a), tree(b))


@pytest.mark.parametrize(
    "a, b, error",
    [
        (r"\sin(10^{10^{10}})", "0", TooBig),
        ("(10^9)!", "0", TooBig),
        (r"\frac{1}{\sin\pi}", "0", Undefined),
        (r"\ln(-2)", "0", Undefined),
        (r"\ln(-x^2-1)", r"\ln 2", Undefined),
        ("f(x)", "x", Undecided),
        (r"\sum_{k=1}^{3} k", "6", Undecided),
        (r"\overline{42}", "42", Undecided),
    ],
)
def test_errors(a, b, error):
    with pytest.raises(error):
        math_numeric.same(tree(a), tree(b))


def test_proportional():
    assert math_numeric.proportional(tree(r"2\sin x-2y"), tree(r"y-\sin x"))
    assert not math_numeric.proportional(tree(r"\sin x-y"), tree(r"\sin x+y"))
    assert not math_numeric.proportional(tree("x-x"), tree(r"\sin x"))


def test_error_bounds_hold():
    for bits in (60, 120):
        e = math_numeric.Evaluator(bits, {"x": Fraction(1, 3)}, False)
        fine = math_numeric.Evaluator(600, {"x": Fraction(1, 3)}, False)
        for text in (r"\sin x^{7}", r"\sqrt{x}-\frac{1}{\sqrt3}", r"e^{20x}-1", r"\ln(1+x)/x^{9}"):
            value, error = e.value(tree(text))
            assert abs(value - fine.value(tree(text))[0]) <= 16 * error


def test_points_are_always_the_same():
    assert math_numeric.points(["x", "y"]) == math_numeric.points(["x", "y"])
    assert math_numeric.points([]) == [{}]
    assert any(point["x"] < 0 for point in math_numeric.points(["x"]))
    assert math_numeric.variables(tree("x+y_1"), tree("z")) == ["x", "y_1", "z"]


@pytest.mark.parametrize(
    "a, b",
    [
        (r"\sum_{k=1}^{100} k", "5050"),
        (r"\sum_{k=1}^{n} k", r"\frac{n(n+1)}{2}"),
        (r"\prod_{k=1}^{5} k", "120"),
        (r"\int_0^1 x^2\,dx", r"\frac13"),
        (r"\frac{d}{dx} x^3", "3x^2"),
        (r"\lim_{x\to0}\frac{\sin x}{x}", "1"),
    ],
)
def test_symbolic(a, b):
    assert math_symbolic.same(tree(a), tree(b))


@pytest.mark.parametrize(
    "text, error",
    [
        (r"\prod_{k=1}^{10^8} k", TooBig),
        ("2^{10^9}", TooBig),
        ("99999!", TooBig),
        ("f(x)", Undecided),
        (r"\int x\,dx", Undecided),
        (r"\sum_k k", Undecided),
        (r"\sin(1,2)", Undecided),
        ("+".join(["x"] * 500), Undecided),
    ],
)
def test_symbolic_refuses(text, error):
    with pytest.raises(error):
        math_symbolic.same(tree(text), tree("1"))
