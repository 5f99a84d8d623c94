"""Reading run folders: finished, half finished, damaged."""

import json
import shutil

import numpy as np
import pytest

from rlvr_jax.analysis.checks import checks
from rlvr_jax.analysis.run_folder import change, leading_stage, read_run


def test_a_finished_run(finished):
    run = read_run(finished)
    assert run.stages == ("sft", "rl") and run.sets == ("test",)
    assert (run.steps("sft"), run.steps("rl")) == (900, 150)
    steps, values = run.series("rl", "reward/mean")
    assert list(steps) == list(range(1, 151)) and values[-10:].mean() > values[:10].mean()
    assert run.total("sft", "time/") == pytest.approx(36 * 2.01)
    assert run.config["task"]["name"] == "arithmetic" and run.summary == {}


def test_change_is_before_to_newest_and_paired(finished):
    run = read_run(finished)
    rl = change(run, "rl")
    assert leading_stage(run) == "rl"
    assert rl.before.avg.value < 0.65 and rl.after.avg.value > 0.85
    assert rl.difference.value == pytest.approx(rl.after.avg.value - rl.before.avg.value)
    assert rl.difference.lo > 0


def test_a_stage_without_its_own_before_takes_the_one_of_the_stage_earlier(finished, tmp_path):
    workdir = shutil.copytree(finished, tmp_path / "run")
    lines = (workdir / "evals.jsonl").read_text().splitlines(keepends=True)
    kept = [line for line in lines if '"step": 0, "stage": "rl"' not in line]
    assert len(kept) == len(lines) - 1
    (workdir / "evals.jsonl").write_text("".join(kept))
    run = read_run(workdir)
    assert change(run, "rl").before == change(run, "sft").after


def test_a_run_without_evaluations(finished, tmp_path):
    workdir = shutil.copytree(finished, tmp_path / "run")
    (workdir / "evals.jsonl").unlink()
    run = read_run(workdir)
    assert change(run, "rl") is None and leading_stage(run) == "rl"


def test_a_run_killed_before_its_second_evaluation(finished, tmp_path):
    workdir = shutil.copytree(finished, tmp_path / "run")
    lines = (workdir / "evals.jsonl").read_text().splitlines(keepends=True)
    (workdir / "evals.jsonl").write_text(lines[0])
    found = change(read_run(workdir), "sft")
    assert found.before is not None and found.after is None and found.difference is None


def test_no_run_and_damaged_runs_are_clear_errors(tmp_path):
    with pytest.raises(ValueError, match="no run in"):
        read_run(tmp_path)
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "stage": "rl"}\nhalf\n')
    with pytest.raises(ValueError, match="metrics.jsonl:2"):
        read_run(tmp_path)
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "stage": "rl"}\n')
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ValueError, match="config.json"):
        read_run(tmp_path)


def test_null_metrics_are_left_out_of_a_series(tmp_path):
    rows = '{"step": 1, "stage": "rl", "x": null}\n{"step": 2, "stage": "rl", "x": 3}\n'
    (tmp_path / "metrics.jsonl").write_text(rows)
    run = read_run(tmp_path)
    np.testing.assert_array_equal(run.series("rl", "x"), [[2], [3.0]])
    assert run.total("rl", "x") == 3 and len(run.series("rl", "y")[0]) == 0


def found(tmp_path, *rows):
    """name -> (good, what was found) of a run with these rows of rl."""
    lines = [json.dumps({"step": i, "stage": "rl"} | row) for i, row in enumerate(rows, 1)]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    return {check.name: (check.good, check.found) for check in checks(read_run(tmp_path), "rl")}


def test_what_was_not_logged_is_not_known(tmp_path):
    name = "finite updates"
    assert found(tmp_path, {"x": 1}) == {name: (None, "not known")}
    assert found(tmp_path, {"health/nonfinite": 0.0})[name] == (True, "refused in 0 steps")
    rows = [{"health/nonfinite": share} for share in (0.0, 0.5, 1.0)]
    assert found(tmp_path, *rows)[name] == (False, "refused in 2 steps")


def test_a_gap_that_was_not_finite_is_bad(tmp_path):
    rows = [{"mismatch/abs_max": gap} for gap in (1e-5, None, 2e-5)]
    gap = found(tmp_path, *rows)["sampler/trainer log-prob gap"]
    assert gap == (False, "not finite in 1 steps")


def test_checks_speak_up(finished, tmp_path):
    assert all(check.good for check in checks(read_run(finished), "rl"))
    (tmp_path / "metrics.jsonl").write_text(
        '{"step": 1, "stage": "rl", "mismatch/abs_max": 0.3, "health/nonfinite": 2,'
        ' "len/truncated_frac": 0.5, "group/zero_std_frac": 0.5}\n'
    )
    good = {check.name: check.good for check in checks(read_run(tmp_path), "rl")}
    assert good == {
        "finite updates": False,
        "sampler/trainer log-prob gap": False,
        "completions cut off at the limit": False,
        "prompts without signal": True,
    }
