from fractions import Fraction

import pytest

from rlvr_jax.rewards import math_field
from rlvr_jax.rewards.math_field import TooBig, Undecided, Undefined, images, prime, rational, same
from rlvr_jax.rewards.math_parse import parse
from rlvr_jax.rewards.math_text import fold


def tree(text):
    return parse(fold(text))


@pytest.mark.parametrize(
    "text, value",
    [
        ("7", 7),
        (r"-\frac{3}{4}", Fraction(-3, 4)),
        ("2^{10}", 1024),
        ("2^{-2}", Fraction(1, 4)),
        (r"\sqrt{16}", 4),
        (r"\sqrt{\frac{9}{4}}", Fraction(3, 2)),
        (r"\sqrt[3]{-8}", -2),
        ("8^{2/3}", 4),
        ("5!", 120),
        (r"\binom{8}{3}", 56),
        (r"\gcd(12,18)", 6),
        (r"|{-3}|", 3),
        (r"\lfloor 7/2\rfloor", 3),
        (r"\max(1,5,2)", 5),
        (r"28\%", Fraction(7, 25)),
        ("1+2*3-4/8", Fraction(13, 2)),
    ],
)
def test_rational(text, value):
    assert rational(tree(text)) == value


@pytest.mark.parametrize(
    "text",
    [r"\sqrt2", r"\pi", "x", "1/0", "0^{-1}", "2^{10^9}", "9999!", r"\sqrt{-4}", r"\sin 0", "0^0"],
)
def test_not_a_rational_of_moderate_size(text):
    assert rational(tree(text)) is None


@pytest.mark.parametrize(
    "a, b",
    [
        ("(x+1)(x-1)", "x^2-1"),
        (r"\frac{x+2}{7}", r"\frac{x}{7}+\frac27"),
        (r"\sqrt8", r"2\sqrt2"),
        (r"\sqrt2\sqrt3", r"\sqrt6"),
        (r"\frac1{\sqrt2}", r"\frac{\sqrt2}{2}"),
        (r"\frac{2}{\sqrt3+1}", r"\sqrt3-1"),
        ("i^2", "-1"),
        (r"\frac1i", "-i"),
        (r"\sqrt{-4}", "2i"),
        (r"\sqrt[3]{16}", r"2\sqrt[3]{2}"),
        ("e^{2x}", "e^{x+x}"),
        (r"\sin(x+x)", r"\sin 2x"),
        (r"\binom{n}{2}", "n(n-1)/2"),
        (r"180^\circ", r"\pi"),
        ("2^{1000000}", "4^{500000}"),
        (r"\sqrt[4]{4}", r"\sqrt[4]{4}"),
    ],
)
def test_same(a, b):
    assert same(tree(a), tree(b))


@pytest.mark.parametrize(
    "a, b",
    [
        ("(x+1)^{5000}", "(x+1)^{4999}"),
        ("2^{30^5}", "3^{20^6}"),
        (r"\sqrt2+\sqrt3", r"\sqrt5"),
        ("x", "y"),
        (r"\pi", r"\frac{22}{7}"),
        ("i", "-i"),
        ("2^{-98}", "2^{-99}"),
        (r"\frac{1}{1998!}", r"\frac{1}{1999!}"),
    ],
)
def test_not_the_same(a, b):
    assert not same(tree(a), tree(b))


@pytest.mark.parametrize("a, b", [(r"\sin x", r"\cos x"), (r"\sqrt{x^2}", "x"), (r"2^x", "4^x")])
def test_functions_leave_it_undecided(a, b):
    with pytest.raises(Undecided):
        same(tree(a), tree(b))


def test_guards():
    with pytest.raises(Undefined):
        same(tree(r"\frac{x}{0}"), tree("x"))
    with pytest.raises(TooBig):
        same(tree("x^{10^{30}}"), tree("x"))
    with pytest.raises(Undecided):
        same(tree(r"x+\infty"), tree("x"))


def test_primes_have_roots_of_minus_one():
    for index in range(3):
        p = prime(index)
        assert p > 2**89 and p % 8 == 1 and pow(2, p - 1, p) == 1
        root = math_field.Field(index).sqrt(-1)
        assert root * root % p == p - 1


def test_images_depend_on_the_seed_only_through_variables():
    (a,), p, opaque = images([tree("3x+1")], seed=0)
    (b,), q, _ = images([tree("3x+1")], seed=1)
    assert p == q and a != b and not opaque
    (c,), _, _ = images([tree(r"\pi")], seed=0)
    (d,), _, _ = images([tree(r"\pi")], seed=1)
    assert c == d


def test_factors_of_a_radicand():
    assert dict(math_field._factor(360)) == {2: 3, 3: 2, 5: 1}
    assert dict(math_field._factor(10007**2 * 10009**2)) == {10007: 2, 10009: 2}
    large = 1_000_003 * 1_000_033
    assert dict(math_field._factor(large)) == {large: 1}  # beyond trial division, left whole
