import math

import pytest

from rlvr_jax.rewards import grade_all, make_grader
from rlvr_jax.rewards.compose import Compose
from rlvr_jax.rewards.learned import Learned, Scores, serving
from rlvr_jax.types import Completion, Problem

PROBLEM = Problem(prompt="3+4", answer="7", index=0)


def grade(reward, *texts):
    return grade_all(reward, [Completion(text=t) for t in texts], [PROBLEM] * len(texts))


def const(*scores):
    return lambda completions, problems: list(scores)[: len(completions)]


def test_one_call_a_batch_and_blank_texts_are_not_shown():
    seen = []

    def scorer(completions, problems):
        seen.append([c.text for c in completions])
        return [Scores(value=float(len(c.text))) for c in completions]

    with serving("rm", scorer):
        verdicts = grade(Learned(scorer="rm", wrong=-1.0), "abc", " ", "<think>x", "a")
        assert grade(Learned(scorer="rm"), "")[0].score == 0.0
    assert seen == [["abc", "a"]]
    assert [v.score for v in verdicts] == [3.0, -1.0, -1.0, 1.0]
    assert verdicts[0].parts == {"correct": 1.0, "learned": 3.0}


def test_scaling_and_threshold():
    with serving("rm", const(Scores(value=0.0), Scores(value=-1e4), Scores(value=2.0))):
        reward = Learned(scorer="rm", scale="sigmoid", factor=2.0, shift=-1.0, threshold=0.6)
        verdicts = grade(reward, "a", "b", "c")
    assert [v.score for v in verdicts[:2]] == [0.0, -1.0]
    assert math.isclose(verdicts[2].score, 2 / (1 + math.exp(-2.0)) - 1)
    assert [v.correct for v in verdicts] == [False, False, True]


@pytest.mark.parametrize(
    "steps, value", [("min", 0.25), ("mean", 0.5), ("last", 0.75), ("product", 0.09375)]
)
def test_steps_of_a_process_verifier(steps, value):
    with serving("prm", const(Scores(steps=(0.5, 0.25, 0.75)))):
        (verdict,) = grade(Learned(scorer="prm", steps=steps), "a")
    assert verdict.score == value
    assert verdict.parts["steps"] == 3 and verdict.parts["worst_step"] == 0.25


def test_no_score_is_unknown_and_a_fault_stops():
    with serving("rm", const(Scores(), Scores(value=math.nan))):
        assert [v.status for v in grade(Learned(scorer="rm"), "a", "b")] == ["unknown"] * 2
        with pytest.raises(ValueError, match="gave 2 scores for 3 completions"):
            grade(Learned(scorer="rm"), "a", "b", "c")
        with pytest.raises(ValueError, match='no scorer "rn" is served .there are: rm'):
            grade(Learned(scorer="rn"), "a")
        with pytest.raises(ValueError, match="taken"), serving("rm", const()):
            pass
    with pytest.raises(ValueError, match="there are: none"):
        grade(Learned(scorer="rm"), "a")


def test_beside_the_rules():
    reward = Compose(rewards=("learned", "numeric"), weights=(0.1, 1.0), gates=("format",))
    good, wrong = "<think>a</think><answer>7</answer>", "<think>a</think><answer>8</answer>"
    with serving("reward_model", const(*[Scores(value=3.0)] * 3)), make_grader(reward) as grader:
        texts = [good, wrong, "please"]
        verdicts = grader.grade([Completion(text=t) for t in texts], [PROBLEM] * 3)
    assert [round(v.score, 6) for v in verdicts] == [1.3, 0.3, 0.0]
    assert verdicts[0].parts["learned"] == 3.0 and [v.correct for v in verdicts] == [True, 0, 0]


@pytest.mark.parametrize("fields", [{"steps": "max"}, {"scale": "log"}, {"factor": math.inf}])
def test_bad_fields(fields):
    with pytest.raises(ValueError):
        Learned(**fields)
