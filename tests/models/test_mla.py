"""Latent attention, experts in groups and dense first layers: over devices, trained, adapted."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from tiny_models import DEEPSEEK, one_row, random_params

from rlvr_jax.generate import Address, DecodeConfig, make_sampler
from rlvr_jax.learner import OptimConfig, make_optimizer
from rlvr_jax.models import transformer as tf
from rlvr_jax.models.families import config_of, config_to_json
from rlvr_jax.models.hf import load_params, param_shapes, write_model
from rlvr_jax.models.lora import MORE_TARGETS, A, B, LoraConfig, init_adapters, join, merge
from rlvr_jax.models.moe import route
from rlvr_jax.models.safetensors_file import SINGLE
from rlvr_jax.sampling import SamplingConfig
from rlvr_jax.sharding import MeshConfig, leaf_spec, make_mesh, path_name, put, tree_shardings

TOKENS = np.random.default_rng(1).integers(0, DEEPSEEK.vocab, (8, 9))
ADAPTED = ("o", "gate", *MORE_TARGETS)
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
ONE = make_mesh(MeshConfig(1, 1, 1), jax.devices()[:1])


pytestmark = pytest.mark.usefixtures("quick_compilation")


def forward(config, params, mesh=None):
    tokens, positions, allowed = one_row(TOKENS)
    attend = tf.attend_full(config, allowed, positions, lambda k, v: None)
    hidden, _ = tf.forward(config, params, tokens, positions, attend, mesh)
    return tf.logits_of(config, tf.head_weight(params), hidden, mesh)


logits = jax.jit(forward, static_argnums=0)


@functools.partial(jax.jit, static_argnums=(0, 2))
def gradient(config, params, mesh=None):
    """(gradient of a number that depends on every logit, logits)."""

    def number(params):
        z = forward(config, params, mesh)
        return jnp.mean(jnp.sin(z)), z

    return jax.grad(number, has_aux=True)(params)


@pytest.fixture(scope="module")
def alone():
    return gradient(DEEPSEEK, random_params(DEEPSEEK))


def test_eight_devices_give_the_numbers_of_one(alone):
    mesh = make_mesh(MeshConfig(2, 2, 2))
    params = random_params(DEEPSEEK)
    grads, z = gradient(DEEPSEEK, put(params, tree_shardings(params, mesh)), mesh)
    np.testing.assert_allclose(z, alone[1], rtol=1e-4, atol=1e-4)
    for a, b in zip(*map(jax.tree.leaves, (grads, alone[0])), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


def test_a_device_computes_for_its_own_rows_alone():
    """Sorting tokens by expert over all devices made each of them compute everything."""
    params, mesh = random_params(DEEPSEEK), make_mesh(MeshConfig(8, 1, 1))

    def work(p, mesh):
        return gradient.lower(DEEPSEEK, p, mesh).compile().cost_analysis()["flops"]

    spread = put(params, tree_shardings(params, mesh))
    assert work(spread, mesh) < work(params, None) / 6


@pytest.mark.parametrize("rows", [8, 6])
def test_rows_that_do_not_divide_are_computed_together(rows):
    params, mesh = random_params(DEEPSEEK), make_mesh(MeshConfig(2, 2, 2))
    spread = put(params, tree_shardings(params, mesh))
    tokens, positions, allowed = one_row(TOKENS[:rows])

    @functools.partial(jax.jit, static_argnums=0)
    def hidden(mesh, params):
        attend = tf.attend_full(DEEPSEEK, allowed, positions, lambda k, v: None)
        return tf.forward(DEEPSEEK, params, tokens, positions, attend, mesh)[0]

    np.testing.assert_allclose(hidden(mesh, spread), hidden(None, params), rtol=1e-4, atol=1e-4)


def test_every_leaf_has_a_rule_and_latents_are_not_split():
    found = jax.tree_util.tree_leaves_with_path(param_shapes(DEEPSEEK))
    specs = {path_name(path): leaf_spec(path, leaf) for path, leaf in found}
    for stack in ("layers", "dense/layers"):
        assert specs[f"{stack}/kv_a"] == specs[f"{stack}/q_a"] == P(None, "fsdp", None)
        assert specs[f"{stack}/kv_b"] == specs[f"{stack}/q_b"] == P(None, "fsdp", "tensor")
    assert specs["layers/shared_down"] == specs["dense/layers/down"] == P(None, "tensor", "fsdp")
    assert not any(specs["layers/router_bias"])


def test_every_parameter_but_the_bias_of_the_choice_gets_a_gradient(alone):
    for path, grad in jax.tree_util.tree_leaves_with_path(alone[0]):
        assert bool(np.any(grad)) == (path[-1].key != "router_bias"), path


def test_training_leaves_the_bias_of_the_choice_as_it_is(alone):
    params, tx = random_params(DEEPSEEK), make_optimizer(OptimConfig(weight_decay=0.5), 10)
    moves, _ = jax.jit(lambda g, p: tx.update(g, tx.init(p), p))(alone[0], params)
    assert not np.any(moves["layers"]["router_bias"])
    assert np.any(moves["layers"]["router"]) and np.any(moves["dense"]["layers"]["kv_b"])


def test_the_bias_of_the_choice_decides_who_but_not_how_much():
    moe = dataclasses.replace(DEEPSEEK.moe, groups=1, top_groups=1, normalize=False, scale=1.0)
    x, router = np.random.default_rng(0).normal(size=(2, 8, 8)).astype(np.float32)
    score = 1 / (1 + np.exp(-x @ router))
    bias = np.where(np.arange(8) == 5, 9.0, 0.0).astype(np.float32)
    weight, chosen = route(jnp.asarray(x), jnp.asarray(router), bias, moe)
    assert (np.asarray(chosen) == 5).any(axis=-1).all()
    np.testing.assert_allclose(weight, np.take_along_axis(score, np.asarray(chosen), -1), rtol=1e-5)


def test_what_decides_the_choice_stays_float32_in_a_bfloat16_model():
    config = dataclasses.replace(DEEPSEEK, param_dtype="bfloat16", compute_dtype="bfloat16")
    shapes = param_shapes(config)
    assert shapes["layers"]["router_bias"].dtype == jnp.float32
    wide = dataclasses.replace(config, param_dtype="float32")
    ready = jax.eval_shape(functools.partial(tf.for_decoding, wide), param_shapes(wide))
    kept = {
        p[-1].key for p, x in jax.tree_util.tree_leaves_with_path(ready) if x.dtype == "float32"
    }
    assert {"router", "router_bias"} <= kept and "kv_b" not in kept
    assert np.isfinite(np.asarray(logits(config, random_params(config)))).all()


def test_adapters_reach_both_stacks_and_merge(alone):
    base, lora = random_params(DEEPSEEK), LoraConfig(rank=2, targets=ADAPTED)
    adapters = init_adapters(lora, base, jax.random.key(0))
    assert {"gate" + A, "kv_b" + B, "o" + A} <= set(adapters["dense"]["layers"])
    assert "gate" + A not in adapters["layers"] and "shared_up" + A in adapters["layers"]
    config = dataclasses.replace(DEEPSEEK, lora_scale=lora.scale)
    moved = jax.tree.map(lambda x: x + 0.02, adapters)
    found = logits(config, join(base, moved))
    np.testing.assert_allclose(
        found, logits(config, merge(join(base, moved), lora.scale)), rtol=1e-3, atol=1e-3
    )
    absorbed = logits(config.for_sampling, join(base, moved))
    np.testing.assert_allclose(found, absorbed, rtol=1e-3, atol=1e-3)
    assert np.abs(found - alone[1]).max() > 0.1
    mesh = make_mesh(MeshConfig(2, 2, 2))
    where = tree_shardings(join(base, adapters), mesh)["layers"]
    for name in ("o", *MORE_TARGETS):
        _, rows, columns = where[name].spec
        assert where[name + A].spec == P(None, rows, None)
        assert where[name + B].spec == P(None, None, columns)


@pytest.mark.parametrize("heads", [2, 64])
def test_the_sampler_keeps_two_latents_and_a_rotated_key_however_many_heads(heads):
    attn = dataclasses.replace(DEEPSEEK.attn, heads=heads, kv_heads=heads)
    config = dataclasses.replace(DEEPSEEK, attn=attn).for_sampling
    tokens, positions, allowed = one_row(TOKENS)

    def kept(params):
        attend = tf.attend_full(config, allowed, positions, lambda k, v: (k, v))
        return tf.forward(config, params, tokens, positions, attend)[1]

    entries = sum(x.size for x in jax.tree.leaves(jax.eval_shape(kept, param_shapes(config))))
    assert entries == DEEPSEEK.layers * TOKENS.size * (12 + 4 + 12)


def test_the_sampler_draws_the_same_on_eight_devices():
    mesh, params = make_mesh(MeshConfig(2, 2, 2)), random_params(DEEPSEEK)
    spread = put(params, tree_shardings(params, mesh))
    out = []
    for where, p in ((ONE, params), (mesh, spread)):
        run = make_sampler(DEEPSEEK, DecodeConfig(8, 4, 2), SamplingConfig(), (5,), where)
        out.append(run(p, [[1, 2, 3], [4], [7, 8], [9, 9, 1]], [0, 1, 2, 3], 2, Address(0, 0, 0)))
    np.testing.assert_array_equal(out[0].tokens_BT, out[1].tokens_BT)
    np.testing.assert_allclose(out[0].logp_BT, out[1].logp_BT, atol=1e-4)


def test_adapters_of_what_this_model_lacks_are_refused_in_one_line():
    with pytest.raises(ValueError, match=r"no single matrix q, k, v \(it has: o, gate") as error:
        init_adapters(LoraConfig(rank=1), random_params(DEEPSEEK), jax.random.key(0))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"num_key_value_heads": 1}, "num_key_value_heads is 1 .* for each of the 2 heads"),
        ({"kv_lora_rank": None}, 'lacks "kv_lora_rank"'),
        ({"q_lora_rank": 0}, '"q_lora_rank" in config.json must be a positive whole number'),
        ({"scoring_func": "softmax"}, "scoring_func='softmax' is not supported"),
        ({"topk_method": "greedy"}, "topk_method='greedy' is not supported"),
        ({"moe_layer_freq": 2}, "moe_layer_freq=2 is not supported"),
        ({"head_dim": 10}, "head_dim=10 is not supported .4 is"),
        ({"n_shared_experts": 0}, '"n_shared_experts" in config.json must be'),
        ({"first_k_dense_replace": 3}, "first_k_dense_replace 3 of 3 layers"),
        ({"quantization_config": {"quant_method": "fp8"}}, "quantized weights are not supported"),
        (
            {"rope_scaling": {"rope_typ": "yarn", "factor": 4.0}},
            "rope_typ, factor but no rope_type",
        ),
        ({"rope_scaling": YARN | {"mscale_all_dim": 1.0, "mscale": 0.0}}, "got 0.0 and 1.0"),
        (
            {"rope_scaling": YARN | {"mscale_all_dim": 1.0}},
            "absent, both of them; got None and 1.0",
        ),
        ({"rope_scaling": YARN | {"mscale": 0.7}}, "got 0.7 and None"),
        ({"rope_scaling": YARN | {"truncate": False}}, "keys that are not supported: .'truncate'"),
    ],
)
def test_a_config_that_says_something_else_is_refused_in_one_line(changed, said):
    keys = config_to_json(dataclasses.replace(DEEPSEEK, family="deepseek_v3"))
    assert config_of(keys) == dataclasses.replace(DEEPSEEK, family="deepseek_v3", unroll=True)
    with pytest.raises(ValueError, match=said) as error:
        config_of(keys | changed)
    assert "\n" not in str(error.value)


def test_a_bfloat16_export_keeps_every_bit_of_the_bias_of_the_choice(tmp_path):
    config, params = dataclasses.replace(DEEPSEEK, family="deepseek_v3"), random_params(DEEPSEEK)
    write_model(tmp_path, config, params, "bfloat16")
    loaded = load_params(str(tmp_path), dataclasses.replace(config, param_dtype="bfloat16"), ONE)
    bias = params["layers"]["router_bias"]
    np.testing.assert_array_equal(loaded["layers"]["router_bias"], bias)
    assert np.any(bias.astype(jnp.bfloat16) != bias)
    with safe_open(tmp_path / SINGLE, "numpy") as file:  # as others read it
        found = file.get_tensor("model.layers.2.mlp.gate.e_score_correction_bias")
    np.testing.assert_array_equal(found, bias[1])


def test_layers_for_multi_token_prediction_are_not_loaded(tmp_path):
    config, params = dataclasses.replace(DEEPSEEK, family="deepseek_v3"), random_params(DEEPSEEK)
    write_model(tmp_path, config, params, "float32")
    stored = load_file(tmp_path / SINGLE)
    assert stored["model.layers.0.mlp.gate_proj.weight"].shape == (24, 16)  # the dense one is first
    more = [
        f"model.layers.{i}.{name}" for i in (3, 4) for name in ("eh_proj.weight", "enorm.weight")
    ]
    save_file(stored | dict.fromkeys(more, np.ones((2, 2), np.float32)), tmp_path / SINGLE)
    loaded = load_params(str(tmp_path), config, ONE)
    for a, b in zip(*map(jax.tree.leaves, (loaded, params)), strict=True):
        np.testing.assert_array_equal(a, b)
    save_file(
        stored | {"model.layers.3.mlp.gate.weight": np.ones((2, 2), np.float32)}, tmp_path / SINGLE
    )
    with pytest.raises(ValueError, match="1 not expected"):  # a layer that config.json leaves out
        load_params(str(tmp_path), config, ONE)
