"""Runs that train adapters: what moves, what is saved, what the reference is, and resuming."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import get_config

from rlvr_jax.checkpoint import read_params, read_reference
from rlvr_jax.config import build, from_json, to_json
from rlvr_jax.learner import make_optimizer
from rlvr_jax.log import read_rows, strip_timing
from rlvr_jax.memory import account, device_bytes
from rlvr_jax.models import transformer
from rlvr_jax.models.lora import LoraConfig, merge
from rlvr_jax.recipes.pipeline import run_pipeline
from rlvr_jax.setup import Run, first_state, open_run, restore_params, start_stage, state_shapes


class Cut(Exception):
    """The process ends here."""


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """Programs compiled for one run serve the next."""
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", str(tmp_path_factory.mktemp("jax")))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    yield
    jax.config.update("jax_compilation_cache_dir", before)


def small():
    """A short cold start and RL against a frozen reference, adapters in both."""
    c = get_config()
    c.model.layers = 1
    c.lora.rank, c.lora.alpha = 2, 8.0
    c.sft.steps, c.rl.steps = 4, 3
    c.reward.name = "control"
    c.rollout.prompts = 4
    c.rollout.dynamic_sampling = c.rollout.max_refills = None
    c.kl.coef = 0.01
    c.learner.minibatches = None
    c.eval.problems, c.eval.every, c.checkpoint.every = 4, 0, 2
    c.checkpoint.keep = 4
    return c


def leaves(tree):
    return {jax.tree_util.keystr(p): np.asarray(x) for p, x in jax.tree.leaves_with_path(tree)}


def followed(config, workdir, stop=None):
    """Run it; [(stage, adapters, base)] after every step.  The reference is always the base."""
    seen, real = [], Run.finish_step

    def finish_step(self, state, place, steps):
        real(self, state, place, steps)
        stage = self.config.stages[place.stage]
        seen.append((stage, leaves(state.params), leaves(state.frozen)))
        pairs = zip(*map(jax.tree.leaves, (self.reference.params, state.frozen)), strict=True)
        assert all(a is b for a, b in pairs)
        if (stage, place.step) == stop:
            self.checkpoints.wait()
            raise Cut

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "finish_step", finish_step)
        run_pipeline(config, str(workdir))
    return seen


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("whole")
    config = build(small())
    return config, workdir, followed(config, workdir)


def rows(workdir):
    return [strip_timing(r) for r in read_rows(workdir / "metrics.jsonl")]


def saved(config, workdir, which="newest", stage=1):
    """(index, plain parameters, what the checkpoint itself holds, the base it needs)."""
    with open_run(config, str(workdir)) as run:
        index, policy = restore_params(config, run.model, run.mesh, workdir, which)
        plain = merge(policy, config.lora.scale)
        shapes = state_shapes(config, run.model, run.mesh, {"stage": stage})
    _, params = read_params(workdir, shapes.params, index)
    return (
        index,
        leaves(plain),
        leaves(params),
        leaves(read_reference(workdir, shapes.frozen, index)),
    )


def equal(a, b):
    return a.keys() == b.keys() and all(np.array_equal(a[n], b[n]) for n in a)


def test_only_adapters_change(whole):
    config, workdir, seen = whole
    sft, rl = seen[:4], seen[4:]
    assert [s[0] for s in seen] == ["sft"] * 4 + ["rl"] * 3
    for part in (sft, rl):
        first, last = part[0], part[-1]
        assert all("_lora_" in name for name in first[1]) and len(first[1]) == 14
        assert all(np.any(first[1][name] != last[1][name]) for name in first[1])
        assert all(equal(first[2], s[2]) for s in part)
    assert not equal(sft[-1][2], rl[0][2])
    trained = [r for r in rows(workdir) if "reward/mean" in r]
    assert abs(trained[0]["policy/kl_ref_k3"]) < 1e-7 < 1e-6 < trained[2]["policy/kl_ref_k3"]
    assert all(r["health/nonfinite"] == 0 and r["mismatch/abs_mean"] < 1e-4 for r in trained)


def test_the_base_is_saved_once_and_the_adapters_every_time(whole):
    config, workdir, seen = whole
    index, plain, params, base = saved(config, workdir)
    assert index == 7 and equal(params, seen[-1][1]) and equal(base, seen[-1][2])
    q, a, b = (f"['layers']['{name}']" for name in ("q", "q_lora_a", "q_lora_b"))
    np.testing.assert_allclose(plain[q], base[q] + 4 * params[a] @ params[b], rtol=1e-5, atol=1e-7)
    assert sorted(p.name for p in (workdir / "references").iterdir()) == ["0", "4"]
    held, base = (
        (workdir / folder / "_METADATA").read_text()
        for folder in ("checkpoints/7/state", "references/4/state")
    )
    assert "q_lora_a" in held and "embed" not in held
    assert "q_lora_a" not in base and "embed" in base


def test_adapters_of_one_stage_are_in_the_base_of_the_next(whole):
    config, workdir, seen = whole
    index, merged, adapters, first = saved(config, workdir, 4, stage=0)
    assert index == 4 and equal(adapters, seen[3][1]) and equal(first, seen[3][2])
    assert equal(seen[4][2], merged) and not equal(merged, first)


@pytest.mark.parametrize("stop", [("rl", 2), pytest.param(("sft", 2), marks=pytest.mark.slow)])
def test_a_cut_run_equals_a_whole_one(stop, whole, tmp_path):
    config, workdir, seen = whole
    with pytest.raises(Cut):
        followed(config, tmp_path, stop)
    rest = followed(config, tmp_path)
    assert rows(tmp_path) == rows(workdir)
    for (stage, *arrays), (other, *expected) in zip(rest[-1:], seen[-1:], strict=True):
        assert stage == other and all(map(equal, arrays, expected))
    for a, b in zip(saved(config, tmp_path)[1:], saved(config, workdir)[1:], strict=True):
        assert equal(a, b)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["separate", "head"])
def test_a_critic_learns_beside_adapters_and_resumes(kind, tmp_path):
    c = small()
    c.algorithm, c.critic.model = "ppo", kind
    c.sft.steps, c.kl.coef = 2, None
    config = build(c)
    whole = followed(config, tmp_path / "whole")
    with pytest.raises(Cut):
        followed(config, tmp_path / "cut", ("rl", 2))
    rest = followed(config, tmp_path / "cut")
    assert rows(tmp_path / "cut") == rows(tmp_path / "whole")
    assert all(map(equal, rest[-1][1:], whole[-1][1:]))
    last = [r for r in rows(tmp_path / "whole") if "reward/mean" in r][-1]
    assert "value/explained_var" in last and last["health/nonfinite"] == 0


def test_a_stage_may_train_everything_before_one_that_trains_adapters(tmp_path):
    """lora.stages: no adapters in the cold start, whose state is a plain one."""
    c = small()
    c.lora.stages = ("rl",)
    config = build(c)
    tx = make_optimizer(config.optim, 1)
    with open_run(config, str(tmp_path / "w")) as run:
        fresh = first_state(run)
        sft = start_stage(config, run.mesh, fresh, tx, 0)
        shapes = [state_shapes(config, run.model, run.mesh, {"stage": i}) for i in (0, 1)]
        rl = start_stage(config, run.mesh, sft, tx, 1)
    assert sft.frozen is None and jax.tree.structure(sft) == jax.tree.structure(shapes[0])
    assert jax.tree.structure(rl) == jax.tree.structure(shapes[1])
    assert all(
        a is b for a, b in zip(jax.tree.leaves(rl.frozen), jax.tree.leaves(sft.params), strict=True)
    )


def test_optimizer_memory_is_that_of_the_adapters(tmp_path):
    config = build(small())
    tx = make_optimizer(config.optim, 1)
    with open_run(config, str(tmp_path / "w")) as run:
        state = start_stage(config, run.mesh, first_state(run), tx, 1)
    a = config.model.attn
    q, kv, w, m = a.heads * a.head_dim, a.kv_heads * a.head_dim, 32, 64
    number = 2 * sum(i + o for i, o in ((w, q), (w, kv), (w, kv), (q, w), (w, m), (w, m), (m, w)))
    moments = [x for x in jax.tree.leaves(state.opt_state) if x.ndim]
    assert len(moments) == 2 * 14 and {x.dtype for x in moments} == {jnp.dtype("float32")}
    assert sum(x.nbytes for x in moments) == 2 * 4 * number
    base = sum(x.size for x in jax.tree.leaves(state.frozen))
    lines = account({"policy": state, "reference": state.frozen})
    assert lines[0].startswith(f"memory  policy, adapters: {number:,} parameters x 16 B = ")
    assert lines[1].startswith(f"memory  policy, frozen base: {base:,} parameters x 4 B = ")
    assert lines[2] == "memory  reference: the same arrays again, 0 B"
    small_ones = sum(x.nbytes for x in jax.tree.leaves(state) if not x.ndim)
    copies = run.mesh.size  # parameters are replicated over the mesh of the test
    assert device_bytes(state) == copies * (3 * 4 * number + 4 * base + small_ones)


def test_a_config_with_adapters_survives_json():
    c = small()
    c.lora.targets = ("q", "v")
    config = build(c)
    assert from_json(json.loads(json.dumps(to_json(config)))) == config
    assert config.lora == LoraConfig(rank=2, alpha=8.0, targets=("q", "v"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"lora.rank": 0}, "lora.alpha has no effect: lora.rank is 0"),
        ({"lora.stages": ("distill",)}, 'lora.stages names "distill"'),
        ({"reference.mode": "ema", "reference.decay": 0.9}, "does not go with lora.rank 2"),
        ({"reference.mode": "every_n", "reference.every": 2}, "does not go with lora.rank 2"),
        ({"model.lora_scale": 2.0}, "lora_scale"),
        ({"lora.targets": ("qq",)}, "lora.targets is some of"),
    ],
)
def test_what_does_not_go_together_is_refused(change, said):
    c = small()
    with pytest.raises((ValueError, KeyError, AttributeError), match=said):
        for key, value in change.items():
            section, name = key.split(".")
            c[section][name] = value
        build(c)


def test_a_bfloat16_base_under_adapters_is_allowed():
    c = small()
    c.model.param_dtype = c.model.compute_dtype = "bfloat16"
    config = build(c)
    model = dataclasses.replace(config.model, vocab=16)
    base = jax.eval_shape(lambda: transformer.init(model, jax.random.key(0)))
    assert {x.dtype for x in jax.tree.leaves(base)} == {jnp.dtype("bfloat16")}
