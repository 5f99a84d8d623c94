from fractions import Fraction

import pytest

from rlvr_jax.rewards.countdown import Countdown, ExpressionError, evaluate
from rlvr_jax.types import Completion, Problem


def reason(expression, numbers, target):
    problem = Problem(prompt="?", answer="", index=0, meta={"numbers": numbers, "target": target})
    return Countdown()(Completion(text=f"<answer>{expression}</answer>"), problem).reason


@pytest.mark.parametrize(
    "text, value, numbers",
    [
        ("1+2*3", 7, [1, 2, 3]),
        ("(1 + 2) × 3", 9, [1, 2, 3]),
        ("8/(3-8/3)", 24, [8, 3, 8, 3]),
        ("2−5", -3, [2, 5]),
        ("-(2-5)", 3, [2, 5]),
        ("5÷2", Fraction(5, 2), [5, 2]),
        ("10-3-2", 5, [10, 3, 2]),
        ("12/3/2", 2, [12, 3, 2]),
    ],
)
def test_evaluate(text, value, numbers):
    assert evaluate(text) == (value, numbers)


@pytest.mark.parametrize(
    "text, code",
    [
        ("1/(2-2)", "division_by_zero"),
        ("2**3", "unparsable"),
        ("7//2", "unparsable"),
        ("1.5*2", "unparsable"),
        ("4(6)", "unparsable"),
        ("(1+2", "unparsable"),
        ("1+2)", "unparsable"),
        ("", "unparsable"),
        ("1 2", "unparsable"),
        ("１+２", "unparsable"),
        ("__import__('os')", "unparsable"),
        ("(" * 199 + "1" + ")" * 199, "too_deep"),
        ("1" * 401, "too_long"),
        ("99**98**97", "unparsable"),
    ],
)
def test_expressions_outside_the_grammar(text, code):
    with pytest.raises(ExpressionError) as caught:
        evaluate(text)
    assert caught.value.reason == code


@pytest.mark.parametrize(
    "expression, numbers, target, code",
    [
        ("(8-2)*4", [8, 2, 4], 24, ""),
        ("(8-2)*4 = 24", [8, 2, 4], 24, ""),
        ("(8-2)*4 = 25", [8, 2, 4], 24, "mismatch"),
        ("(8-2)*4 = x", [8, 2, 4], 24, "unparsable"),
        ("8*2+4", [8, 2, 4], 24, "mismatch"),
        ("24", [8, 2, 4], 24, "wrong_numbers"),
        ("8+8+8", [8, 2, 4], 24, "wrong_numbers"),
        ("81*1", [1, 81, 1, 1], 81, "wrong_numbers"),
        ("5/2", [5, 2], 2, "mismatch"),
        ("8*2+4, (8-2)*4", [8, 2, 4], 24, "unparsable"),
    ],
)
def test_reasons(expression, numbers, target, code):
    assert reason(expression, numbers, target) == code


def test_data_without_numbers_is_not_a_wrong_answer():
    for meta in ({}, {"numbers": [1], "target": "1"}, {"numbers": "12", "target": 1}):
        problem = Problem(prompt="?", answer="", index=0, meta=meta)
        verdict = Countdown()(Completion(text="<answer>1</answer>"), problem)
        assert verdict.status == "unknown" and verdict.reason == "bad_gold"
