import pytest

from rlvr_jax.rewards import REWARDS, grade_all
from rlvr_jax.rewards.controls import KINDS, Control, majorities, vote
from rlvr_jax.types import Completion, Problem, Verdict

TEXTS = ["<answer>7</answer>", "<answer>8</answer>", "<think>a</think><answer>9</answer>", "none"]


def problems(count, answer="7"):
    return [Problem(prompt=f"p{i}", answer=answer, index=i) for i in range(count)]


def scores(texts=TEXTS, given=None, **fields):
    completions = [Completion(text=text) for text in texts]
    given = given or problems(1) * len(texts)
    return [v.score for v in grade_all(Control(**fields), completions, given)]


def test_fixed_rules():
    assert scores(kind="always") == [1.0] * 4
    assert scores(kind="never") == [0.0] * 4
    assert scores(kind="incorrect") == [0.0, 1.0, 1.0, 0.0]
    assert scores(kind="format_only") == [0.0, 0.0, 1.0, 0.0]
    assert scores(kind="flip", p=0.0) == [1.0, 0.0, 0.0, 0.0]
    assert scores(kind="flip", p=1.0) == [0.0, 1.0, 1.0, 1.0]


def test_accuracy_stays_visible():
    for kind in set(KINDS) - {"label_noise"}:
        verdicts = grade_all(Control(kind=kind), [Completion(text=TEXTS[0])], problems(1))
        assert verdicts[0].accurate and set(verdicts[0].parts) == {"correct", "accuracy"}
        assert verdicts[0].correct == (verdicts[0].score > 0)  # training hears what was paid


def test_accuracy_stays_visible_in_a_composition():
    reward = REWARDS.make("compose", rewards=("format", "control"))
    (verdict,) = grade_all(reward, [Completion(text=TEXTS[0])], problems(1))
    assert verdict.parts["accuracy"] == 1.0


def test_random_rates():
    texts = [f"<answer>{i}</answer>" for i in range(2000)]
    given = problems(1) * 2000
    for kind, p in (("random", 0.3), ("flip", 0.1)):
        rate = sum(scores(texts, given, kind=kind, p=p)) / 2000
        assert abs(rate - p) < 0.04
    assert scores(texts, given, kind="random") != scores(texts, given, kind="random", seed=1)


def test_a_coin_falls_by_the_sampled_ids():
    ones = [Completion(text=text, token_ids=(1,)) for text in "ab"]
    first, second = grade_all(Control(kind="random"), ones, problems(1) * 2)
    assert first.score == second.score


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_a_probability_is_one(p):
    with pytest.raises(ValueError, match="between 0 and 1"):
        Control(p=p)


def test_label_noise_belongs_to_the_problem():
    given = problems(1000)
    right = scores(["<answer>7</answer>"] * 1000, given, kind="label_noise", p=0.25)
    assert abs(sum(right) / 1000 - 0.75) < 0.05
    assert right == scores(["#### 7"] * 1000, given, kind="label_noise", p=0.25)
    moved = [Control(kind="label_noise", p=1.0).prepare([p])[0].answer for p in given]
    assert {int(m) for m in moved} == set(range(8, 17))
    assert Control(kind="label_noise", p=1.0).prepare(problems(1, "x + 1"))[0].answer == "\x00"
    assert (
        Control(kind="label_noise", p=1.0).prepare(problems(1, "so #### 7"))[0].answer[:4] == "####"
    )


def test_majority_needs_no_gold():
    texts = ["<answer>8</answer>", "<answer>8.0</answer>", "<answer>7</answer>", "nothing"]
    given = problems(1) * 4
    assert scores(texts, given, kind="majority") == [1.0, 1.0, 0.0, 0.0]
    two = problems(2)
    assert scores(texts, [two[0], two[1], two[1], two[0]], kind="majority") == [1.0, 1.0, 0.0, 0.0]
    assert scores(["a", "b"], kind="majority") == [0.0, 0.0]
    unknown = problems(1, "not a number") * 4
    assert scores(texts, unknown, kind="majority", reward="numeric") == [0.0] * 4


def test_votes():
    assert vote(Verdict(status="wrong", extracted="1/2")) == vote(
        Verdict(status="wrong", extracted="0.50")
    )
    assert vote(Verdict(status="wrong", extracted=" x ")) == "x"
    assert vote(Verdict(status="wrong", extracted=" ")) is None
    assert majorities(problems(1), [Verdict(status="wrong")]) == {}


def test_unknown_is_not_paid_as_if_known():
    given = problems(1, "not a number")
    for kind in ("incorrect", "flip", "label_noise"):
        (verdict,) = grade_all(Control(kind=kind, p=0.0), [Completion(text=TEXTS[0])], given)
        assert verdict.status == "unknown"


@pytest.mark.parametrize(
    "fields, says",
    [
        ({"kind": "randon"}, "allowed are random"),
        ({"p": 1.5}, "probability"),
        ({"reward": "numerik"}, "did you mean"),
    ],
)
def test_bad_fields(fields, says):
    with pytest.raises(ValueError, match=says):
        Control(**fields)
