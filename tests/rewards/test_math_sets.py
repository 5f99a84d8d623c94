import pytest

from rlvr_jax.rewards import math_sets
from rlvr_jax.rewards.math_field import Undecided, rational
from rlvr_jax.rewards.math_numeric import real
from rlvr_jax.rewards.math_parse import parse
from rlvr_jax.rewards.math_text import fold


def read(text):
    return math_sets.read(parse(fold(text)))


def exact(node):
    value = rational(node)
    if value is None:
        raise Undecided
    return value


@pytest.mark.parametrize(
    "a, b",
    [
        ("(1,2)", "1<x<2"),
        ("[1,2)", r"2 > x \ge 1"),
        (r"(-\infty,3)", "x<3"),
        (r"(-\infty,\infty)", r"\mathbb{R}"),
        (r"\mathbb{R}\setminus\{1\}", r"x\ne1"),
        (r"(-\infty,1)\cup(1,\infty)", r"x\ne1"),
        (r"[0,2]\setminus\{1\}", r"[0,1)\cup(1,2]"),
        (r"[0,1]\cup[1,2]", "[0,2]"),
        (r"(0,1)\cup(2,3)", r"(2,3)\cup(0,1)"),
        (r"x<-1 \text{ or } x>1", r"(-\infty,-1)\cup(1,\infty)"),
        (r"x>0 \text{ and } x\le1", "(0,1]"),
        (r"[0,3]\cap[1,5]", "[1,3]"),
        (r"\{1,2\}\cup\{2,3\}", r"\{1,2,3\}"),
        (r"\{x : x>2\}", r"(2,\infty)"),
        (r"\{x\in\mathbb{R} : x>2\}", r"(2,\infty)"),
        (r"x\in[0,1]", "[0,1]"),
        ("x=1", r"\{1\}"),
        ("(2/4,1)", "(0.5,1)"),
        ("(1,1)", r"\{\}"),
        (r"\{1\}", "[1,1]"),
    ],
)
def test_equal(a, b):
    assert math_sets.equal(read(a), read(b), exact)
    assert math_sets.equal(read(b), read(a), exact)


@pytest.mark.parametrize(
    "a, b",
    [
        ("(1,2)", "[1,2]"),
        ("(1,2]", "[1,2)"),
        ("(1,2)", "(1,3)"),
        ("x<3", r"x\le3"),
        ("x<3", "x>3"),
        (r"(-\infty,3)", r"(-\infty,-3)"),
        (r"\mathbb{R}", r"\mathbb{R}\setminus\{0\}"),
        (r"\{0,1\}", "[0,1]"),
        (r"(0,1)\cup(1,2)", "(0,2)"),
    ],
)
def test_unequal(a, b):
    assert not math_sets.equal(read(a), read(b), exact)


def test_irrational_ends_need_digits():
    a, b = read(r"[2\sqrt2,3)"), read(r"[\sqrt8,3)")
    with pytest.raises(Undecided):
        math_sets.equal(a, b, exact)
    assert math_sets.equal(a, b, real)
    assert not math_sets.equal(a, read(r"[\sqrt7,3)"), real)


@pytest.mark.parametrize(
    "text", ["x^2<4", "y<x", "x+1>2", "5", r"\mathbb{Z}", "(1,2,3)", r"\{(1,2)\}"]
)
def test_no_set_of_numbers(text):
    with pytest.raises(math_sets.NotASet):
        read(text)


def test_what_can_only_be_a_set():
    looks = {
        text: math_sets.looks_like_set(parse(fold(text))) for text in ("(1,2)", "[1,2)", "x<3")
    }
    assert looks == {"(1,2)": False, "[1,2)": True, "x<3": True}
    assert math_sets.looks_like_set(parse(fold(r"(1,\infty)")))
    assert math_sets.variable(parse("2<t<3")) == "t" and math_sets.variable(parse("(1,2)")) == ""


def test_too_many_ends():
    many = read("\\{" + ",".join(map(str, range(70))) + "\\}")
    with pytest.raises(Undecided):
        math_sets.equal(many, many, exact)
