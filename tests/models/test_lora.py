"""Adapters: the base at the start, plain weights when merged, and the direction of the first
step."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P
from tiny_models import EVERYTHING, PLAIN, one_row, random_params

from rlvr_jax.generate import Address, DecodeConfig, make_sampler
from rlvr_jax.learner import make_scorer
from rlvr_jax.models import transformer as tf
from rlvr_jax.models.lora import TARGETS, A, B, LoraConfig, init_adapters, join, merge
from rlvr_jax.packing import PackConfig, Sequences
from rlvr_jax.sampling import SamplingConfig
from rlvr_jax.sharding import MeshConfig, make_mesh, put, tree_shardings

LORA = LoraConfig(rank=3, alpha=6.0)
TOKENS = np.random.default_rng(1).integers(0, PLAIN.vocab, 9)
ONE_LAYER = dataclasses.replace(PLAIN, layers=1)
ONE = make_mesh(MeshConfig(1, 1, 1), jax.devices()[:1])


def adapted(config, lora=LORA, zero=False):
    """(config with the weight of adapters, parameters with adapters that say something)."""
    base = random_params(config)
    adapters = init_adapters(lora, base, jax.random.key(3))
    if not zero:
        rng = np.random.default_rng(5)
        adapters = jax.tree.map(
            lambda x: jnp.asarray(0.3 * rng.normal(size=x.shape), x.dtype), adapters
        )
    return dataclasses.replace(config, lora_scale=lora.scale), join(base, adapters)


@functools.partial(jax.jit, static_argnums=0)
def logits(config, params):
    tokens, positions, allowed = one_row(TOKENS)
    attend = tf.attend_full(config, allowed, positions, lambda k, v: None)
    hidden, _ = tf.forward(config, params, tokens, positions, attend)
    return tf.logits_of(config, tf.head_weight(params), hidden)


@pytest.mark.parametrize(
    "config", [dataclasses.replace(PLAIN, unroll=True), EVERYTHING], ids=["unrolled", "scanned"]
)
def test_merged_weights_give_the_same_logits(config):
    config, params = adapted(config)
    plain = merge(params, LORA.scale)
    assert jax.tree.structure(plain) == jax.tree.structure(random_params(config))
    found, expected = logits(config, params), logits(config, plain)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-5)
    assert np.abs(found - logits(config, random_params(config))).max() > 0.1


def test_zero_b_is_the_base_to_the_bit():
    config, params = adapted(ONE_LAYER, zero=True)
    assert not np.array_equal(params["layers"]["q" + A], 0 * params["layers"]["q" + A])
    np.testing.assert_array_equal(
        logits(config, params), logits(ONE_LAYER, random_params(ONE_LAYER))
    )


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_has_an_effect_of_its_own(target):
    config, params = adapted(ONE_LAYER, LoraConfig(rank=2, targets=(target,)))
    names = set(params["layers"]) - set(random_params(ONE_LAYER)["layers"])
    assert names == {target + A, target + B}
    moved = logits(config, params) - logits(ONE_LAYER, random_params(ONE_LAYER))
    assert np.abs(moved).max() > 1e-2


def test_sampler_and_scorer_see_the_adapters():
    """Log-probs of a sampled completion: the scorer's, and those of the merged weights."""
    config, params = adapted(PLAIN)
    sampling, prompts = SamplingConfig(), [[1, 2, 3], [4, 5, 6, 7]]
    sampler = make_sampler(config, DecodeConfig(8, 6, 3), sampling, (5,), ONE)
    s = sampler(params, prompts, [0, 1], 2, Address(0, 0, 0))
    scorer = make_scorer(config, sampling, PackConfig(16, 64), ONE)
    sequences = Sequences(prompts, np.repeat(np.arange(2), 2), s.tokens_BT, s.length_B)
    width = s.tokens_BT.shape[1]
    mask = np.arange(width) < s.length_B[:, None]
    for p in (params, merge(params, LORA.scale)):
        found = np.where(mask, scorer(p, sequences, width), 0)
        np.testing.assert_allclose(found, s.logp_BT, atol=2e-4)


@functools.partial(jax.jit, static_argnums=0)
@functools.partial(jax.grad, argnums=1)
def gradient(config, part, frozen):
    return jnp.sum(jnp.sin(logits(config, join(frozen, part))))


