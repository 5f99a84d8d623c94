import random
import time

import math_cases
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlvr_jax.rewards import RewardPool, choice_equal, grade_all
from rlvr_jax.rewards.extract import extract, last_boxed
from rlvr_jax.rewards.math_equal import compare
from rlvr_jax.rewards.math_reward import MathAnswer
from rlvr_jax.types import Completion, Problem

ALL = ("answer_tag", "boxed", "hashes", "phrase")


def grade(text, gold="42", prompt="?", **fields):
    problem = Problem(prompt=prompt, answer=gold, index=0)
    return grade_all(MathAnswer(**fields), [Completion(text=text)], [problem], workers=1)[0]


@pytest.mark.parametrize(
    "text, found",
    [
        ("so \\boxed{42}.", "42"),
        ("\\boxed{41} no, \\boxed{42}", "42"),
        ("\\boxed{41} and \\boxed{42", "41"),
        ("\\boxed{\\frac{1}{2}}}", "\\frac{1}{2}"),
        ("\\boxed{x = \\boxed{7}}", "x = \\boxed{7}"),
        ("with \\boxed as asked: $\\boxed 5$.", "5"),
        ("\\fbox{ 7 }", "7"),
        ("a set \\boxed{\\{1,2\\}}", "\\{1,2\\}"),
        ("\\boxed{\\frac{1}{2}", None),
        ("<think>\\boxed{1}</think> a <answer>2</answer> \\boxed{3}", "2"),
        ("<think>\\boxed{1}", None),
        ("<think>\\boxed{1}</think>", None),
        ("a</think>b \\boxed{1} </think> \\boxed{2}", "2"),
        ("2+40\n#### 42\nmore text", "42"),
        ("#### Step one\nThe answer is 42.", "42"),
        ("The answer is 17 apples.\nAlso 17+1=18.", "17 apples"),
        ("**Final Answer: 73**", "73"),
        ("Final Answer: **73**", "73"),
        ("## Final Answer\n\n73", "73"),
        ("Answer: B\n\nQuestion?\nAnswer: C", "C"),
        ("so\nA: 1,234", "1,234"),
        ("The answer is 3.5 metres. Good", "3.5 metres"),
        ("no mark, 42", None),
        ("", None),
    ],
)
def test_extraction(text, found):
    assert extract(text, ALL) == found


def test_last_number_is_a_last_resort():
    assert extract("it makes 1,234 in all", (*ALL, "last_number")) == "1,234"
    assert not grade("it makes 42 in all").correct
    assert grade("it makes 42 in all", extract=("boxed", "last_number")).correct


@pytest.mark.parametrize("text", ["\\boxed{" * 20_000, "\\boxed{1" * 5_000, "{" * 10**6])
def test_extraction_is_fast_on_open_boxes(text):
    start = time.process_time()
    assert last_boxed(text) is None
    assert time.process_time() - start < 3.0


def test_verdict_fields():
    verdict = grade("<think>a</think><answer>\\frac{84}{2}</answer>")
    assert (verdict.status, verdict.reason, verdict.stage) == ("wrong", "unevaluated", "form")
    assert verdict.parts == {"correct": 0.0, "format": 1.0}
    assert verdict.extracted == "\\frac{84}{2}" and verdict.gold == "42"
    verdict = grade("<think>a</think><answer>42.0</answer>", right=2.0, format_score=0.5)
    assert (verdict.status, verdict.score, verdict.stage) == ("scored", 2.5, "number")
    assert grade("nothing").reason == "no_answer"
    assert grade("\\boxed{42}", gold="\\frac{1}{").status == "unknown"
    assert grade("a" * 3_000_000).reason == "too_long"


def test_an_echo_of_the_question_is_wrong():
    prompt = "Simplify $\\frac{x^2-1}{x-1}$."
    echo = "\\boxed{\\frac{x^2-1}{x-1}}"
    assert grade(echo, gold="x+1", prompt=prompt).reason == "echo"
    assert grade(echo, gold="x+1", prompt=prompt, reject_echo=False).correct
    assert grade("\\boxed{1+x}", gold="x+1", prompt=prompt).correct
    assert grade("\\boxed{0.5}", gold="\\frac12", prompt="Is 0.5 or 0.25 larger?").correct
    messages = ({"role": "user", "content": prompt},)
    assert grade(echo, gold="x+1", prompt=messages).reason == "echo"


