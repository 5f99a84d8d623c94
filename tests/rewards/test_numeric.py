from fractions import Fraction

import pytest

from rlvr_jax.rewards.numeric import Numeric, parse_number, same_number
from rlvr_jax.types import Completion, Problem


def grade(text, gold="7", **fields):
    problem = Problem(prompt="?", answer=gold, index=0)
    return Numeric(**fields)(Completion(text=text), problem)


@pytest.mark.parametrize(
    "text, value",
    [
        ("7", 7),
        ("+7", 7),
        ("-7.", -7),
        ("−7", -7),
        ("1,234,567", 1234567),
        ("$1,234.50", Fraction(2469, 2)),
        ("\\$5", 5),
        ("$\\frac{3}{4}$", Fraction(3, 4)),
        ("-3/4", Fraction(-3, 4)),
        (".5", Fraction(1, 2)),
        ("3.0", 3),
        ("1.5e3", 1500),
        ("1e-2", Fraction(1, 100)),
    ],
)
def test_parse_number(text, value):
    assert parse_number(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        ".",
        "1,23",
        "12,3456",
        "1 2",
        "7 or 8",
        "seven",
        "1/0",
        "1//2",
        "1e999999",
        "１",
        "0x7",
    ]
    + ["9" * 401, "1" * 10**6, "nan", "inf", "1_000", "3..", "e5", "--3"],
)
def test_no_number(text):
    assert parse_number(text) is None


def test_equality_is_exact():
    assert same_number("3.0", "3")
    assert same_number("0.5", "1/2")
    assert not same_number(str(2**100 + 1), str(2**100))
    assert not same_number("0.3333333333", "1/3")
    assert not same_number("10001", "10000")


def test_percent_on_one_side_reads_both_ways():
    assert same_number("50%", "50") and same_number("50\\%", "0.5") and same_number("50", "50%")
    assert (
        same_number("50%", "50%") and not same_number("50%", "5") and not same_number("5", "0.05")
    )


@pytest.mark.parametrize(
    "text, reason",
    [
        ("<think>a</think><answer>7</answer>", ""),
        ("so it is \\boxed{7}.", ""),
        ("then\n#### 7", ""),
        ("<answer>8</answer> <answer>7</answer>", ""),
        ("<answer>\\boxed{7}</answer>", ""),
        ("<answer>7</answer> <answer>8</answer>", "mismatch"),
        ("<answer>7 or 8</answer>", "unparsable"),
        ("<answer></answer>", "empty"),
        ("<answer>" + "7" * 10**6 + "</answer>", "too_long"),
        ("<answer>7", "no_answer"),
        ("<think><answer>7</answer>", "no_answer"),
        ("<think><answer>7</answer></think> 8", "no_answer"),
        ("\\boxed{7} no, \\boxed{8", ""),  # the last balanced box
        ("7", "no_answer"),
    ],
)
def test_reasons(text, reason):
    verdict = grade(text)
    assert verdict.reason == reason
    assert verdict.correct == (not reason)
    assert verdict.parts["correct"] == float(not reason)


def test_what_right_and_wrong_earn():
    good, bad = "<think>a</think><answer>7</answer>", "<think>a</think><answer>8</answer>"
    fields = {"right": 2.0, "wrong": -1.0, "format_score": 0.25}
    assert grade(good, **fields).score == 2.25
    assert grade(bad, **fields).score == -0.75
    assert grade("7", **fields).score == -1.0
    assert grade(bad, **fields).parts == {"correct": 0.0, "format": 1.0}


def test_gold_of_the_data_may_carry_the_solution():
    assert grade("#### 7", gold="3 + 4 = 7\n#### 7").correct
    verdict = grade("#### 7", gold="seven")
    assert verdict.status == "unknown" and verdict.reason == "bad_gold"


def test_wrong_fields():
    with pytest.raises(ValueError, match='no place "box"'):
        Numeric(extract=("box",))
    with pytest.raises(ValueError, match="at least one place"):
        Numeric(extract=())
    with pytest.raises(ValueError, match="finite"):
        Numeric(right=float("nan"))
