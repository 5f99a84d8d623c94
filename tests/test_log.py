"""RunLog: what a run folder holds, what is left of it after a kill, and errors."""

import contextlib
import io
import json
import subprocess
import sys
import time

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rlvr_jax.evalreport import EvalReport
from rlvr_jax.log import Clock, Console, RunLog, StagePlan, read_rows, sample_row, strip_timing
from rlvr_jax.types import Completion, Problem, Verdict

STAGES = [StagePlan("sft", 3), StagePlan("rl", 6)]


def open_log(workdir, **options):
    console = Console(STAGES, io.StringIO())
    return contextlib.closing(RunLog(workdir, STAGES, console=console, **options))


def report(seed):
    correct = np.random.default_rng(seed).random((10, 4)) < 0.5
    return EvalReport.build(correct, correct * 1.0, np.full((10, 4), 7), [["eos"] * 4] * 10)


def sample(text="5"):
    problem = Problem(prompt="2+3=", answer="5", index=4)
    completion = Completion(text=text, num_tokens=2)
    verdict = Verdict(status="scored", score=1.0, parts={"correct": 1.0}, extracted=text)
    return sample_row(problem, completion, verdict, split="test")


def play(log, stage, first, last):
    """The steps first..last of one stage, in the order the module's docstring demands."""
    if first == 0:
        log.evaluation(stage, 0, "test", "before", report(0))
        log.samples(stage, 0, "before", [sample()])
    for step in range(max(1, first), last + 1):
        with log.clock("update"):
            pass
        log.metrics(stage, step, {"policy/loss": 1 / step, "reward/mean": np.float32(step / 7)})
        if step % 2 == 0:
            log.evaluation(stage, step, "test", "during", report(step))
            log.samples(stage, step, "during", [sample(str(step))])


def content(workdir):
    return {
        kind: [strip_timing(row) for row in read_rows(workdir / f"{kind}.jsonl")]
        for kind in ("metrics", "evals", "samples")
    }


def events(workdir, stage, tag):
    accumulator = EventAccumulator(str(workdir / "tensorboard" / stage))
    accumulator.Reload()
    return [(e.step, e.value) for e in accumulator.Scalars(tag)]


@pytest.fixture
def whole(tmp_path):
    with open_log(tmp_path / "whole") as log:
        play(log, "sft", 1, 3)
        play(log, "rl", 0, 6)
    return tmp_path / "whole"


def test_rows_have_the_documented_form(whole):
    rows = content(whole)
    assert rows["metrics"][0] == {"step": 1, "stage": "sft", "policy/loss": 1.0} | {
        "reward/mean": float(np.float32(1 / 7))
    }
    head = {key: rows["evals"][-1][key] for key in ("step", "stage", "set", "phase")}
    assert head == {"step": 6, "stage": "rl", "set": "test", "phase": "during"}
    assert EvalReport.from_json(rows["evals"][-1]) == report(6)
    flat = [row for row in rows["metrics"] if "eval/test/avg@4" in row]
    assert len(flat) == len(rows["evals"]) == 5
    assert rows["samples"][-1]["completion"] == "6"


def test_timing_is_there_and_under_its_two_names(whole):
    row = read_rows(whole / "metrics.jsonl")[0]
    assert {"time/update", "time/other", "perf/step_s"} <= set(row)
    assert row["perf/step_s"] == pytest.approx(row["time/update"] + row["time/other"])


@pytest.mark.parametrize("stop", range(7))
def test_a_killed_and_resumed_run_leaves_the_same_files(tmp_path, whole, stop):
    """Killed somewhere after `stop`, with a half line; the checkpoint of `stop` is the newest."""
    workdir = tmp_path / "killed"
    with open_log(workdir) as log:
        play(log, "sft", 1, 3)
        play(log, "rl", 0, min(6, stop + 2))
    for kind in ("metrics", "evals", "samples"):
        with open(workdir / f"{kind}.jsonl", "ab") as file:
            file.write(b'{"step": 9, "stage": "r')
    with open_log(workdir) as log:
        log.truncate("rl", stop)
        play(log, "rl", stop + 1, 6)
    assert content(workdir) == content(whole)
    assert events(workdir, "rl", "policy/loss") == events(whole, "rl", "policy/loss")
    assert events(workdir, "rl", "eval/test/avg@4") == events(whole, "rl", "eval/test/avg@4")


def test_resuming_an_earlier_stage_forgets_the_later_ones(tmp_path, whole):
    with open_log(whole) as log:
        log.truncate("sft", 2)
        assert {row["stage"] for row in content(whole)["metrics"]} == {"sft"}
        play(log, "sft", 3, 3)
        play(log, "rl", 0, 6)
    with open_log(tmp_path / "again") as log:
        play(log, "sft", 1, 3)
        play(log, "rl", 0, 6)
    assert content(whole) == content(tmp_path / "again")
    assert len(events(whole, "rl", "policy/loss")) == 6


