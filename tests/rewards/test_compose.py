import pool_rewards
import pytest

from rlvr_jax.rewards import grade_all, make_grader
from rlvr_jax.rewards.compose import Compose, Route
from rlvr_jax.types import Completion, Problem

SUM = Problem(prompt="3+4", answer="7", index=0)
GOOD = "<think>a</think><answer>7</answer>"
BARE = "<answer>7</answer>"
WRONG = "<think>a</think><answer>8</answer>"


def grade(reward, *texts, problem=SUM):
    return grade_all(reward, [Completion(text=t) for t in texts], [problem] * len(texts), workers=1)


def test_weighted_sum_with_parts():
    good, bare, wrong, empty = grade(Compose(weights=(0.25, 2.0)), GOOD, BARE, WRONG, "")
    assert good.score == 2.25 and good.correct
    assert good.parts == {"correct": 1.0, "format": 1.0, "numeric": 1.0}
    assert bare.score == 2.0 and bare.correct
    assert (wrong.status, wrong.score, wrong.correct) == ("wrong", 0.25, False)
    assert wrong.reason == "mismatch" and empty.score == 0.0


def test_a_gate_shuts_everything_off():
    reward = Compose(rewards=("numeric",), gates=("format",), closed=-0.5)
    good, bare, wrong = grade(reward, GOOD, BARE, WRONG)
    assert good.score == 1.0 and good.correct
    assert (bare.status, bare.score, bare.reason) == ("wrong", -0.5, "gate_format:bad_tags")
    assert not bare.correct and wrong.score == 0.0


def test_accuracy_is_the_named_component():
    verdicts = grade(Compose(rewards=("numeric", "format"), accuracy="numeric"), GOOD, WRONG)
    assert [v.correct for v in verdicts] == [True, False]
    assert [v.correct for v in grade(Compose(rewards=("numeric", "format")), WRONG)] == [True]


def test_unknown_stays_unknown():
    problem = Problem(prompt="?", answer="no number", index=0)
    (verdict,) = grade(Compose(), GOOD, problem=problem)
    assert (verdict.status, verdict.reason) == ("unknown", "numeric:bad_gold")


def test_user_functions_and_worker_rewards_are_components():
    path = f"{pool_rewards.__file__}:length"
    reward = Compose(rewards=("code", path, "numeric"), weights=(0.0, 0.5, 1.0))
    with make_grader(reward, workers=1) as grader:
        pending = grader.submit([Completion(text="a", token_ids=(1,))] * 2, [SUM] * 2)
        verdicts = pending.result(60)
        assert pending.done() and [v.score for v in verdicts] == [1.0, 1.0]
        assert verdicts[0].parts[path] == 2.0
        assert grader.stats.jobs == 3 and grader.stats.errors == 0
        with pytest.raises(ValueError, match="2 problems"):
            grader.submit([Completion(text="a")], [SUM] * 2)


def test_nested():
    inner = grade(
        Route(column="kind", values=("a",), rewards=("compose",), default="numeric"),
        GOOD,
        BARE,
        problem=Problem(prompt="", answer="7", index=0, meta={"kind": "a"}),
    )
    assert [v.score for v in inner] == [2.0, 1.0]  # fmt: skip


def test_route_grades_each_problem_by_its_own():
    make24 = {"reward": "countdown", "numbers": [8, 2, 4], "target": 24}
    problems = [
        Problem(prompt="", answer="7", index=0, meta={"reward": "math"}),
        Problem(prompt="", answer="", index=1, meta=make24),
        Problem(prompt="", answer="7", index=2, meta={"reward": "other"}),
    ]
    texts = ["<answer>7</answer>", "<answer>(8-2)*4</answer>", "<answer>7</answer>"]
    completions = [Completion(text=text) for text in texts]
    verdicts = grade_all(Route(), completions, problems)
    assert [v.status for v in verdicts] == ["scored", "scored", "unknown"]
    assert verdicts[2].reason == "no_route"
    verdicts = grade_all(Route(default="numeric"), completions, problems)
    assert all(v.correct for v in verdicts)
    assert Route().grade_batch(completions, problems)[1].correct


@pytest.mark.parametrize(
    "make, says",
    [
        (lambda: Compose(rewards=()), "each once"),
        (lambda: Compose(rewards=("format", "format")), "each once"),
        (lambda: Compose(weights=(1.0,)), "1 weights for 2 rewards"),
        (lambda: Compose(accuracy="math"), "allowed are format, numeric"),
        (lambda: Compose(rewards=("numerik",)), 'did you mean "numeric"'),
        (lambda: Compose(gates=("x",)), 'no reward "x"'),
        (lambda: Compose(weights=(1.0, float("nan"))), "finite"),
        (lambda: Route(values=()), "0 values"),
        (lambda: Route(values=("a",)), "1 values for 2"),
        (lambda: Route(values=("a", "a")), "twice"),
        (lambda: Route(default="nothing"), 'no reward "nothing"'),
    ],
)
def test_bad_fields(make, says):
    with pytest.raises(ValueError, match=says):
        make()