def test_hard_cases_go_to_a_worker_and_keep_their_order():
    pairs = [("\\sin 2x", "\\boxed{2\\sin x\\cos x}"), ("1", "\\boxed{1}"), ("1", "\\boxed{2}")] * 5
    completions = [Completion(text=text) for _, text in pairs]
    problems = [Problem(prompt="?", answer=gold, index=0) for gold, _ in pairs]
    with RewardPool(MathAnswer(), workers=2) as pool:
        verdicts = pool.grade(completions, problems)
        assert pool.stats.jobs == 5
    assert [v.correct for v in verdicts] == [True, True, False] * 5
    assert {v.stage for v in verdicts[::3]} == {"numeric"}


def test_a_slow_answer_is_wrong_at_the_deadline():
    slow = "\\boxed{" + "+".join(f"\\sqrt[3]{{\\sin {k}+{k}}}" for k in range(60)) + "}"
    completion, problem = Completion(text=slow), Problem(prompt="?", answer="\\sin 3", index=0)
    with RewardPool(MathAnswer(allow_undone=True), workers=1, deadline_s=0.002) as pool:
        (verdict,) = pool.grade([completion], [problem])
    assert (verdict.status, verdict.reason) == ("wrong", "timeout")


@pytest.mark.parametrize(
    "answer, gold, same",
    [
        ("B", "B", True),
        ("b", "B", True),
        ("\\text{(B)}", "B", True),
        ("\\textbf{(B)}\\ 12", "B", True),
        ("B. twelve", "B", True),
        ("A, B", "B", False),
        ("A or B or C", "A", False),
        ("C", "B", False),
        ("2.718", "E", False),
        ("A, C", "AC", True),
        ("C and A", "AC", True),
        ("A", "AC", False),
        ("A, B, C, D", "AC", False),
        ("\\text{Yes}", "yes", True),
        ("no doubt: yes", "no", False),
        ("True and False", "true", False),
        ("", "B", False),
    ],
)
def test_choice(answer, gold, same):
    assert choice_equal(answer, gold) == same


def test_wrong_fields():
    for fields in ({"extract": ("box",)}, {"right": float("inf")}, {"tolerance": -1.0}):
        with pytest.raises(ValueError):
            MathAnswer(**fields)


GOLDS = sorted({gold for gold, _ in math_cases.RIGHT + math_cases.WRONG})
PIECES = r"""
\frac \sqrt \binom \text{ } { } ( ) [ ] \{ \} ^ _ + - * / = < > , ; : | ! % ' & \\ \left \right
\pm \cdot \pi \infty \cup \in \sin \log \sum \int \begin{pmatrix} \end{pmatrix} \overline \mathbb
1 2 3 10 0.5 1,000 x y n e i or and million cm \le \boxed{ $ \$ ... ½ √ ² − ∞ π \, \! (1,2) [0,1)
\choose \vec abc \mathrm{e} d dx 999999999
"""


@settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(PIECES.split()), max_size=14), st.sampled_from(GOLDS))
def test_soup_of_tokens_never_raises(pieces, gold):
    outcome = compare("".join(pieces), gold)
    assert outcome is None or outcome.right is not None or outcome.reason


@settings(max_examples=400, deadline=None)
@given(st.text(max_size=80))
def test_any_text_never_raises_nor_is_right(text):
    outcome = compare(text, "\\frac{271828}{314159}")
    assert outcome is None or outcome.right is False


def test_random_bytes_are_never_right():
    rng = random.Random(5)
    for _ in range(1500):
        text = rng.randbytes(rng.randrange(80)).decode(
            rng.choice(["latin-1", "utf-16-le"]), "ignore"
        )
        outcome = compare(text, "\\frac{271828}{314159}x+\\sqrt{77}")
        assert outcome is None or outcome.right is False


def test_a_percent_sign_is_no_factor_where_the_question_asks_for_percentages():
    for prompt, right in (("What percent is it?", True), ("How many are there?", False)):
        problem = Problem(prompt=prompt, answer="25", index=0)
        assert MathAnswer().quick(Completion(text=r"\boxed{25\%}"), problem).correct is right
