import pytest

from rlvr_jax.rewards.format import Format, shape_fault
from rlvr_jax.types import Completion, Problem

PROBLEM = Problem(prompt="?", answer="7", index=3)


@pytest.mark.parametrize(
    "text, fault",
    [
        ("<think>a</think><answer>7</answer>", ""),
        ("\n<think>\na\n</think>\n\n<answer>\n7\n</answer>\n", ""),
        ("<think>a\n<answer>7</answer>", "bad_tags"),
        ("<answer>7</answer><think>a</think>", "bad_tags"),
        ("<think>a</answer><answer>7</think>", "bad_tags"),
        ("<think>a</think><answer>7</answer><answer>7</answer>", "bad_tags"),
        ("<think> \n</think><answer>7</answer>", "empty_think"),
        ("<think>a</think><answer> </answer>", "empty_answer"),
        ("<think>\u200b</think><answer>7</answer>", "empty_think"),
        ("<think>\u2060\ufeff\u00ad\u3000</think><answer>7</answer>", "empty_think"),
        ("<think>\u2800\u3164</think><answer>7</answer>", "empty_think"),
        ("<think>\ufe0f\u034f\x00</think><answer>7</answer>", "empty_think"),
        ("<think>a\u200b</think><answer>\u200b</answer>", "empty_answer"),
        ("<think>七</think><answer>✓</answer>", ""),
        ("\u200b<think>a</think><answer>7</answer>", "text_before"),
        ("so <think>a</think><answer>7</answer>", "text_before"),
        ("<think>a</think> hm <answer>7</answer>", "text_outside"),
        ("<think>a</think><answer>7</answer> bye", "text_outside"),
        ("", "bad_tags"),
    ],
)
def test_think_answer(text, fault):
    assert shape_fault(text) == fault


@pytest.mark.parametrize(
    "text, fault",
    [
        ("<think>a</think> It is \\boxed{7}.", ""),
        ("<think>\\boxed{7}</think>", "no_box"),
        ("<think>a</think>\\boxed{}", "empty_answer"),
        ("\\boxed{7}", "bad_tags"),
        ("<think>\u200b</think>\\boxed{7}", "empty_think"),
        ("<think>a</think>\\boxed{\u200b}", "empty_answer"),
        ("<think>a</think>\\boxed{\\text{ }\\quad}", "empty_answer"),
        ("<think>a</think>\\boxed{\\emptyset}", ""),
    ],
)
def test_think_boxed(text, fault):
    assert shape_fault(text, "think_boxed") == fault


def test_prefill_belongs_to_the_text():
    text = "3 + 4 is 7</think><answer>7</answer>"
    assert shape_fault(text) == "bad_tags"
    verdict = Format(prefill="<think>\n")(Completion(text=text), PROBLEM)
    assert verdict.parts == {"format": 1.0} and verdict.score == 1.0


def test_unknown_shape():
    with pytest.raises(ValueError, match="allowed are think_answer, think_boxed"):
        Format(shape="xml")
