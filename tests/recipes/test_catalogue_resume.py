"""Everything that a method carries from step to step survives a stop, bit for bit.

Two configs hold it all: a critic, a moving reference, both controllers, a curriculum, staged
lengths; and a reference that is replaced with the optimizer's reset, with a running baseline.
"""

import jax
import numpy as np
import pytest
from tiny import get_config

from rlvr_jax.config import build
from rlvr_jax.log import read_rows, strip_timing
from rlvr_jax.recipes.pipeline import run_pipeline
from rlvr_jax.setup import Run, open_run, state_shapes

STEPS = 4


class Cut(Exception):
    """The process ends here."""


def small():
    c = get_config()
    c.stages = ("rl",)
    c.sft = type(c.sft)({})
    c.model.layers = 1
    c.reward.name = "control"
    c.rl.steps = STEPS
    c.rollout.prompts = 4
    c.rollout.dynamic_sampling = c.rollout.max_refills = None
    c.eval.problems, c.eval.every, c.checkpoint.every = 4, 0, 2
    return c


def everything_that_moves():
    c = small()
    c.algorithm = "ppo"
    c.critic.warmup_steps = 1
    c.critic.minibatches = 2
    c.reference.mode, c.reference.decay = "ema", 0.5
    c.kl_control.target, c.kl_control.horizon = 0.01, 16.0
    c.entropy.target, c.entropy.step = 9.0, 1e-3
    c.curriculum.retire_at, c.curriculum.min_samples = 0.9, 4
    c.rollout.limits, c.rollout.limit_steps = (8, 16), (2,)
    c.shaping.soft_overlong = 0.5
    c.interruption.after, c.interruption.text = (2, 4), "so "
    return c


def reset_every_third():
    c = small()
    c.algorithm = "prorl"
    c.rollout.max_refills = 1
    c.advantage.name = "running_mean"
    c.reference.every = 3
    c.checkpoint.every = 1
    return c


def last(config, workdir):
    """(every array, host state) of the newest checkpoint, and the reference it needs."""
    with open_run(config, str(workdir)) as run:

        def shapes(host):
            return state_shapes(config, run.model, run.mesh, host)

        found = run.checkpoints.restore(shapes)
        leaves = jax.tree.leaves_with_path(found.state)
        like = shapes(found.host).params
        reference = run.checkpoints.restore_reference(found.reference, like)
        leaves += jax.tree.leaves_with_path(reference)
    return {f"{i} {p}": np.asarray(x).tobytes() for i, (p, x) in enumerate(leaves)}, found.host


def rows(workdir):
    return [strip_timing(r) for r in read_rows(workdir / "metrics.jsonl")]


@pytest.mark.parametrize(
    ("make", "stop"),
    [
        pytest.param(everything_that_moves, 3, marks=pytest.mark.slow, id="moves"),
        pytest.param(reset_every_third, 3, id="reset"),
    ],
)
def test_a_cut_run_equals_a_whole_one(make, stop, tmp_path, monkeypatch):
    config = build(make())
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    run_pipeline(config, str(whole))
    real = Run.finish_step

    def finish_step(self, state, place, steps):
        real(self, state, place, steps)
        if place.step == stop:
            self.checkpoints.wait()
            raise Cut

    monkeypatch.setattr(Run, "finish_step", finish_step)
    with pytest.raises(Cut):
        run_pipeline(config, str(cut))
    monkeypatch.setattr(Run, "finish_step", real)
    run_pipeline(config, str(cut))
    assert rows(cut) == rows(whole)
    arrays, host = last(config, whole)
    assert last(config, cut) == (arrays, host)
    trained = [r for r in rows(whole) if "reward/mean" in r]
    assert [r["step"] for r in trained] == [1, 2, 3, 4]
    (check_moves if make is everything_that_moves else check_reset)(trained, host, arrays)


def check_moves(trained, host, arrays):
    assert trained[0]["policy/updates"] == 0 and "policy/loss" not in trained[0]
    assert all("value/explained_var" in r for r in trained)
    assert [r["data/limit"] for r in trained] == [8, 8, 16, 16]
    coefs = [r["policy/kl_coef"] for r in trained[1:]]
    assert coefs[0] == pytest.approx(1e-3) and len(set(coefs)) > 1
    bonus = [r["policy/entropy_coef"] for r in trained[1:]]
    assert bonus == pytest.approx([1e-3, 2e-3, 3e-3]) and host["entropy_coef"] > 0
    assert host["pool"] and any("critic" in name for name in arrays)
    assert all(r["len/interrupted_frac"] > 0 for r in trained)
    assert trained[-1]["reward/length"] < 0 and trained[-1]["policy/grad_norm"] > 0


def check_reset(trained, host, arrays):
    assert host["reference"] == 3 and host["baseline"] != 0
    kl = [r["policy/kl_ref_k3"] for r in trained]
    assert kl[2] > 0
    assert "adv/baseline" in trained[0]


def test_references_that_no_checkpoint_needs_are_gone(tmp_path):
    config = build(everything_that_moves())
    run_pipeline(config, str(tmp_path))
    kept = sorted(int(p.name) for p in (tmp_path / "references").iterdir())
    saved = sorted(int(p.name) for p in (tmp_path / "checkpoints").iterdir())
    assert kept == saved == [2, 4]
