"""float32 masters under bfloat16 compute: where the cast happens, and what it must not lose."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from tiny_models import EVERYTHING, PLAIN, one_row, random_params

from rlvr_jax import generate
from rlvr_jax.generate import Address, DecodeConfig, make_sampler
from rlvr_jax.learner import OptimConfig, init_state, make_optimizer, make_step
from rlvr_jax.models import transformer as tf
from rlvr_jax.models.lora import LoraConfig, init_adapters, join
from rlvr_jax.sampling import SamplingConfig
from rlvr_jax.sharding import MeshConfig, make_mesh

MIXED = dataclasses.replace(PLAIN, layers=1, compute_dtype="bfloat16")
ONE = make_mesh(MeshConfig(1, 1, 1), jax.devices()[:1])


def casts(jaxpr):
    """Sizes of everything that a program turns into bfloat16 inside a loop, at any depth."""

    def walk(jaxpr, inside):
        for eqn in jaxpr.eqns:
            if inside and eqn.params.get("new_dtype") == jnp.bfloat16:  # convert_element_type
                yield eqn.invars[0].aval.size
            for value in eqn.params.values():
                for part in value if isinstance(value, tuple | list) else (value,):
                    inner = getattr(part, "jaxpr", part)
                    if hasattr(inner, "eqns"):
                        yield from walk(inner, inside or eqn.primitive.name == "while")

    return list(walk(jaxpr, False))


@pytest.mark.parametrize("unroll", [True, False])
def test_a_decoding_step_casts_no_weights(unroll):
    """The loop over tokens holds no cast of anything as large as a matrix; with the masters
    themselves it would."""
    config = dataclasses.replace(MIXED, unroll=unroll)
    static = generate._Static(config, SamplingConfig(), (5,), None, None)
    params = jax.eval_shape(lambda: tf.init(config, jax.random.key(0)))
    ready = jax.eval_shape(functools.partial(tf.for_decoding, config), params)
    row = jax.ShapeDtypeStruct((1,), jnp.int32)
    batch = (jax.ShapeDtypeStruct((1, 8), jnp.int32), row, row, jnp.zeros((1, 1), jnp.int32))
    place = jax.ShapeDtypeStruct((3,), jnp.uint32)
    prefill = functools.partial(generate._prefill, static, 4)
    advance = functools.partial(generate._advance, static, 4)

    def largest(params):
        state, _ = jax.eval_shape(prefill, ready, batch, place)
        return max(casts(jax.make_jaxpr(advance)(params, state, 4).jaxpr))

    smallest_matrix = 16 * 16
    assert largest(ready) < smallest_matrix
    if not unroll:  # unrolled layers must come unstacked
        assert largest(params) >= smallest_matrix


def test_the_cast_keeps_norms_and_the_masters():
    params = random_params(EVERYTHING)
    config = dataclasses.replace(EVERYTHING, compute_dtype="bfloat16")
    cast = tf.for_decoding(config, params)
    for path, leaf in jax.tree_util.tree_leaves_with_path(cast):
        wanted = jnp.float32 if path[-1].key.endswith("norm") else jnp.bfloat16
        assert leaf.dtype == wanted, path
    assert {x.dtype for x in jax.tree.leaves(params)} == {jnp.dtype("float32")}


def test_nothing_is_copied_where_nothing_is_cast():
    params = random_params(PLAIN)
    same = tf.for_decoding(PLAIN, params)
    assert all(a is b for a, b in zip(*map(jax.tree.leaves, (same, params)), strict=True))
    config = dataclasses.replace(PLAIN, compute_dtype="bfloat16")
    base = jax.tree.map(lambda x: x.astype(jnp.bfloat16), params)
    adapters = init_adapters(LoraConfig(rank=1), base, jax.random.key(0))
    ready = tf.for_decoding(config, join(base, adapters))
    assert all(ready["layers"][name] is base["layers"][name] for name in base["layers"])
    assert {x.dtype for x in jax.tree.leaves(ready)} == {jnp.dtype("bfloat16")}


def test_the_sampler_takes_masters_and_copies_alike():
    """The same bits from float32 parameters and from their bfloat16 copy."""
    config = dataclasses.replace(MIXED, unroll=True)
    sampler = make_sampler(config, DecodeConfig(8, 4, 2), SamplingConfig(), (5,))
    params = random_params(config)
    copy = tf.for_decoding(dataclasses.replace(config, unroll=False), params)
    runs = [sampler(p, [[1, 2, 3]], [0], 4, Address(0, 0, 0)) for p in (params, copy)]
    np.testing.assert_array_equal(runs[0].tokens_BT, runs[1].tokens_BT)
    np.testing.assert_array_equal(runs[0].logp_BT, runs[1].logp_BT)


@pytest.mark.parametrize("unroll", [True, False])
def test_bfloat16_compute_runs_on_any_backend(unroll):
    """Several prompts and rows at once, sampled and differentiated, near the float32 numbers."""
    wide = dataclasses.replace(PLAIN, unroll=unroll)
    config, params = dataclasses.replace(wide, compute_dtype="bfloat16"), random_params(wide)
    sampler = make_sampler(config, DecodeConfig(8, 4, 4), SamplingConfig(), (5,))
    out = sampler(params, [[1, 2, 3], [4, 2], [3, 3], [1]], [0, 1, 2, 3], 2, Address(0, 0, 0))
    assert np.isfinite(out.logp_BT).all()
    tokens, positions, allowed = one_row(np.arange(24).reshape(3, 8) % 13)

    @functools.partial(jax.jit, static_argnums=0)
    def gradient(config):
        def mean(params):
            attend = tf.attend_full(config, allowed, positions, lambda k, v: None)
            hidden, _ = tf.forward(config, params, tokens, positions, attend)
            z = tf.logits_of(config, tf.head_weight(params), hidden)
            return jax.nn.log_softmax(z)[..., 0].mean()

        return jax.grad(mean)(params)["layers"]

    for a, b in zip(*(jax.tree.leaves(gradient(c)) for c in (config, wide)), strict=True):
        assert float(jnp.linalg.norm(a - b)) < 0.1 * float(jnp.linalg.norm(b)) + 1e-3


def moved(dtype):
    """The parameter, 1 at first, after 64 steps of 2^-10 each downhill (a quarter of the distance
    from 1 to the bfloat16 below it), and the types of Adam's moments."""
    state = init_state(lambda: {"embed": jnp.ones((2, 2), dtype)}, optax.sgd(2.0**-10), ONE)
    adam = make_optimizer(OptimConfig(), 1).init(state.params)

    def loss(params, rows, x, given):
        return jnp.sum(params["embed"].astype(jnp.bfloat16).astype(jnp.float32)), {}

    update = make_step(loss, optax.sgd(2.0**-10), state, ONE, ("norm", "nonfinite"))
    for _ in range(64):
        state, _ = update(state, [(0, 0)])
    moments = {x.dtype for x in jax.tree.leaves(adam) if x.ndim}
    return float(state.params["embed"][0, 0]), moments


def test_an_update_below_a_bfloat16_ulp_adds_up_in_float32_masters():
    assert moved("float32") == (1 - 64 * 2.0**-10, {jnp.dtype("float32")})
    assert moved("bfloat16") == (1.0, {jnp.dtype("bfloat16")})  # why it is refused for training
