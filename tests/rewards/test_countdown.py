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
        ("[8-2]*(4)", 24, [8, 2, 4]),
        (r"(8−2)·4", 24, [8, 2, 4]),
        (r"\left(8-2\right)\times 4", 24, [8, 2, 4]),
        (r"\left[8-2\right]\cdot4 \div 2", 12, [8, 2, 4, 2]),
        (r"\frac{8}{3-\dfrac{8}{3}}", 24, [8, 3, 8, 3]),
        ("(8 - 2) x 4", 24, [8, 2, 4]),
        ("-8*2+20", 4, [8, 2, 20]),
        ("5--3*2", 11, [5, 3, 2]),
    ],
)
def test_evaluate(text, value, numbers):
    found, used = evaluate(text)
    assert (found, [literal.size for literal in used]) == (value, numbers)


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
        ("--(8-2)", "unparsable"),
        ("8---2", "unparsable"),
        ("(--8)", "unparsable"),
        ("-(-(-8)", "unparsable"),
        ("8-(2", "unparsable"),
        ("8-02", "unparsable"),
        ("00+1", "unparsable"),
        ("(8-2]", "unparsable"),
        ("{8-2}", "unparsable"),
        ("0x8", "unparsable"),
        ("8x2", "unparsable"),
        ("5²", "unparsable"),
        (r"\frac82", "unparsable"),
        (r"4\frac{1}{2}", "unparsable"),
        (r"\frac{8}{2-2}", "division_by_zero"),
        (r"\frac{" * 60 + "1", "too_deep"),
        (r"\sqrt{4}", "unparsable"),
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
        ("24=(8-2)*4", [8, 2, 4], 24, ""),
        ("25=(8-2)*4", [8, 2, 4], 24, "unparsable"),
        ("24=24", [8, 2, 4], 24, "wrong_numbers"),
        ("(8-2)*4=24=25", [8, 2, 4], 24, "unparsable"),
        ("8+2+4=(8-2)*4", [8, 2, 4], 24, "unparsable"),
        (r"\boxed{(8-2)*4}", [8, 2, 4], 24, ""),
        (r"$\boxed{(8-2)*4 = 24}$.", [8, 2, 4], 24, ""),
        (r"\boxed{8+2+4} \boxed{(8-2)*4}", [8, 2, 4], 24, "unparsable"),
        (r"8+2+4 or \boxed{(8-2)*4}", [8, 2, 4], 24, "unparsable"),
        (r"$(8-2)\times 4$", [8, 2, 4], 24, ""),
        (r"$8+2$ $(8-2)*4$", [8, 2, 4], 24, "unparsable"),
        ("**(8-2)*4**", [8, 2, 4], 24, ""),
        ("```\n7 - 3\n```", [7, 3], 4, ""),
        ("`7 - 3`", [7, 3], 4, ""),
        ("`7` - `3`", [7, 3], 4, "unparsable"),
        ("7 - 3 = 4.", [7, 3], 4, ""),
        ("7 - 3 = 4..", [7, 3], 4, "unparsable"),
        ("7 - 3 = 4.0", [7, 3], 4, "unparsable"),
        ("7-3;", [7, 3], 4, "unparsable"),
        ("Let 7-3", [7, 3], 4, "unparsable"),
        ("3−7 = −4", [7, 3], -4, ""),
        ("--(8-2)*4", [8, 2, 4], 24, "unparsable"),
        ("8--2*8", [8, 2, 8], 24, "wrong_numbers"),
        ("(8-02)*4", [8, 2, 4], 24, "unparsable"),
        ("-3+5", [-3, 5], 2, ""),
        ("-3+5", [3, 5], 2, ""),
        ("5+(-3)", [-3, 5], 2, ""),
        ("5+-3", [-3, 5], 2, ""),
        ("5--3", [-3, 5], 8, ""),
        ("5-(-3)", [-3, 5], 8, ""),
        ("5*-3", [3, 5], -15, "wrong_numbers"),
        ("5*(-3)", [3, 5], -15, ""),
        ("5-3", [-3, 5], 2, "wrong_numbers"),
        ("3+5", [-3, 5], 8, "wrong_numbers"),
        ("3-(-3)+5", [-3, 3, 5], 11, ""),
        ("(-3)-(-3)+5", [-3, 3, 5], 5, ""),
        ("(-3)-(-3)+5", [-3, -3, 5], 5, ""),
        ("5-0", [0, 5], 5, ""),
        ("(-0)+5", [0, 5], 5, ""),
        ("8 x 2 x 4", [8, 2, 4], 64, ""),
    ],
)
def test_reasons(expression, numbers, target, code):
    assert reason(expression, numbers, target) == code


def test_data_without_numbers_is_not_a_wrong_answer():
    odd = [(None, 1), ([1], "1"), ("12", 1), (5, 1), ([], 0), ([True], 1), ([1], True)]
    for meta in ({}, *({"numbers": numbers, "target": target} for numbers, target in odd)):
        problem = Problem(prompt="?", answer="", index=0, meta=meta)
        verdict = Countdown()(Completion(text="<answer>1</answer>"), problem)
        assert verdict.status == "unknown" and verdict.reason == "bad_gold"
