import pytest

from rlvr_jax.rewards.extract import extract

PLACES = ("answer_tag", "boxed", "hashes", "phrase")


@pytest.mark.parametrize(
    "text, found",
    [
        ("<answer>The answer is 42.</answer>", "42."),
        ("<answer>Answer: 42</answer>", "42"),
        (r"\boxed{\text{The answer is } 5}", "5"),
        (r"\boxed{\text{The answer is 5}}", r"\text{5}"),
        (r"\boxed{\text{Answer: }5}", "5"),
        ("The answer is 42, because 6*7=42.", "42"),
        ("The answer is 42 (since 6*7=42).", "42"),
        ("The answer is 42 since it fits.", "42"),
        ("the answer is 6 × 7 = 42.", "6 × 7 = 42"),
        ("<answer>The answer is not 42</answer>", "not 42"),
        (r"\boxed{\text{answers vary}}", r"\text{answers vary}"),
    ],
)
def test_leads_and_reasons_are_no_part_of_the_answer(text, found):
    assert extract(text, PLACES) == found
