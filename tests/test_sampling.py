"""The sampling distribution against brute force, and draws against the distribution."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import transformer_oracle as oracle
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr_jax.sampling import NEG, SamplingConfig, draw, logp_and_entropy, sampling_logits

LEVELS = [-4.0, -1.5, 0.0, 0.25, 0.5, 1.0, 3.0, 6.0]  # few values, so that ties are common
BELOW_ONE = np.nextafter(np.float32(1), np.float32(0))


def rows(seed, count, vocab):
    return np.random.default_rng(seed).choice(LEVELS, (count, vocab)).astype(np.float32)


CONFIGS = {
    "plain": SamplingConfig(),
    "warm": SamplingConfig(temperature=1.3),
    "cool": SamplingConfig(temperature=0.6),
    "top_k": SamplingConfig(top_k=3),
    "top_k 1": SamplingConfig(top_k=1),
    "top_k over V": SamplingConfig(top_k=99),
    "top_p": SamplingConfig(top_p=0.7),
    "top_p tiny": SamplingConfig(top_p=1e-6),
    "all": SamplingConfig(temperature=0.8, top_k=4, top_p=0.8),
    "greedy": SamplingConfig(temperature=0.0),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_the_set_of_possible_tokens_is_exact(name):
    config, z = CONFIGS[name], rows(0, 200, 7)
    got = np.asarray(jax.jit(sampling_logits, static_argnums=1)(z, config))
    expected = np.array([oracle.possible(row, config) for row in z])
    np.testing.assert_array_equal(got > NEG / 2, expected)
    scale = config.temperature or 1.0
    np.testing.assert_allclose(got[expected], (z / scale)[expected], rtol=1e-6)


@pytest.mark.parametrize("name", CONFIGS)
def test_logp_and_entropy_are_those_of_the_distribution(name):
    config, z = CONFIGS[name], rows(1, 60, 7)
    out = jax.jit(sampling_logits, static_argnums=1)(z, config)
    logp = np.array([oracle.log_distribution(row, config) for row in z])
    token = np.array([np.flatnonzero(np.isfinite(row))[-1] for row in logp])
    got, entropy = jax.jit(logp_and_entropy)(out, token)
    np.testing.assert_allclose(got, logp[np.arange(len(z)), token], rtol=1e-5, atol=1e-6)
    p = np.exp(logp)
    expected = -np.sum(np.where(p > 0, p * np.where(p > 0, logp, 0.0), 0.0), axis=-1)
    np.testing.assert_allclose(entropy, expected, rtol=1e-5, atol=1e-6)


def test_ties_at_the_border_are_all_kept():
    z = np.array([[2.0, 1.0, 1.0, 0.0]], np.float32)
    kept = sampling_logits(z, SamplingConfig(top_k=2)) > NEG / 2
    assert kept.tolist() == [[True, True, True, False]]
    kept = sampling_logits(np.zeros((1, 4), np.float32), SamplingConfig(temperature=0.0)) > NEG / 2
    assert kept.all()


def test_top_p_takes_over_from_top_k_what_is_left():
    """After top-k the remaining mass is renormalised: 0.5 of {0.4, 0.3} is the first token."""
    z = np.log(np.array([[0.4, 0.3, 0.2, 0.1]], np.float32))
    both = sampling_logits(z, SamplingConfig(top_k=2, top_p=0.5)) > NEG / 2
    alone = sampling_logits(z, SamplingConfig(top_p=0.5)) > NEG / 2
    assert both.sum() == 1 and alone.sum() == 2


def test_the_kept_token_stays_possible():
    z = np.array([[3.0, 2.0, 1.0, 0.0]], np.float32)
    for config in (SamplingConfig(top_k=1), SamplingConfig(top_p=0.1), SamplingConfig(0.0)):
        out = sampling_logits(z, config, keep=np.array([2]))
        assert (np.asarray(out) > NEG / 2).tolist() == [[True, True, True, False]]


def test_bfloat16_logits_become_float32_before_the_temperature():
    z = jnp.asarray([[1.0, 2.0]], jnp.bfloat16)
    out = sampling_logits(z, SamplingConfig(temperature=0.3))
    assert out.dtype == jnp.float32
    np.testing.assert_allclose(out, np.float32([[1, 2]]) / np.float32(0.3), rtol=1e-6)


def test_entropy_has_a_gradient_only_where_asked():
    z = jnp.asarray(rows(3, 1, 6)[0])

    def entropy(z, on):
        return logp_and_entropy(z, jnp.int32(0), on)[1]

    assert not np.any(jax.grad(entropy)(z, False))
    p = np.exp(np.float64(z) - np.max(z))
    p /= p.sum()
    expected = -p * (np.log(p) - (p * np.log(p)).sum())  # -p (log p + H)
    np.testing.assert_allclose(jax.grad(entropy)(z, True), expected, atol=1e-6)


def test_entropy_gradient_is_finite_where_tokens_are_impossible():
    z = jnp.asarray([1.0, 0.5, 0.0, -1.0])

    def loss(z):
        out = sampling_logits(z, SamplingConfig(top_k=2))
        logp, entropy = logp_and_entropy(out, jnp.int32(0), True)
        return logp + entropy

    grad = np.asarray(jax.grad(loss)(z))
    assert np.isfinite(grad).all() and not grad[2:].any() and grad[:2].all()


def test_huge_logits_stay_finite():
    z = jnp.asarray([[3e4, -3e4, 0.0]])
    logp, entropy = logp_and_entropy(sampling_logits(z, SamplingConfig()), jnp.array([1]))
    assert np.isfinite(logp).all() and np.isfinite(entropy).all()
    np.testing.assert_allclose(logp, [-6e4])


# Draws.


@pytest.fixture(scope="module")
def drawer():
    return jax.jit(draw)


@pytest.mark.parametrize("vocab", [1, 2, 5, 16, 17, 100])
def test_draws_cover_the_distribution(vocab, drawer):
    """On an even grid of quantiles, each token comes up in proportion to its probability."""
    z = np.random.default_rng(vocab).normal(size=vocab).astype(np.float32) * 2
    count = 20_000
    uniform = ((np.arange(count) + 0.5) / count).astype(np.float32)
    token, logp = drawer(np.broadcast_to(z, (count, vocab)), uniform)
    p = np.exp(np.float64(z) - z.max())
    p /= p.sum()
    assert np.abs(np.bincount(token, minlength=vocab) - count * p).max() < 3
    np.testing.assert_allclose(logp, np.log(p)[np.asarray(token)], rtol=1e-4, atol=1e-5)
    assert (np.diff(np.asarray(token)) >= 0).all()  # it is the inverse of the distribution function


@settings(max_examples=60, deadline=None)
@given(
    possible=st.lists(st.integers(0, 99), min_size=1, max_size=6, unique=True),
    seed=st.integers(0, 2**31),
)
def test_an_impossible_token_is_never_drawn(possible, seed):
    rng = np.random.default_rng(seed)
    z = np.full((6, 100), NEG, np.float32)
    z[:, possible] = rng.choice([-60.0, -9.0, 0.0, 4.0], len(possible))
    uniform = np.array([0.0, 1e-38, 1e-7, 0.5, 1 - 1e-7, BELOW_ONE], np.float32)
    token, logp = _draw(z, uniform)
    assert set(np.asarray(token).tolist()) <= set(possible)
    assert (np.asarray(logp) > -200).all()


_draw = jax.jit(draw)


def test_quantile_zero_and_just_under_one_are_the_first_and_last_possible_token(drawer):
    z = np.full((2, 100), NEG, np.float32)
    z[:, [7, 30, 61]] = 0.0
    token, _ = drawer(z, np.array([0.0, BELOW_ONE], np.float32))
    assert token.tolist() == [7, 61]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"temperature": -0.1}, "temperature must be >= 0"),
        ({"temperature": float("nan")}, "temperature must be >= 0"),
        ({"top_k": -1}, "top_k must be >= 0"),
        ({"top_p": 0.0}, r"top_p must be in \(0, 1\]"),
        ({"top_p": 1.1}, r"top_p must be in \(0, 1\]"),
    ],
)
def test_impossible_settings_are_refused(fields, said):
    with pytest.raises(ValueError, match=said):
        dataclasses.replace(SamplingConfig(), **fields)
