"""The transformer against a float64 oracle, switch by switch, and its own symmetries."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import transformer_oracle as oracle
from tiny_models import DEEPSEEK, EVERYTHING, PLAIN, one_row, random_params, with_attn

from rlvr_jax.models import transformer as tf
from rlvr_jax.models.config import AttentionConfig, MlaConfig, ModelConfig, MoeConfig, RopeScaling

TOKENS = np.random.default_rng(1).integers(0, PLAIN.vocab, 9)
UNROLLED = dataclasses.replace(PLAIN, unroll=True)
LONGROPE = RopeScaling(
    "longrope",
    original_context=8,
    short_factor=(1.0, 1.5, 2.0, 3.0),
    long_factor=(2.0, 3.0, 4.0, 9.0),
    attention_factor=1.5,
)
YARN = RopeScaling("yarn", factor=8.0, original_context=16)
SIGMOID = MoeConfig(experts=6, top_k=2, width=12, scoring="sigmoid", groups=3, top_groups=2)


def plain(config, allowed, positions):
    return tf.attend_full(config, allowed, positions, lambda k, v: None)


def logits(config, params, tokens, shift=0):
    tokens, positions, allowed = one_row(tokens)
    attend = plain(config, allowed, positions + shift)
    hidden, _ = tf.forward(config, params, tokens, positions + shift, attend)
    return np.asarray(tf.logits_of(config, tf.head_weight(params), hidden))


SWITCHES = {
    "plain": UNROLLED,
    "activation": dataclasses.replace(UNROLLED, activation="gelu_tanh"),
    "norms post": dataclasses.replace(UNROLLED, norms="post"),
    "norms both": dataclasses.replace(UNROLLED, norms="both"),
    "norm_plus_one": dataclasses.replace(UNROLLED, norm_plus_one=True),
    "norm_eps": dataclasses.replace(UNROLLED, norm_eps=0.5),
    "embed_scale": dataclasses.replace(UNROLLED, embed_scale=True),
    "untied": dataclasses.replace(UNROLLED, tied_head=False),
    "logit_softcap": dataclasses.replace(UNROLLED, logit_softcap=3.0),
    "qkv_bias": with_attn(UNROLLED, qkv_bias=True),
    "out_bias": with_attn(UNROLLED, out_bias=True),
    "qk_norm": with_attn(UNROLLED, qk_norm=True),
    "softcap": with_attn(UNROLLED, softcap=0.5),
    "query_scale": with_attn(UNROLLED, query_scale=1.0),
    "rope_theta": with_attn(UNROLLED, rope_theta=50.0),
    "window": with_attn(UNROLLED, window=3),
    "local_pattern": with_attn(UNROLLED, window=3, local_pattern=(0, 1)),
    "rope_theta_local": with_attn(UNROLLED, window=3, rope_theta_local=20.0),
    "rotary_dim": with_attn(UNROLLED, rotary_dim=4),
    "rope_pattern": with_attn(UNROLLED, rope_pattern=(0, 1)),
    "rope linear": with_attn(UNROLLED, rope=RopeScaling("linear", factor=8.0)),
    "rope llama3": with_attn(
        UNROLLED, rope_theta=20.0, rope=RopeScaling("llama3", factor=16.0, original_context=16)
    ),
    "rope longrope": with_attn(UNROLLED, rope=LONGROPE),
    "rope longrope, long": with_attn(UNROLLED, rope=dataclasses.replace(LONGROPE, long=True)),
    "qk_norm_whole": with_attn(UNROLLED, qk_norm=True, qk_norm_whole=True),
    "moe": dataclasses.replace(UNROLLED, moe=MoeConfig(experts=5, top_k=2, width=12)),
    "moe normalized": dataclasses.replace(UNROLLED, moe=MoeConfig(4, 3, 12, normalize=True)),
    "rope yarn": with_attn(UNROLLED, rope_theta=100.0, rope=YARN),
    "mla": with_attn(UNROLLED, rotary_dim=4, mla=MlaConfig(kv_rank=6)),
    "mla, every switch": with_attn(
        UNROLLED,
        head_dim=10,
        rotary_dim=4,
        qkv_bias=True,
        rope_theta=100.0,
        rope=dataclasses.replace(YARN, mscale=0.5, mscale_all_dim=2.0, beta_fast=2.0),
        mla=MlaConfig(kv_rank=6, q_rank=5, value_dim=12, interleave=True),
    ),
    "mla, absorbed": with_attn(
        UNROLLED,
        head_dim=10,
        rotary_dim=4,
        mla=MlaConfig(kv_rank=6, value_dim=12, absorb=True),
    ),
    "moe sigmoid": dataclasses.replace(UNROLLED, moe=SIGMOID),
    "deepseek": dataclasses.replace(DEEPSEEK, unroll=True),
    "grouped queries": with_attn(UNROLLED, kv_heads=1),
    "everything": dataclasses.replace(EVERYTHING, unroll=True),
}


@pytest.fixture(scope="module")
def by_switch():
    return {n: logits(c, random_params(c), TOKENS) for n, c in SWITCHES.items()}


@pytest.mark.parametrize("name", SWITCHES)
def test_logits_equal_the_oracle(name, by_switch):
    config = SWITCHES[name]
    expected = oracle.logits(config, random_params(config), TOKENS)
    np.testing.assert_allclose(by_switch[name][0], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", [n for n in SWITCHES if n != "plain"])
def test_every_switch_has_an_effect(name, by_switch):
    """With the shared weights as they are (new leaves aside), the logits move."""
    config, shared = SWITCHES[name], random_params(UNROLLED)
    params = jax.tree.map(lambda x: x, random_params(config))
    old = shared["layers"]
    if all(old[k].shape == v.shape for k, v in params["layers"].items() if k in old):
        layers = {k: old.get(k, v) for k, v in params["layers"].items()}
        params = {k: shared.get(k, v) for k, v in params.items()} | {"layers": layers}
        moved = logits(config, params, TOKENS)
    else:
        moved = by_switch[name]
    assert np.abs(moved - by_switch["plain"]).max() > 1e-2


def test_local_layers_follow_the_pattern():
    first = with_attn(UNROLLED, window=3, local_pattern=(1, 0))
    assert [first.local(i) for i in range(4)] == [True, False, True, False]
    assert not any(UNROLLED.local(i) for i in range(4))


def value_and_grads(config, params):
    tokens, positions, allowed = one_row(TOKENS)

    @jax.jit
    def loss(params):
        attend = plain(config, allowed, positions)
        hidden, _ = tf.forward(config, params, tokens, positions, attend)
        return jnp.sum(jnp.sin(tf.logits_of(config, tf.head_weight(params), hidden)))

    value, grads = jax.jit(jax.value_and_grad(loss))(params)
    return float(value), jax.tree.map(np.asarray, grads)


@pytest.fixture(scope="module")
def scanned():
    return value_and_grads(EVERYTHING, random_params(EVERYTHING))


@pytest.mark.parametrize(
    "change", [{"unroll": True, "remat": "dots"}, {"remat": "full"}, {"remat": "dots"}]
)
def test_unrolling_and_recomputing_change_no_gradient(scanned, change):
    config = dataclasses.replace(EVERYTHING, **change)
    value, grads = value_and_grads(config, random_params(EVERYTHING))
    assert value == pytest.approx(scanned[0], abs=1e-4)  # a sum of sines, nearly cancelled
    largest = max(np.abs(g).max() for g in jax.tree.leaves(scanned[1]))
    for a, b in zip(jax.tree.leaves(grads), jax.tree.leaves(scanned[1]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5 * largest)


def test_recomputing_saves_memory():
    """Temporary memory of the gradient of 64 tokens, as the compiler plans it."""
    tokens, positions, allowed = one_row(np.zeros((4, 64), np.int32))

    def planned(remat):
        config = dataclasses.replace(PLAIN, layers=8, remat=remat)
        attend = plain(config, allowed, positions)

        def loss(params):
            hidden, _ = tf.forward(config, params, tokens, positions, attend)
            return jnp.sum(hidden**2)

        shapes = jax.eval_shape(lambda: tf.init(config, jax.random.key(0)))
        return jax.jit(jax.grad(loss)).lower(shapes).compile().memory_analysis().temp_size_in_bytes

    none, dots, full = map(planned, ("none", "dots", "full"))
    assert full < 0.8 * dots < 0.5 * none


def test_every_parameter_gets_a_gradient(scanned):
    for path, grad in jax.tree_util.tree_leaves_with_path(scanned[1]):
        assert np.abs(grad).max() > 0, path


def test_bfloat16_is_close_to_float32():
    config = dataclasses.replace(UNROLLED, param_dtype="bfloat16", compute_dtype="bfloat16")
    params = random_params(UNROLLED)
    small = jax.tree.map(lambda x: x.astype(jnp.bfloat16), params)
    assert jax.tree.map(
        lambda s: s.dtype, jax.eval_shape(lambda: tf.init(config, jax.random.key(0)))
    ) == (jax.tree.map(lambda s: s.dtype, small))
    z, exact = logits(config, small, TOKENS), logits(UNROLLED, params, TOKENS)
    assert z.dtype == np.float32
    assert 0 < np.abs(z - exact).mean() < 0.05 * np.abs(exact).mean()


def test_grouped_queries_equal_repeated_heads():
    grouped = with_attn(UNROLLED, kv_heads=1)
    params = random_params(grouped)
    layers = dict(params["layers"])
    for name in ("k", "v"):
        layers[name] = jnp.concatenate([layers[name]] * 2, axis=-1)
    repeated = params | {"layers": layers}
    np.testing.assert_allclose(
        logits(grouped, params, TOKENS), logits(UNROLLED, repeated, TOKENS), atol=1e-5
    )


def test_a_later_token_changes_nothing_before_it():
    params = random_params(UNROLLED)
    other = TOKENS.copy()
    other[5] = (other[5] + 1) % PLAIN.vocab
    a, b = logits(UNROLLED, params, TOKENS)[0], logits(UNROLLED, params, other)[0]
    np.testing.assert_array_equal(a[:5], b[:5])
    assert np.abs(a[5:] - b[5:]).max(axis=-1).min() > 1e-4


def test_only_relative_positions_matter():
    params = random_params(SWITCHES["window"])
    here, shifted = (logits(SWITCHES["window"], params, TOKENS, s) for s in (0, 1000))
    np.testing.assert_allclose(here, shifted, atol=1e-3)
    assert np.abs(here - logits(SWITCHES["window"], params, TOKENS[::-1])[:, ::-1]).max() > 0.1


def test_a_window_hides_what_is_further_away():
    config = dataclasses.replace(with_attn(UNROLLED, window=3), layers=1)
    params = random_params(config)
    other = TOKENS.copy()
    other[0] = (other[0] + 1) % PLAIN.vocab
    a, b = logits(config, params, TOKENS)[0], logits(config, params, other)[0]
    np.testing.assert_array_equal(a[3:], b[3:])
    assert (np.abs(a[:3] - b[:3]).max(axis=-1) > 1e-5).all()


def test_a_query_that_may_look_at_nothing_is_not_nan():
    tokens, positions, allowed = one_row(TOKENS)
    allowed = allowed.at[:, 4].set(False)
    attend = plain(UNROLLED, allowed, positions)
    hidden, _ = tf.forward(UNROLLED, random_params(UNROLLED), tokens, positions, attend)
    assert np.isfinite(np.asarray(hidden)).all()


def test_init_has_the_asked_spread_and_neutral_norms():
    config = dataclasses.replace(
        with_attn(PLAIN, qkv_bias=True, qk_norm=True), width=64, mlp_width=256, norm_plus_one=True
    )
    params = jax.jit(lambda: tf.init(config, jax.random.key(0)))()
    assert float(params["embed"].std()) == pytest.approx(config.init_std, rel=0.1)
    up, down = (float(params["layers"][n].std()) for n in ("up", "down"))
    assert up == pytest.approx(config.init_std, rel=0.05)
    assert down == pytest.approx(config.init_std / (2 * config.layers) ** 0.5, rel=0.05)
    zero = ("attn_norm", "mlp_norm", "q_norm", "k_norm", "q_bias", "k_bias", "v_bias")
    assert all(not np.any(params["layers"][n]) for n in zero)
    assert not np.array_equal(params["layers"]["q"][0], params["layers"]["q"][1])


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: AttentionConfig(heads=4, kv_heads=3), "multiple of attn.kv_heads"),
        (lambda: AttentionConfig(head_dim=7), "must be even"),
        (lambda: AttentionConfig(head_dim=8, rotary_dim=3), "attn.rotary_dim is even"),
        (lambda: AttentionConfig(head_dim=8, rotary_dim=10), "at most attn.head_dim, 8; got 10"),
        (lambda: AttentionConfig(qk_norm_whole=True), "has no effect: attn.qk_norm is off"),
        (lambda: AttentionConfig(head_dim=6, rope=LONGROPE), "need 3 numbers each, got 4 and 4"),
        (lambda: RopeScaling("ntk"), "none, linear, llama3, longrope or yarn"),
        (lambda: RopeScaling("llama3"), "needs attn.rope.original_context"),
        (lambda: RopeScaling("linear", factor=0.0), "must be positive"),
        (lambda: RopeScaling("yarn"), "needs attn.rope.original_context"),
        (lambda: RopeScaling(beta_slow=33.0), "beta_slow is positive and at most"),
        (lambda: MoeConfig(experts=2, top_k=3, width=4), "moe.top_k is 1 to moe.experts"),
        (lambda: MoeConfig(shared=1), "moe.shared has no effect: moe.experts is 0"),
        (lambda: MoeConfig(4, 1, 8, scoring="tanh"), 'softmax or sigmoid; got "tanh"'),
        (lambda: MoeConfig(4, 1, 8, scale=0.0), "moe.scale is positive"),
        (lambda: MoeConfig(4, 1, 8, groups=2), "moe.groups and moe.top_groups need moe.scoring"),
        (lambda: dataclasses.replace(SIGMOID, groups=4), "got 6 experts, 4 groups, 2 top groups"),
        (lambda: dataclasses.replace(SIGMOID, groups=6), "groups of two or more"),
        (lambda: dataclasses.replace(SIGMOID, top_groups=4), "3 groups, 4 top groups"),
        (lambda: dataclasses.replace(SIGMOID, top_k=5), "top_k 5 is more than .* groups, 4"),
        (lambda: ModelConfig(moe=MoeConfig(4, 1, 8, dense_layers=2)), "less than model.layers, 2"),
        (lambda: MlaConfig(q_rank=4), "attn.mla.q_rank has no effect: attn.mla.kv_rank is 0"),
        (lambda: MlaConfig(kv_rank=4, value_dim=-2), "value_dim are not negative"),
        (lambda: AttentionConfig(kv_heads=2, mla=MlaConfig(4)), "attn.kv_heads equal attn.heads"),
        (lambda: AttentionConfig(qk_norm=True, mla=MlaConfig(4)), "attn.qk_norm must be off"),
        (lambda: AttentionConfig(rope_theta_local=5.0), "need attn.window > 0"),
        (lambda: AttentionConfig(local_pattern=(1, 0)), "need attn.window > 0"),
        (lambda: ModelConfig(activation="relu"), "silu, gelu_tanh"),
        (lambda: ModelConfig(norms="none"), "pre, post, both"),
        (lambda: ModelConfig(param_dtype="float16"), "float32, bfloat16"),
        (lambda: ModelConfig(remat="some"), "none, full, dots"),
    ],
)
def test_impossible_models_are_refused(build, said):
    with pytest.raises(ValueError, match=said):
        build()
