"""Log-probs, entropies and values of given tokens, and that no [B, T, V] array is made."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import transformer_oracle as oracle
from tiny_models import PLAIN, VOCAB, random_params

from rlvr_jax import scoring
from rlvr_jax.models.value_head import init_value_head, values_of
from rlvr_jax.packing import PackConfig, Sequences, pack
from rlvr_jax.sampling import SamplingConfig
from rlvr_jax.scoring import score, token_logprobs

ROWS, COLUMNS, WIDTH = 3, 10, 16
CAPPED = dataclasses.replace(PLAIN, logit_softcap=4.0)


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(ROWS, COLUMNS, WIDTH)).astype(np.float32)
    weight = rng.normal(size=(VOCAB, WIDTH)).astype(np.float32)
    target = rng.integers(0, VOCAB, (ROWS, COLUMNS)).astype(np.int32)
    return weight, hidden, target


def evaluate(arrays, sampling, model=PLAIN, entropy_grad=True):
    """(logp, entropy, gradient of a mix of both with respect to the head and the hidden states)."""
    weight, hidden, target = arrays

    @jax.jit
    def run(weight, hidden):
        def mix(weight, hidden):
            logp, entropy = token_logprobs(
                weight, hidden, target, model, sampling, entropy_grad=entropy_grad
            )
            return jnp.sum(logp * jnp.cos(logp)) + jnp.sum(entropy**2), (logp, entropy)

        return jax.grad(mix, (0, 1), has_aux=True)(weight, hidden)

    grads, (logp, entropy) = run(weight, hidden)
    return [np.asarray(a) for a in (logp, entropy, *grads)]


SAMPLINGS = {"plain": SamplingConfig(), "cut off": SamplingConfig(1.3, top_k=9, top_p=0.9)}


@pytest.fixture(scope="module", params=SAMPLINGS)
def whole(request, arrays):
    return SAMPLINGS[request.param], evaluate(arrays, SAMPLINGS[request.param], CAPPED)


@pytest.mark.parametrize("columns", [1, 4])
def test_slices_change_neither_values_nor_gradients(columns, whole, arrays, monkeypatch):
    """4 does not divide 10: the last slice is padded."""
    sampling, expected = whole
    monkeypatch.setattr(scoring, "LOGITS_AT_ONCE", columns * ROWS * VOCAB)
    for a, b in zip(evaluate(arrays, sampling, CAPPED), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_values_equal_float64(whole, arrays):
    sampling, (logp, entropy, *_) = whole
    weight, hidden, target = (np.asarray(a, np.float64) for a in arrays)
    for r, m in np.ndindex(ROWS, COLUMNS):
        z = CAPPED.logit_softcap * np.tanh(weight @ hidden[r, m] / CAPPED.logit_softcap)
        ids = int(target[r, m])
        exact = oracle.log_distribution(z, sampling)
        if not np.isfinite(exact[ids]):
            continue  # the scorer keeps what was sampled; its set is then another one
        inside = np.isfinite(exact)
        assert logp[r, m] == pytest.approx(exact[ids], abs=1e-4)
        expected = -np.sum(np.exp(exact[inside]) * exact[inside])
        assert entropy[r, m] == pytest.approx(expected, abs=1e-4)


def test_entropy_gradient_equals_finite_differences(arrays):
    """In float64 numpy, along a random direction of the hidden states; nothing where it is off."""
    weight, hidden, target = arrays
    direction = np.random.default_rng(5).normal(size=hidden.shape)

    def entropy(step):
        z = (hidden + step * direction) @ np.float64(weight).T
        z = z - z.max(-1, keepdims=True)
        logp = z - np.log(np.exp(z).sum(-1, keepdims=True))
        return -np.sum(np.exp(logp) * logp)

    expected = (entropy(1e-5) - entropy(-1e-5)) / 2e-5

    def total(hidden, on):
        return token_logprobs(
            weight, hidden, target, PLAIN, SamplingConfig(), entropy_grad=on
        )[1].sum()  # fmt: skip

    on, off = (jax.grad(total)(jnp.asarray(hidden), flag) for flag in (True, False))
    assert np.sum(np.asarray(on, np.float64) * direction) == pytest.approx(expected, rel=1e-3)
    assert not np.any(off)


def jaxprs(jaxpr):
    """A jaxpr and everything inside it."""
    yield jaxpr
    for equation in jaxpr.eqns:
        for value in jax.tree.leaves(
            list(equation.params.values()),
            is_leaf=lambda v: hasattr(v, "eqns") or hasattr(v, "jaxpr"),
        ):
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from jaxprs(inner)


def largest_with(vocab, jaxpr):
    """Entries of the largest intermediate one of whose dimensions is the vocabulary."""
    sizes = [
        math.prod(v.aval.shape)
        for inner in jaxprs(jaxpr)
        for equation in inner.eqns
        for v in equation.outvars
        if vocab in getattr(v.aval, "shape", ())
    ]
    return max(sizes)


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
def test_no_array_holds_all_logits(sampling, monkeypatch):
    """Neither forward nor backward, in every equation of the gradient's program."""
    vocab, rows, columns, at_once = 1009, 2, 64, 2 * 8 * 1009
    monkeypatch.setattr(scoring, "LOGITS_AT_ONCE", at_once)

    def loss(weight, hidden, target):
        logp, entropy = token_logprobs(weight, hidden, target, PLAIN, sampling, entropy_grad=True)
        return logp.sum() + entropy.sum()

    shapes = [
        jax.ShapeDtypeStruct((vocab, WIDTH), jnp.float32),
        jax.ShapeDtypeStruct((rows, columns, WIDTH), jnp.float32),
        jax.ShapeDtypeStruct((rows, columns), jnp.int32),
    ]
    program = jax.make_jaxpr(jax.value_and_grad(loss, (0, 1)))(*shapes).jaxpr
    assert largest_with(vocab, program) == max(at_once, vocab * WIDTH)
    monkeypatch.setattr(scoring, "LOGITS_AT_ONCE", rows * columns * vocab)
    program = jax.make_jaxpr(jax.value_and_grad(loss, (0, 1)))(*shapes).jaxpr
    assert largest_with(vocab, program) == rows * columns * vocab  # the measure sees it


