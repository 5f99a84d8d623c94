"""EvalReport: small cases by hand, unknown verdicts, and the way through JSON."""

import json
import math

import numpy as np
import pytest

from rlvr_jax.evalreport import EvalReport
from rlvr_jax.statistics import mean_ci

CORRECT = np.array([[1, 1, 1, 1], [1, 0, 0, 0], [0, 0, 0, 0]], bool)
LENGTHS = np.array([[4, 4, 4, 4], [8, 10, 10, 10], [20, 20, 20, 20]])
STOPS = [["eos"] * 4, ["eos"] * 4, ["length"] * 3 + ["eos"]]
ANSWERS = [["1"] * 4, ["2", "3", "3", None], [None] * 4]


def build(**changes):
    fields = {
        "correct": CORRECT,
        "rewards": CORRECT * 1.0,
        "lengths": LENGTHS,
        "stop_reasons": STOPS,
        "answers": ANSWERS,
    }
    return EvalReport.build(**fields | changes)


def test_numbers_by_hand():
    report = build()
    assert (report.problems, report.samples) == (3, 4)
    assert report.avg.value == pytest.approx(5 / 12) and report.avg.n == 3
    assert report.pass_at[1].value == pytest.approx(report.avg.value)
    assert report.pass_at[2].value == pytest.approx((1 + 0.5 + 0) / 3)
    assert report.pass_at[4].value == pytest.approx(2 / 3)
    assert report.maj.value == pytest.approx(1 / 3)  # "3" outvotes "2"; None does not vote
    assert report.lengths["correct"] == pytest.approx((16 + 8) / 5)
    assert report.lengths["incorrect"] == pytest.approx((30 + 80) / 7)
    assert report.lengths["truncated_frac"] == 3 / 12
    assert report.solve_rate == (1.0, 0.25, 0.0)


def test_pass_at_k_uses_powers_of_two_up_to_the_samples():
    wide = np.zeros((2, 6), bool)
    report = EvalReport.build(wide, wide * 1.0, np.ones((2, 6)), [["eos"] * 6] * 2)
    assert sorted(report.pass_at) == [1, 2, 4]
    assert report.maj is None and math.isnan(report.lengths["correct"])


def test_without_any_vote_there_is_no_majority():
    silent = build(answers=[[None] * 4] * 3)
    assert silent.maj is None and "eval/test/maj@4" not in silent.metrics("test")
    assert EvalReport.from_json(silent.to_json()).maj is None
    assert build(answers=[[None] * 4] * 2 + [[None] * 3 + ["7"]]).maj.value == 0.0


def test_one_sample_per_problem():
    column = CORRECT[:, :1]
    report = EvalReport.build(column, column * 1.0, LENGTHS[:, :1], [["eos"]] * 3)
    assert report.avg == mean_ci([1.0, 1.0, 0.0]) == report.pass_at[1]


def test_unknown_verdicts_are_left_out_and_counted():
    valid = np.array([[1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]], bool)
    report = build(valid=valid)
    assert report.unknown_frac == pytest.approx(6 / 12)
    assert report.avg.value == pytest.approx((1 + 0.25) / 2) and report.avg.n == 2
    assert report.pass_at[4].n == 1 and report.pass_at[4].value == 1.0
    assert report.samples_by_problem == (2, 4, 0)
    assert math.isnan(report.solve_rate[2])


def test_all_unknown_is_no_number():
    report = build(valid=np.zeros_like(CORRECT))
    assert report.avg.n == 0 and report.unknown_frac == 1.0
    assert json.loads(json.dumps(report.to_json(), allow_nan=False))["avg"]["value"] is None


def test_json_round_trip_is_exact():
    row = json.loads(json.dumps(build().to_json(), allow_nan=False))
    assert EvalReport.from_json({"step": 3, "phase": "after"} | row) == build()


def test_flat_metrics_carry_the_set_and_k():
    flat = build().metrics("test")
    assert flat["eval/test/avg@4"] == pytest.approx(5 / 12)
    assert {"eval/test/pass@1", "eval/test/pass@4", "eval/test/maj@4"} <= set(flat)
    assert flat["eval/test/ci95_lo"] < flat["eval/test/avg@4"] < flat["eval/test/ci95_hi"]


@pytest.mark.parametrize(
    "changes",
    [
        {"rewards": np.zeros((3, 3))},
        {"stop_reasons": [["eos"] * 4] * 2},
        {"valid": np.ones((4, 3))},
        {"lengths": np.zeros(3)},
    ],
)
def test_shapes_must_agree(changes):
    with pytest.raises(ValueError, match="problems, k"):
        build(**changes)


def test_an_empty_evaluation_is_an_error():
    with pytest.raises(ValueError, match="at least one sample"):
        EvalReport.build(np.zeros((0, 4), bool), np.zeros((0, 4)), np.zeros((0, 4)), [])
