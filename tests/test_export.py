"""A run that starts from a Hugging Face folder, and what `rlvr export` makes of it."""

import contextlib
import dataclasses
import functools
import json
import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr_jax.checkpoint import Checkpoints
from rlvr_jax.commands.flags import saved_config
from rlvr_jax.config import build, from_json, to_json
from rlvr_jax.export import export
from rlvr_jax.learner import make_optimizer
from rlvr_jax.models import transformer as tf
from rlvr_jax.models.config import AttentionConfig, ModelConfig
from rlvr_jax.models.hf import load_params, read_config, write_model
from rlvr_jax.recipes.pipeline import run_pipeline
from rlvr_jax.setup import Place, resolve_model, restore_params, start_stage, start_state
from rlvr_jax.sharding import MeshConfig, make_mesh
from rlvr_jax.text import char_tokenizer, load_tokenizer, stop_ids

sys.path.insert(0, str(pathlib.Path(__file__).parent / "recipes"))
from tiny import get_config  # noqa: E402

MODEL = ModelConfig(
    family="qwen3",
    context=64,
    vocab=128,
    width=32,
    layers=2,
    mlp_width=64,
    attn=AttentionConfig(heads=2, kv_heads=1, head_dim=16, qk_norm=True),
)
GENERATION = {"do_sample": True, "temperature": 0.6, "top_k": 20, "eos_token_id": [1, 2]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A checkpoint with a tokenizer, as from the hub."""
    path = tmp_path_factory.mktemp("hub") / "tiny-model"
    write_model(path, MODEL, tf.init(MODEL, jax.random.key(3)), "float32")
    char_tokenizer().save_pretrained(path)
    (path / "generation_config.json").write_text(json.dumps(GENERATION))
    return path


def settings(folder, **model):
    c = get_config()
    c.stages, c.sft = ("rl",), None
    c.model = {"path": str(folder)} | model
    c.rl.steps = 3
    c.rollout.dynamic_sampling = c.rollout.max_refills = None
    return c


@pytest.fixture(scope="module")
def run(folder, tmp_path_factory):
    """(folder of a run of three steps of RL, its typed configuration)."""
    workdir, config = tmp_path_factory.mktemp("runs") / "three", build(settings(folder))
    run_pipeline(config, str(workdir))
    return workdir, config


@functools.partial(jax.jit, static_argnums=0)
def logits(config, params, tokens):
    positions = jnp.broadcast_to(jnp.arange(tokens.shape[1]), tokens.shape)
    allowed = positions[:, :, None] >= positions[:, None, :]
    attend = tf.attend_full(config, allowed, positions, lambda k, v: None)
    hidden, _ = tf.forward(config, params, tokens, positions, attend)
    return tf.logits_of(config, tf.head_weight(params), hidden)


def test_a_path_brings_architecture_and_tokenizer(folder):
    config = build(settings(folder, param_dtype="bfloat16"))
    assert config.tokenizer == str(folder)
    expected = dataclasses.replace(MODEL, path=str(folder), param_dtype="bfloat16")
    assert dataclasses.replace(config.model, init_std=MODEL.init_std) == expected
    assert from_json(json.loads(json.dumps(to_json(config)))) == config


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ({"width": 32}, "config.model.width has no effect: the architecture comes from"),
        ({"attn": {"heads": 2}}, "config.model.attn has no effect"),
        ({"param_dtype": "float16"}, "float32, bfloat16"),
    ],
)
def test_what_the_checkpoint_decides_may_not_be_set(folder, model, said):
    with pytest.raises(ValueError, match=said):
        build(settings(folder, **model))


def test_sequences_longer_than_the_context_are_refused(folder):
    c = settings(folder)
    c.decode.max_new_tokens = 60
    with pytest.raises(ValueError, match="up to 68 tokens .* the model sees 64"):
        build(c)


def test_a_run_starts_from_the_checkpoint_and_export_gives_its_logits(run, folder, tmp_path):
    torch = pytest.importorskip("torch", reason="parity needs torch (the test extra)")
    from transformers import AutoModelForCausalLM

    workdir, config = run
    mesh = make_mesh(MeshConfig(), jax.devices()[:1])
    index, params = restore_params(config, config.model, mesh, workdir)
    start = load_params(str(folder), config.model, mesh)
    moved = max(
        float(jnp.abs(a - b).max())
        for a, b in zip(jax.tree.leaves(params), jax.tree.leaves(start), strict=True)
    )
    assert index == 3 and 0 < moved < 0.02  # three steps of Adam at 1e-3, not another start
    assert export(saved_config(workdir), workdir, tmp_path / "out", "newest", None) == 3
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    tokens = np.random.default_rng(0).integers(0, 128, (2, 12))
    with torch.no_grad():
        theirs = model(torch.tensor(tokens)).logits.numpy()
    np.testing.assert_allclose(logits(config.model, params, tokens), theirs, atol=1e-4)


def test_the_folder_is_whole(run, tmp_path):
    workdir, _ = run
    export(saved_config(workdir), workdir, tmp_path / "out", 2, "bfloat16")
    tokenizer = load_tokenizer(str(tmp_path / "out"))
    assert tokenizer.get_vocab() == char_tokenizer().get_vocab()
    assert stop_ids(tokenizer) == (1, 2) and stop_ids(char_tokenizer()) == (1,)
    kept = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    assert kept == GENERATION | {"bos_token_id": 2, "pad_token_id": 0}
    card = (tmp_path / "out" / "README.md").read_text()
    for words in ("checkpoint 2, after step 2 of 3 of stage rl", "pass@1", "sha256 of the data"):
        assert words in card
    assert str(workdir.parent) not in card.split("## Configuration")[0]
    back = read_config(str(tmp_path / "out"))
    params = load_params(str(tmp_path / "out"), back, make_mesh(MeshConfig(), jax.devices()[:1]))
    assert jax.tree.leaves(params)[0].dtype == jnp.float32


def test_a_native_model_is_exported_as_the_family_that_fits(tmp_path):
    plain = dataclasses.replace(MODEL, family="", attn=AttentionConfig(2, 1, 16))
    write_model(tmp_path, plain, tf.init(plain, jax.random.key(0)), "float32")
    assert read_config(str(tmp_path)).family == "llama"
    odd = dataclasses.replace(plain, embed_scale=True)
    with pytest.raises(ValueError, match='nearest, "llama", lacks embed_scale=True'):
        write_model(tmp_path, odd, tf.init(odd, jax.random.key(0)), "float32")


def test_export_overwrites_nothing(run, tmp_path):
    (tmp_path / "something").write_text("mine")
    with pytest.raises(ValueError, match="exists already"):
        export(saved_config(run[0]), run[0], tmp_path, "newest", None)
    with pytest.raises(ValueError, match="no checkpoint 7 .* there are"):
        export(saved_config(run[0]), run[0], tmp_path / "new", 7, None)
    assert not (tmp_path / "new").exists()


def test_export_keeps_what_adapters_learned_over_a_bfloat16_base(folder, tmp_path, monkeypatch):
    """Learned changes far below half a unit in the last place of the base's matrices."""
    c = settings(folder, param_dtype="bfloat16")
    c.lora.rank, c.lora.alpha = 2, 2.0
    config, mesh = build(c), make_mesh(MeshConfig(), jax.devices()[:1])
    model = resolve_model(config, char_tokenizer())
    tx = make_optimizer(config.optim, 1)
    state = start_stage(config, mesh, start_state(0, model, mesh), tx, 0)
    rng, base = np.random.default_rng(0), state.frozen
    learned = jax.tree.map(
        lambda x: np.asarray(x + 3e-4 * rng.normal(size=x.shape), np.float32), state.params
    )
    with contextlib.closing(Checkpoints(tmp_path / "run", config.checkpoint, print)) as saves:
        saves.save_reference(0, base)
        state = dataclasses.replace(state, params=learned, frozen=None)
        saves.save(1, state, dataclasses.asdict(Place(step=1)), reference=0)
    _, policy = restore_params(config, model, mesh, tmp_path / "run")
    monkeypatch.setattr("rlvr_jax.export.card", lambda *_: "")
    tokens, found = rng.integers(0, 128, (2, 12)), {}
    for dtype in ("float32", "bfloat16"):
        to = tmp_path / dtype
        export(config, tmp_path / "run", to, "newest", dtype)
        found[dtype] = logits(MODEL, load_params(str(to), MODEL, mesh), tokens)
    expected = logits(model, policy, tokens)
    effect = np.abs(expected - logits(MODEL, base, tokens)).max()
    lost = {dtype: np.abs(x - expected).max() for dtype, x in found.items()}
    assert lost["float32"] < 1e-5 < 0.02 * effect, (lost, effect)
    assert lost["bfloat16"] > 0.1 * effect, (lost, effect)  # what docs/memory.md warns of
