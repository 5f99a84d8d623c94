"""JSON lines that survive a kill, and event files TensorBoard itself can read."""

import json
import subprocess
import sys

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rlvr_jax.runfiles import (
    EventFile,
    JsonLines,
    plain_number,
    read_rows,
    replacing,
    strip_timing,
)


def test_rows_come_back_as_written(tmp_path):
    file = JsonLines(tmp_path / "m.jsonl")
    rows = [{"step": 1, "x": 0.1 + 0.2, "y": None}, {"step": 2, "t": "naïve ✓ \n two lines \u2028"}]
    for row in rows:
        file.append(row)
    assert read_rows(tmp_path / "m.jsonl") == rows
    assert (tmp_path / "m.jsonl").read_bytes().count(b"\n") == 2


def test_lone_surrogates_in_model_text_do_not_stop_the_run(tmp_path):
    file = JsonLines(tmp_path / "m.jsonl")
    file.append({"completion": "a\ud800b"})
    assert read_rows(file.path) == [{"completion": "a?b"}]


def test_not_finite_numbers_never_reach_the_file(tmp_path):
    file = JsonLines(tmp_path / "m.jsonl")
    with pytest.raises(ValueError):
        file.append({"x": float("nan")})
    assert read_rows(file.path) == []


@pytest.mark.parametrize("tail", [b'{"step": 3, "x"', b"", b"x" * 200_000])
def test_a_half_last_line_is_ignored_and_removed(tmp_path, tail):
    path = tmp_path / "m.jsonl"
    whole = b'{"step": 1}\n{"step": 2}\n'
    path.write_bytes(whole + tail)
    assert read_rows(path) == [{"step": 1}, {"step": 2}]
    file = JsonLines(path)
    assert path.read_bytes() == whole
    file.append({"step": 3})
    assert read_rows(path)[-1] == {"step": 3}


def test_a_file_of_one_half_line_becomes_empty(tmp_path):
    path = tmp_path / "m.jsonl"
    path.write_bytes(b'{"step"')
    JsonLines(path)
    assert path.read_bytes() == b""


def test_keep_rewrites_and_goes_on(tmp_path):
    file = JsonLines(tmp_path / "m.jsonl")
    for step in range(5):
        file.append({"step": step})
    assert file.keep(lambda row: row["step"] < 3) == 2
    file.append({"step": 7})
    assert [row["step"] for row in read_rows(file.path)] == [0, 1, 2, 7]
    assert file.keep(lambda row: True) == 0
    assert list(tmp_path.iterdir()) == [file.path]


@pytest.mark.parametrize("line", ["{oops}", "[1]", "3"])
def test_a_broken_line_is_named(tmp_path, line):
    path = tmp_path / "m.jsonl"
    path.write_text('{"a": 1}\n' + line + "\n")
    with pytest.raises(ValueError, match=r"m\.jsonl:2"):
        read_rows(path)


def test_a_missing_file_has_no_rows(tmp_path):
    assert read_rows(tmp_path / "none.jsonl") == []


def test_numbers_of_every_kind_become_plain():
    assert plain_number("x", np.float32(0.1)) == float(np.float32(0.1))
    assert plain_number("x", np.array([2.0])) == 2.0
    assert plain_number("x", np.int64(3)) == 3 and plain_number("x", True) == 1
    assert plain_number("x", float("inf")) is None and plain_number("x", None) is None
    assert plain_number("x", np.float64("nan")) is None
    for bad in ("3", [1.0], np.zeros(2)):
        with pytest.raises(ValueError, match='"loss"'):
            plain_number("loss", bad)


def test_strip_timing_leaves_what_must_repeat():
    row = {"step": 1, "stage": "rl", "time/update": 0.1, "perf/step_s": 2.0, "policy/loss": 0.5}
    assert strip_timing(row) == {"step": 1, "stage": "rl", "policy/loss": 0.5}


def scalars(folder, tag):
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    return [(e.step, round(e.value, 6)) for e in events.Scalars(tag)]


def test_tensorboard_reads_the_events(tmp_path):
    file = EventFile(tmp_path / "rl")
    for step in (1, 2, 3):
        file.add(step, {"reward/mean": step / 10, "empty": None})
    assert scalars(tmp_path / "rl", "reward/mean") == [(1, 0.1), (2, 0.2), (3, 0.3)]


def test_tensorboard_forgets_what_a_resumed_run_does_again(tmp_path):
    first = EventFile(tmp_path)
    for step in (1, 2, 3, 4):
        first.add(step, {"x": float(step)})
    first.close()
    second = EventFile(tmp_path, purge_step=3)
    second.add(3, {"x": 30.0})
    second.close()
    assert scalars(tmp_path, "x") == [(1, 1.0), (2, 2.0), (3, 30.0)]


def test_replacing_is_all_or_nothing(tmp_path):
    path = tmp_path / "summary.json"
    path.write_text("old")
    with pytest.raises(RuntimeError), replacing(path) as file:
        file.write("half")
        raise RuntimeError
    assert path.read_text() == "old"
    with replacing(path) as file:
        json.dump({"a": 1}, file)
    assert json.loads(path.read_text()) == {"a": 1}


def test_logging_imports_neither_jax_nor_tensorflow():
    code = (
        "import sys, tempfile; import rlvr_jax.log as log\n"
        "run = log.RunLog(tempfile.mkdtemp(), [log.StagePlan('rl', 1)])\n"
        "run.metrics('rl', 1, {'x': 1.0}); run.close()\n"
        "assert not {'jax', 'tensorflow'} & set(sys.modules), 'a heavy import'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
