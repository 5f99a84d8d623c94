"""Kill a run with SIGKILL wherever it happens to be; the resumed run must equal the uninterrupted
one."""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import pytest

from rlvr_jax.log import read_rows, strip_timing

TINY = pathlib.Path(__file__).with_name("tiny.py")


def start(workdir, *overrides):
    environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    return subprocess.Popen(
        [sys.executable, str(TINY), str(workdir), *overrides],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(workdir, *overrides) -> str:
    process = start(workdir, *overrides)
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 0, out[-3000:]
    return out


def rows(workdir):
    return [strip_timing(r) for r in read_rows(workdir / "metrics.jsonl")]


def last_state(workdir) -> dict[str, bytes]:
    """Every array of the newest checkpoint, as bytes."""
    import jax
    import numpy as np

    from rlvr_jax.config import from_json
    from rlvr_jax.setup import resolve_model, restore_params
    from rlvr_jax.sharding import make_mesh
    from rlvr_jax.text import load_tokenizer

    config = from_json(json.loads((workdir / "config.json").read_text()))
    mesh = make_mesh(config.mesh, jax.devices()[:1])
    model = resolve_model(config, load_tokenizer("char"))
    _, params = restore_params(config, model, mesh, workdir)
    return {str(p): np.asarray(x).tobytes() for p, x in jax.tree.leaves_with_path(params)}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("whole")
    finish(workdir)
    return workdir


def steps_logged(workdir) -> int:
    try:
        return (workdir / "metrics.jsonl").read_text().count("\n")
    except FileNotFoundError:
        return 0


def kill_when(workdir, process, lines: int, delay: float) -> None:
    """SIGKILL `delay` seconds after the log has `lines` lines."""
    deadline = time.monotonic() + 300
    while steps_logged(workdir) < lines and process.poll() is None:
        assert time.monotonic() < deadline, "the run makes no progress"
        time.sleep(0.01)
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_killed_at_random_points_equals_uninterrupted(whole, tmp_path):
    """Points early, inside the cold start, between the stages, and inside RL (rollout, save)."""
    rng, total = random.Random(0), len(rows(whole))
    for target in (5, 42, 46, 49):
        process = start(tmp_path)
        kill_when(tmp_path, process, min(target, total - 1), rng.uniform(0.0, 0.6))
    finish(tmp_path)
    assert rows(tmp_path) == rows(whole)
    assert last_state(tmp_path) == last_state(whole)
    samples = [read_rows(w / "samples.jsonl") for w in (tmp_path, whole)]
    assert samples[0] == samples[1]


def test_sigterm_saves_and_exits_cleanly(whole, tmp_path):
    process = start(tmp_path)
    deadline = time.monotonic() + 300
    while steps_logged(tmp_path) < 9:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0 and "resumes" in out, out[-2000:]
    done = steps_logged(tmp_path)
    assert "resuming after step" in finish(tmp_path)
    assert steps_logged(tmp_path) > done
    assert rows(tmp_path) == rows(whole)


def test_the_run_learned_and_wrote_everything(whole):
    summary = json.loads((whole / "summary.json").read_text())
    assert [s["stage"] for s in summary["stages"]] == ["sft", "rl"]
    for stage in summary["stages"]:
        assert set(stage["pass1_after"]) == {"value", "ci95", "n"}
    assert (whole / "report.html").stat().st_size > 10_000
    loss = [r["sft/loss"] for r in rows(whole) if "sft/loss" in r]
    assert loss[-1] < loss[0] / 2
    rl = [r for r in rows(whole) if "reward/mean" in r]
    updates = [r["policy/updates"] for r in rl]
    assert len(rl) == 6 and max(updates) == 2 and min(updates) >= 1
    assert rl[0]["mismatch/abs_mean"] < 1e-4


def test_another_config_in_the_same_folder_is_refused(whole):
    process = start(whole, "seed=3")
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 2
    assert out.strip().splitlines()[-1].startswith("rlvr: ") and "seed" in out
