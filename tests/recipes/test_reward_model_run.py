"""Runs that are paid by a reward model, alone and beside a rule."""

import contextlib
import json
import math

import jax
import numpy as np
import pytest
from tiny import get_config

from rlvr_jax.config import build, from_json, to_json
from rlvr_jax.log import read_rows
from rlvr_jax.models import transformer
from rlvr_jax.models.config import AttentionConfig, ModelConfig
from rlvr_jax.models.hf import SCORE, write_model
from rlvr_jax.models.safetensors_file import SINGLE, read_headers, write_file
from rlvr_jax.recipes.pipeline import begin, run_pipeline
from rlvr_jax.recipes.rl import rl
from rlvr_jax.rewards.learned import find_scorer
from rlvr_jax.setup import open_actor, open_run
from rlvr_jax.text import char_tokenizer
from rlvr_jax.types import Completion

MODEL = ModelConfig(
    family="llama",
    vocab=128,
    width=16,
    layers=1,
    mlp_width=16,
    attn=AttentionConfig(heads=2, kv_heads=1, head_dim=8),
)


pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A reward model with random weights."""
    folder = tmp_path_factory.mktemp("rm")
    shapes = jax.eval_shape(lambda: transformer.init(MODEL, jax.random.key(0)))
    rng = np.random.default_rng(0)
    params = jax.tree.map(lambda s: rng.normal(size=s.shape).astype(np.float32), shapes)
    write_model(folder, MODEL, params, "float32")
    char_tokenizer().save_pretrained(folder)
    stored = read_headers(folder)
    arrays = {
        name: np.fromfile(t.path, t.dtype, int(np.prod(t.shape)), offset=t.offset).reshape(t.shape)
        for name, t in stored.items()
    }
    arrays[SCORE] = rng.normal(size=(1, MODEL.width))
    tensors = {name: (a.shape, lambda a=a: a) for name, a in arrays.items()}
    write_file(folder / SINGLE, tensors, np.dtype(np.float32))
    return folder


def small():
    c = get_config()
    c.model.layers, c.model.width, c.model.mlp_width = 1, 16, 16
    c.decode.max_new_tokens = c.decode.chunk = 8
    c.stages = ("rl",)
    c.sft.steps = c.sft.batch = c.sft.optim.learning_rate = None
    c.rl.steps, c.rollout.prompts, c.learner.minibatches = 2, 4, None
    c.rollout.dynamic_sampling = c.rollout.max_refills = None
    c.eval.problems, c.eval.samples, c.eval.every, c.checkpoint.every = 4, 4, 0, 2
    return c


def steps(workdir):
    return [r for r in read_rows(workdir / "metrics.jsonl") if "reward/mean" in r]


def test_two_steps_beside_a_rule(folder, tmp_path, capsys):
    c = small()
    name = f"learned:{folder}"
    c.reward.name, c.reward.rewards, c.reward.weights = "compose", (name, "numeric"), (0.5, 1.0)
    config = build(c)
    assert from_json(json.loads(json.dumps(to_json(config)))) == config
    with open_run(config, str(tmp_path)) as run:
        rl(run, *begin(run))
    numbers = sum(math.prod(t.shape) for t in read_headers(folder).values()) + 1  # a bias of 0
    told = capsys.readouterr().out.replace("\n", "")
    assert f"reward model {folder}: {numbers:,} parameters x 4 B" in told
    first, second = steps(tmp_path)
    for row in (first, second):
        assert row["verifier/unknown_frac"] == 0 and row["health/nonfinite"] == 0
        paid = 0.5 * row[f"reward/{name}"] + row["reward/numeric"]
        np.testing.assert_allclose(row["reward/mean"], paid, atol=1e-5)
        assert row["reward/std"] > 0.1
    with contextlib.ExitStack() as stack:  # rlvr eval, rlvr doctor
        actor, _, _ = open_actor(stack, config, config.eval_sampling)
        (verdict,) = actor.grader.grade([Completion(text="7")], [config.task.split("test")[0]])
    assert verdict.parts[name] != 0
    with pytest.raises(ValueError, match="is served"):  # only for the time of the run
        find_scorer(str(folder))


def test_a_folder_that_is_no_reward_model_stops_a_run_before_it_begins(folder, tmp_path):
    c = small()
    c.reward.name, c.reward.scorer = "learned", str(tmp_path / "none")
    with pytest.raises(ValueError, match="no model folder"):
        run_pipeline(build(c), str(tmp_path / "w"))
    assert not (tmp_path / "w" / "config.json").exists()
