import math

import pytest

from rlvr_jax.rewards import grade_all
from rlvr_jax.rewards.length import Length, cosine, kimi, overlong
from rlvr_jax.types import Completion, Problem

SUM = Problem(prompt="3+4", answer="7", index=0)


def grade(reward, lengths, right=True, problem=SUM):
    text = "<answer>7</answer>" if right else "<answer>8</answer>"
    completions = [Completion(text=text, num_tokens=n) for n in lengths]
    return grade_all(reward, completions, [problem] * len(lengths))


def test_overlong_by_hand():
    # DAPO: L_max 20, L_cache 4: nothing up to 16, then -1/4 a token, -1 from 20 on.
    values = [overlong(n, 20, 4) for n in (0, 16, 17, 18, 20, 99)]
    assert values == [0.0, 0.0, -0.25, -0.5, -1.0, -1.0]
    scores = [v.score for v in grade(Length(max_tokens=20, cache=4, weight=2.0), [16, 18])]
    assert scores == [1.0, 0.0]


def test_cosine_is_clamped():
    assert cosine(0, 10, 2.0, 1.0) == 2.0 and math.isclose(cosine(5, 10, 2.0, 1.0), 1.5)
    assert cosine(10, 10, 2.0, 1.0) == cosine(20, 10, 2.0, 1.0) == 1.0
    reward = Length(kind="cosine", max_tokens=10, cache=1)
    assert [v.score for v in grade(reward, [0, 10, 20])] == [2.0, 1.0, 1.0]
    wrong = grade(reward, [0, 10], right=False)
    assert [v.score for v in wrong] == [-10.0, 0.0] and not wrong[0].correct


def test_kimi_within_the_group():
    assert [kimi(n, 10, 30, True) for n in (10, 20, 30)] == [0.5, 0.0, -0.5]
    assert [kimi(n, 10, 30, False) for n in (10, 20, 30)] == [0.0, 0.0, -0.5]
    assert kimi(10, 10, 10, True) == 0.0
    verdicts = grade(Length(kind="kimi", weight=1.0), [10, 20, 30])
    assert [v.score for v in verdicts] == [1.5, 1.0, 0.5]
    assert verdicts[0].parts["length"] == 0.5 and verdicts[0].correct


def test_target():
    verdicts = grade(Length(kind="target", max_tokens=100), [100, 50, 500])
    assert [v.score for v in verdicts] == [1.0, 0.5, 0.0]


def test_unknown_stays_unknown():
    bad = Problem(prompt="", answer="no number", index=0)
    assert grade(Length(), [5], problem=bad)[0].status == "unknown"


@pytest.mark.parametrize(
    "fields",
    [{"kind": "linear"}, {"cache": 0}, {"cache": 9999}, {"weight": math.nan}, {"reward": "x"}],
)
def test_bad_fields(fields):
    with pytest.raises(ValueError):
        Length(**fields)
