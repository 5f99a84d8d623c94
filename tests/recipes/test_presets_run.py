"""Every published method runs: rollout, update, invariants, checkpoint, report."""

import json
import math

import jax
import pytest
from tiny import get_config

from rlvr_jax.config import build
from rlvr_jax.log import read_rows
from rlvr_jax.presets import PRESETS
from rlvr_jax.recipes.pipeline import run_pipeline

QUICK = ("grpo", "remax", "vapo", "skywork_or1", "clipcov")  # the rest is marked slow


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """Programs compiled for one preset serve the next."""
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", str(tmp_path_factory.mktemp("jax")))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    yield
    jax.config.update("jax_compilation_cache_dir", before)


def config_of(name, steps=2):
    c = get_config()
    c.stages = ("rl",)
    c.sft = type(c.sft)({})
    c.algorithm = name
    c.model.layers = 1
    c.reward.name = "control"  # an untrained model earns nothing; this way there is something to do
    c.rl.steps = steps
    c.rollout.prompts = 4
    c.rollout.group = 8
    c.rollout.dynamic_sampling = c.rollout.max_refills = None
    if PRESETS[name].overrides.get("rollout", {}).get("dynamic_sampling"):
        c.rollout.max_refills = 1
    if PRESETS[name].overrides.get("critic", {}).get("warmup_steps"):
        c.critic.warmup_steps = 1
    c.learner.minibatches = None
    c.eval.problems = 4
    c.eval.every = 0
    return c


def run(name, workdir, steps=2):
    run_pipeline(build(config_of(name, steps)), str(workdir))
    return [r for r in read_rows(workdir / "metrics.jsonl") if "reward/mean" in r]


def check(name, workdir):
    rows = run(name, workdir)
    assert len(rows) == 2
    for row in rows:
        bad = [k for k, v in row.items() if isinstance(v, float) and not math.isfinite(v)]
        assert not bad and None not in row.values()
    sections = PRESETS[name].overrides
    last = rows[-1]
    assert last["policy/updates"] == sections.get("learner", {}).get("minibatches", 1)
    assert last["health/nonfinite"] == 0 and last["policy/grad_norm"] > 0
    assert ("value/explained_var" in last) == ("critic" in sections)
    assert ("policy/kl_ref_k3" in last) == ("kl" in sections)
    assert ("policy/entropy_coef" in last) == ("entropy" in sections)
    summary = json.loads((workdir / "summary.json").read_text())
    assert summary["stages"][-1]["stage"] == "rl"


@pytest.mark.parametrize("name", QUICK)
def test_runs(name, tmp_path):
    check(name, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(PRESETS) - set(QUICK)))
def test_the_others_run_too(name, tmp_path):
    check(name, tmp_path)
