"""What every loss promises.  Runs over the registry: a new file is tested before it has a test."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from rlvr_jax.batch import LossInputs
from rlvr_jax.losses import LOSSES, Objective, finish_metrics, merge_metrics
from rlvr_jax.masking import AGGREGATIONS, token_weights

ROWS, WIDTH = 6, 9
ENTRIES = list(LOSSES)
F32 = np.float32


def make_inputs(seed=0, *, off_policy=0.3, mode="seq_mean_token_mean") -> LossInputs:
    rng = np.random.default_rng(seed)
    length_B = rng.integers(1, WIDTH + 1, ROWS)
    length_B[1] = 0  # a fully masked row
    mask_BT = np.arange(WIDTH) < length_B[:, None]
    old_BT = -rng.exponential(1.0, (ROWS, WIDTH)).astype(F32)
    logp_BT = old_BT + off_policy * rng.normal(size=(ROWS, WIDTH)).astype(F32)
    adv_BT = np.repeat(rng.normal(size=(ROWS, 1)).astype(F32), WIDTH, axis=1)
    weight_BT = token_weights(
        mask_BT, mode, group_B=np.arange(ROWS) // 2, num_groups=ROWS // 2, length_limit=12
    )
    return LossInputs(
        logp_BT=np.asarray(logp_BT),
        old_logp_BT=np.asarray(old_BT),
        adv_BT=np.asarray(adv_BT),
        mask_BT=np.asarray(mask_BT),
        weight_BT=np.asarray(weight_BT),
        entropy_BT=np.asarray(rng.uniform(0.1, 2.0, (ROWS, WIDTH)).astype(F32)),
        ref_logp_BT=np.asarray(old_BT + F32(0.1)),
        sampler_logp_BT=np.asarray(old_BT + F32(0.01)),
        picked_BT=np.asarray(mask_BT & (rng.uniform(size=mask_BT.shape) < 0.3)),
    )


@functools.cache
def compiled(loss):
    def value(logp_BT, x):
        return loss(dataclasses.replace(x, logp_BT=logp_BT))

    return jax.jit(jax.value_and_grad(value, has_aux=True))


def gradient(loss, x):
    (value, _), grad_BT = compiled(loss)(x.logp_BT, x)
    return np.asarray(value), np.asarray(grad_BT)


def metrics(loss, x):
    return jax.tree.map(np.asarray, compiled(loss)(x.logp_BT, x)[0][1])


def rows(x, index):
    return jax.tree.map(lambda a: a[index], x)


@pytest.fixture(params=ENTRIES)
def loss(request):
    return LOSSES[request.param]()


def test_masked_tokens_get_no_gradient(loss):
    x = make_inputs()
    grad_BT = gradient(loss, x)[1]
    assert np.all(np.where(x.mask_BT, 0.0, grad_BT) == 0)
    assert np.any(grad_BT != 0)


@pytest.mark.parametrize("garbage", [np.nan, np.inf, -np.inf, 1e30])
def test_content_under_the_mask_is_irrelevant(loss, garbage):
    x = make_inputs()

    def spoil(a):
        return a if a.dtype == np.bool_ else np.where(x.mask_BT, a, F32(garbage))

    spoiled = jax.tree.map(spoil, x)
    for a, b in zip(gradient(loss, x), gradient(loss, spoiled), strict=True):
        np.testing.assert_array_equal(a, b)
    jax.tree.map(np.testing.assert_array_equal, metrics(loss, x), metrics(loss, spoiled))


def test_on_policy_gradient_is_minus_advantage_times_weight(loss):
    """A bandit loss moves each token by its sequence's whole weight."""
    x = make_inputs(off_policy=0.0)
    weight_BT = x.weight_BT
    if loss.level == "bandit":
        weight_BT = np.where(x.mask_BT, weight_BT.sum(1, keepdims=True), 0.0)
    if type(loss).__name__ == "ClipCov":
        weight_BT = np.where(x.picked_BT, 0.0, weight_BT)
    np.testing.assert_allclose(gradient(loss, x)[1], -x.adv_BT * weight_BT, atol=1e-6)


def test_no_advantage_no_gradient_on_policy(loss):
    x = make_inputs(off_policy=0.0)
    x = dataclasses.replace(x, adv_BT=np.zeros_like(x.adv_BT))
    assert np.all(gradient(loss, x)[1] == 0)


def test_order_of_rows_is_irrelevant(loss):
    x = make_inputs()
    order = np.random.default_rng(1).permutation(ROWS)
    value, grad_BT = gradient(loss, x)
    moved, moved_grad_BT = gradient(loss, rows(x, order))
    np.testing.assert_allclose(value, moved, atol=1e-6)
    np.testing.assert_allclose(grad_BT[order], moved_grad_BT, atol=1e-7)


def test_padding_is_irrelevant(loss):
    x = make_inputs()
    value, grad_BT = gradient(loss, x)
    wider = jax.tree.map(lambda a: np.pad(a, ((0, 2), (0, 3))), x)
    wide, wide_grad_BT = gradient(loss, wider)
    np.testing.assert_allclose(value, wide, atol=1e-6)
    np.testing.assert_allclose(grad_BT, wide_grad_BT[:ROWS, :WIDTH], atol=1e-7)


@pytest.mark.parametrize("shift", [50.0, -50.0, 1000.0])
def test_finite_far_from_the_old_policy(loss, shift):
    x = make_inputs()
    x = dataclasses.replace(x, logp_BT=x.old_logp_BT + shift)
    value, grad_BT = gradient(loss, x)
    assert np.isfinite(value) and np.all(np.isfinite(grad_BT))


def test_micro_batches_add_up_to_the_batch(loss):
    parts = 3
    objective = Objective(loss=loss, entropy_coef=0.01)
    for mode in AGGREGATIONS:
        x = make_inputs(mode=mode)
        value, grad_BT = gradient(objective, x)
        pieces = [rows(x, index) for index in np.split(np.arange(ROWS), parts)]
        results = [gradient(objective, piece) for piece in pieces]
        np.testing.assert_allclose(value, sum(v for v, _ in results), atol=1e-6)
        np.testing.assert_array_equal(grad_BT, np.concatenate([g for _, g in results]))
        merged = functools.reduce(merge_metrics, (metrics(objective, p) for p in pieces))
        whole, merged = finish_metrics(metrics(objective, x)), finish_metrics(merged)
        assert whole.keys() == merged.keys()
        for name in whole:
            np.testing.assert_allclose(
                whole[name], merged[name], rtol=1e-5, atol=1e-6, err_msg=name
            )


def test_all_rows_masked_is_exactly_zero(loss):
    x = make_inputs()
    x = dataclasses.replace(
        x, mask_BT=np.zeros_like(x.mask_BT), weight_BT=np.zeros_like(x.weight_BT)
    )
    value, grad_BT = gradient(loss, x)
    assert value == 0 and np.all(grad_BT == 0)


def test_hashable_equal_and_documented(loss):
    assert hash(loss) == hash(type(loss)()) and loss == type(loss)()
    assert loss.level in ("token", "sequence", "bandit")
    assert "arXiv" in type(loss).__doc__


def test_metric_names_say_where_they_belong(loss):
    for name, (total, count) in metrics(loss, make_inputs()).items():
        assert name.startswith("policy/")
        assert np.ndim(total) == 0 and np.ndim(count) == 0
