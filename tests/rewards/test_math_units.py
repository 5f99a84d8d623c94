from fractions import Fraction

import pytest

from rlvr_jax.rewards.math_units import is_unit_text, known_unit, parse_unit, singular


@pytest.mark.parametrize(
    "a, b",
    [
        ("cm", "centimeters"),
        ("feet", "ft"),
        ("ft^2", "square feet"),
        ("m^{2}", "square meters"),
        ("cu ft", "cubic feet"),
        ("mph", "miles per hour"),
        ("m/s", "meters per second"),
        ("m / s", "metre per sec"),
        ("lbs", "pounds"),
        ("apples", "apple"),
        ("students each", "student each"),
        ("inches", "in"),
    ],
)
def test_same_unit(a, b):
    assert parse_unit(a) == parse_unit(b)


@pytest.mark.parametrize(
    "a, b, factor",
    [
        ("m", "cm", 100),
        ("km", "m", 1000),
        ("hours", "minutes", 60),
        ("kg", "g", 1000),
        ("dollars", "cents", 100),
        ("square meters", "cm^2", 10_000),
        ("week", "day", 7),
        ("ft", "in", 12),
        ("km/h", "m/s", Fraction(5, 18)),
    ],
)
def test_conversion(a, b, factor):
    (key, large), (other, small) = parse_unit(a), parse_unit(b)
    assert key == other and large / small == factor


@pytest.mark.parametrize("a, b", [("cm", "cm^2"), ("m", "s"), ("apples", "oranges"), ("m/s", "m")])
def test_other_dimension(a, b):
    assert parse_unit(a)[0] != parse_unit(b)[0]


@pytest.mark.parametrize("text", ["cm", "square feet", "apples", "miles per hour", "m/s", "cm^2"])
def test_text_that_may_follow_a_number(text):
    assert is_unit_text(text)


@pytest.mark.parametrize(
    "text",
    ["or more", "is wrong", "and counting", "million", "not", "to 7", "plus one", "or 43", "", "12"]
    + ["half", "because of the sum", "(maybe)", "a b c d e f g h", "at least", "; drop", "?"],
)
def test_text_that_changes_the_number(text):
    assert not is_unit_text(text)


def test_names():
    assert known_unit("cm") and known_unit("Feet") and not known_unit("xyz")
    assert singular("classes") == "classe" and singular("glass") == "glass"
    assert singular("pennies") == "penny"