def test_a_stage_can_be_forgotten_entirely(whole):
    with open_log(whole) as log:
        log.truncate("rl", -1)
    for rows in content(whole).values():
        assert {row["stage"] for row in rows} == {"sft"}


def test_not_finite_metrics_become_null(tmp_path):
    with open_log(tmp_path) as log:
        log.metrics("rl", 1, {"policy/loss": float("nan"), "health/nan": 1})
    row = json.loads((tmp_path / "metrics.jsonl").read_text())
    assert row["policy/loss"] is None and row["health/nan"] == 1


def test_unknown_stages_are_errors(tmp_path):
    with open_log(tmp_path) as log:
        with pytest.raises(ValueError, match='no stage "lr"'):
            log.metrics("lr", 1, {})
        with pytest.raises(ValueError, match="sft, rl"):
            log.truncate("lr", 1)
    for stages in ([], [StagePlan("rl", 1), StagePlan("rl", 2)]):
        with pytest.raises(ValueError, match="different names"):
            RunLog(tmp_path, stages)


@pytest.mark.parametrize("place", ["file", "file/below", "/proc/nowhere"])
def test_an_unwritable_workdir_is_one_clear_error(tmp_path, place):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="cannot write to the workdir") as error:
        RunLog(tmp_path / place, STAGES)
    assert "\n" not in str(error.value)


def test_other_processes_write_nothing(tmp_path):
    with contextlib.closing(RunLog(tmp_path / "x", STAGES, writes=False)) as log:
        play(log, "rl", 0, 2)
        log.note("quiet")
        log.truncate("rl", 1)
    assert not (tmp_path / "x").exists()


def test_a_sample_row_tells_everything_a_reader_asks():
    row = sample()
    assert row["correct"] and row["reward"] == 1.0 and row["stop_reason"] == "eos"
    assert (row["prompt"], row["gold"], row["extracted"], row["index"]) == ("2+3=", "5", "5", 4)
    chat = Problem(prompt=({"role": "user", "content": "hi"},), answer="", index=0)
    wrong = Verdict(status="wrong", reason="no_answer", score=-1.0, gold="42")
    row = sample_row(chat, Completion(text=""), wrong, split="train", sample=3, reward=-1.5)
    assert row["prompt"] == "user: hi" and row["gold"] == "42" and not row["correct"]
    assert (row["score"], row["reward"], row["sample"]) == (-1.0, -1.5, 3)
    json.dumps(row, allow_nan=False)


class Ticks:
    """A clock that advances by what the test says."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_the_clock_gives_nested_time_to_the_outer_part():
    ticks = Ticks()
    clock = Clock(ticks)
    with clock("eval"):
        ticks.now += 1
        with clock("generate"):
            ticks.now += 2
    with clock("generate"):
        ticks.now += 4
    ticks.now += 8
    assert clock.drain() == {"time/eval": 3.0, "time/generate": 4.0, "time/other": 8.0}
    assert clock.step_seconds() == 12.0
    assert clock.drain() == {"time/other": 0.0} and clock.step_seconds() == 0.0


def test_the_clock_survives_an_exception_and_refuses_unknown_parts():
    ticks = Ticks()
    clock = Clock(ticks)
    with pytest.raises(RuntimeError), clock("verify"):
        ticks.now += 1
        raise RuntimeError
    with clock("update"):
        ticks.now += 1
    assert clock.drain() == {"time/verify": 1.0, "time/update": 1.0, "time/other": 0.0}
    with pytest.raises(ValueError, match='did you mean "generate"'), clock("generat"):
        pass


WRITER = """
import sys, rlvr_jax.log as log
run = log.RunLog(sys.argv[1], [log.StagePlan("rl", 10**9)])
for step in range(1, 10**9):
    run.metrics("rl", step, {f"policy/x{i}": step / 7 for i in range(50)})
"""


@pytest.mark.parametrize("wait", [0.0, 0.05, 0.11])
def test_a_real_sigkill_leaves_whole_rows(tmp_path, wait):
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    path = tmp_path / "metrics.jsonl"
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not (path.exists() and path.stat().st_size > 20_000) and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(wait)
    process.kill()
    process.wait()
    steps = [row["step"] for row in read_rows(path)]
    assert steps == list(range(1, len(steps) + 1)) and len(steps) > 5
    with contextlib.closing(RunLog(tmp_path, [StagePlan("rl", 10)])) as log:
        log.truncate("rl", 5)
        log.metrics("rl", 6, {"policy/x0": 6 / 7})
    assert [row["step"] for row in read_rows(path)] == [1, 2, 3, 4, 5, 6]
    assert [step for step, _ in events(tmp_path, "rl", "policy/x0")] == [1, 2, 3, 4, 5, 6]