def test_values_stand_beside_their_tokens():
    """Row b, column t: the head applied to the hidden state before completion token t."""
    params = dict(random_params(PLAIN))
    head = {"weight": jnp.linspace(-1.0, 1.0, PLAIN.width), "bias": jnp.float32(0.25)}
    s = Sequences([[1, 2, 3]], np.zeros(2, int), np.array([[4, 5, 0], [6, 7, 8]]), np.array([2, 3]))
    ((rows, index),) = pack(s, PackConfig(16, 16), 3)
    run = jax.jit(lambda p: score(PLAIN, SamplingConfig(), p, rows, (len(index), 3)))
    out = run(params | {"value_head": head})
    assert run(params).value_BT is None
    for b, ids in ((0, [4, 5]), (1, [6, 7, 8])):
        hidden = oracle.hidden_states(PLAIN, params, [1, 2, 3, *ids])[2:-1]
        expected = hidden @ np.float64(head["weight"]) + 0.25
        row = int(np.flatnonzero(index == b)[0])
        np.testing.assert_allclose(out.value_BT[row, : len(ids)], expected, rtol=1e-4, atol=1e-4)
        assert not np.any(out.value_BT[row, len(ids) :])


def test_a_fresh_value_head_says_nothing():
    head = init_value_head(PLAIN)
    assert not np.any(values_of(head, jnp.ones((2, 3, PLAIN.width), jnp.bfloat16)))
    assert values_of(head, jnp.ones((2, PLAIN.width), jnp.bfloat16)).dtype == jnp.float32