def first_step(lora, adapters, base):
    """{target: (what one step of gradient descent on the adapters adds to W, dL/dW)}."""
    config = dataclasses.replace(ONE_LAYER, lora_scale=lora.scale)
    full, grads = gradient(config, base, None)["layers"], gradient(config, adapters, base)
    after = jax.tree.map(lambda x, g: x - 1e-3 * g, adapters, grads)
    merged = merge(join(base, after), lora.scale)["layers"]
    return {n: (np.asarray(merged[n] - base["layers"][n]), full[n]) for n in lora.targets}


def test_the_first_step_is_the_full_one_seen_through_a():
    """With B = 0 the gradient of A is 0 and that of B is scale A^T G, G = dL/dW; so one step of
    gradient descent adds -lr scale^2 A A^T G to W, for any rank and any A."""
    lora, base = LoraConfig(rank=5, alpha=10.0), random_params(ONE_LAYER)
    adapters = init_adapters(lora, base, jax.random.key(0))
    for name, (change, g) in first_step(lora, adapters, base).items():
        a = np.asarray(adapters["layers"][name + A], np.float64)
        expected = -1e-3 * lora.scale**2 * a @ a.swapaxes(1, 2) @ np.asarray(g, np.float64)
        np.testing.assert_allclose(change, expected, rtol=2e-2, atol=2e-6, err_msg=name)


def test_at_full_rank_an_orthogonal_a_gives_the_direction_of_full_training():
    """r = in and A A^T = I: the first step is -lr scale^2 G, full gradient descent's up to its
    length.  For the normal A that adapters begin with it is a step downhill in the whole space."""
    targets = ("q", "k", "v", "gate", "up")  # all that read the width
    lora, base = LoraConfig(rank=PLAIN.width, alpha=32.0, targets=targets), random_params(ONE_LAYER)
    adapters = init_adapters(lora, base, jax.random.key(0))
    turned = {n: jnp.linalg.qr(x)[0] if n.endswith(A) else x for n, x in adapters["layers"].items()}
    for chosen, least in ((turned, 0.9999), (adapters["layers"], 0.5)):
        for name, (change, g) in first_step(lora, {"layers": chosen}, base).items():
            cosine = -np.sum(change * g) / np.linalg.norm(change) / np.linalg.norm(g)
            assert cosine > least, (name, cosine)


def test_adapters_are_sharded_beside_their_matrices():
    mesh = make_mesh(MeshConfig(2, 2, 2))
    config, params = adapted(EVERYTHING)
    where = tree_shardings(params, mesh)
    for name in TARGETS:
        _, rows, columns = where["layers"][name].spec
        assert where["layers"][name + A].spec == P(None, rows, None)
        assert where["layers"][name + B].spec == P(None, None, columns)
    spread = put(params, where)
    merged = merge(spread, LORA.scale)
    assert merged["layers"]["q"].sharding == where["layers"]["q"]
    np.testing.assert_allclose(
        merged["layers"]["q"], merge(params, LORA.scale)["layers"]["q"], rtol=1e-6
    )
    np.testing.assert_allclose(logits(config, spread), logits(config, params), atol=2e-4)


def test_adapters_are_float32_over_a_bfloat16_base():
    base = jax.tree.map(lambda x: x.astype(jnp.bfloat16), random_params(PLAIN))
    adapters = init_adapters(LORA, base, jax.random.key(0))
    assert {x.dtype for x in jax.tree.leaves(adapters)} == {jnp.dtype("float32")}
    assert merge(join(base, adapters), LORA.scale)["layers"]["q"].dtype == jnp.bfloat16
    assert merge(join(base, adapters), LORA.scale, "float32")["layers"]["q"].dtype == jnp.float32


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"rank": -1}, "lora.rank must not be negative"),
        ({"alpha": 0.0}, "lora.alpha must be positive"),
        ({"targets": ("q", "query")}, "some of q, k, v, o, gate, up, down"),
        ({"targets": ()}, "some of"),
        ({"targets": ("q", "q")}, "each once"),
    ],
)
def test_impossible_adapters_are_refused(fields, said):
    with pytest.raises(ValueError, match=said):
        LoraConfig(**fields)


def test_a_model_without_the_matrix_is_named():
    base = {"layers": {"q": jnp.zeros((2, 4, 4))}}
    with pytest.raises(ValueError, match="no single matrix up .it has: q."):
        init_adapters(LoraConfig(rank=1, targets=("q", "up")), base, jax.random.key(0))
