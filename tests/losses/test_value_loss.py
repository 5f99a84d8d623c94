"""The critic's loss and what is reported of it."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from rlvr_jax.batch import ValueInputs
from rlvr_jax.losses import ValueLoss, finish_metrics, merge_metrics
from rlvr_jax.masking import token_weights

F32 = np.float32


def make_inputs(seed=0, rows=6, width=7):
    rng = np.random.default_rng(seed)
    mask_BT = rng.uniform(size=(rows, width)) < 0.7
    mask_BT[0] = False
    old_BT, noise_BT, return_BT = rng.normal(size=(3, rows, width)).astype(F32)
    return ValueInputs(
        value_BT=old_BT + F32(0.4) * noise_BT,
        old_value_BT=old_BT,
        return_BT=return_BT,
        mask_BT=mask_BT,
        weight_BT=token_weights(mask_BT, "token_mean"),
    )


def oracle(x, eps, value_BT):
    total = 0.0
    for at in zip(*np.nonzero(x.mask_BT), strict=True):
        v, old, target = (float(a[at]) for a in (value_BT, x.old_value_BT, x.return_BT))
        worst = (v - target) ** 2
        if eps is not None:
            near = min(max(v, old - eps), old + eps)
            worst = max(worst, (near - target) ** 2)
        total += float(x.weight_BT[at]) * 0.5 * worst
    return total


@functools.cache
def compiled(loss):
    def value(value_BT, x):
        return loss(dataclasses.replace(x, value_BT=value_BT))

    return jax.jit(jax.value_and_grad(value, has_aux=True))


def run(loss, x):
    (total, metrics), grad_BT = compiled(loss)(x.value_BT, x)
    return float(total), np.asarray(grad_BT), jax.tree.map(np.asarray, metrics)


@pytest.mark.parametrize("eps", [0.2, 0.5, None])
def test_value_and_gradient_against_a_loop(eps):
    x = make_inputs()
    total, grad_BT, _ = run(ValueLoss(eps=eps), x)
    np.testing.assert_allclose(total, oracle(x, eps, x.value_BT), rtol=1e-5)
    for at in zip(*np.nonzero(x.mask_BT), strict=True):
        ends = []
        for step in (1e-6, -1e-6):
            moved_BT = x.value_BT.astype(float)
            moved_BT[at] += step
            ends.append(oracle(x, eps, moved_BT))
        np.testing.assert_allclose(grad_BT[at], (ends[0] - ends[1]) / 2e-6, atol=1e-6)
    assert np.all(grad_BT[~x.mask_BT] == 0)


def test_masked_content_is_irrelevant():
    x = make_inputs(1)
    spoiled = dataclasses.replace(
        x,
        value_BT=np.where(x.mask_BT, x.value_BT, F32(np.nan)),
        return_BT=np.where(x.mask_BT, x.return_BT, F32(np.inf)),
    )
    for a, b in zip(run(ValueLoss(), x)[:2], run(ValueLoss(), spoiled)[:2], strict=True):
        np.testing.assert_array_equal(a, b)


def test_micro_batches_add_up():
    x = make_inputs(2)
    pieces = [jax.tree.map(lambda a, i=i: a[i : i + 2], x) for i in (0, 2, 4)]
    merged = functools.reduce(merge_metrics, (run(ValueLoss(), p)[2] for p in pieces))
    done = finish_metrics(merged)
    np.testing.assert_allclose(done["value/loss"], run(ValueLoss(), x)[0], rtol=1e-5)
    np.testing.assert_allclose(
        done["value/return_mean"], x.return_BT[x.mask_BT].mean(), rtol=1e-5, atol=1e-7
    )


def test_clip_must_be_positive():
    with pytest.raises(ValueError, match="positive"):
        ValueLoss(eps=0.0)
