"""Values and gradients of every loss against float64 loops and finite differences."""

import dataclasses
import functools

import jax
import loss_oracle as oracle
import numpy as np
import pytest

from rlvr_jax.losses import LOSSES


@functools.cache
def compiled(loss):
    def value(logp_BT, x):
        return loss(dataclasses.replace(x, logp_BT=logp_BT))[0]

    return jax.jit(jax.value_and_grad(value))


def value_and_grad(loss, x):
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, compiled(loss)(x.logp_BT, x))


def test_every_loss_has_an_oracle():
    assert set(oracle.ORACLES) == set(LOSSES)


@pytest.mark.parametrize("name", list(LOSSES))
@pytest.mark.parametrize("spread", [0.3, 1.5])
def test_value_and_gradient(name, spread):
    loss = LOSSES[name]()
    for seed in range(3):
        x = oracle.make_inputs(seed, spread=spread)
        value, grad_BT = value_and_grad(loss, x)
        np.testing.assert_allclose(
            value, oracle.value(name, loss, x, x.logp_BT, x.logp_BT), rtol=1e-9
        )
        np.testing.assert_allclose(
            grad_BT, oracle.gradient(name, loss, x), rtol=1e-5, atol=1e-8, err_msg=name
        )


@pytest.mark.parametrize("name", ["clipped", "cispo", "sapo", "kl_cov", "gspo_token"])
def test_advantages_may_differ_by_token(name):
    loss = LOSSES[name]()
    rng = np.random.default_rng(5)
    x = oracle.make_inputs(4)
    x = dataclasses.replace(x, adv_BT=rng.normal(size=x.adv_BT.shape))
    _, grad_BT = value_and_grad(loss, x)
    np.testing.assert_allclose(grad_BT, oracle.gradient(name, loss, x), rtol=1e-5, atol=1e-8)


def test_all_ratio_losses_agree_on_policy():
    """Strictly on-policy, no clip rule matters: one gradient under one aggregator."""
    names = ("policy_gradient", "clipped", "dual_clip", "two_sided", "gspo", "gspo_token")
    names += ("gmpo", "cispo", "sapo", "topr", "vespo")
    x = oracle.make_inputs(1, spread=0.0)
    grads = [value_and_grad(LOSSES[name](), x)[1] for name in names]
    for name, grad_BT in zip(names, grads, strict=True):
        np.testing.assert_allclose(grad_BT, grads[0], atol=1e-12, err_msg=name)


def slopes(loss, adv):
    """d objective / d log ratio at each of RATIOS; one-token sequences."""
    ones = np.ones((len(RATIOS), 1))
    x = dataclasses.replace(
        oracle.make_inputs(0, rows=len(RATIOS), width=1),
        mask_BT=ones > 0,
        weight_BT=ones,
        adv_BT=adv * ones,
        old_logp_BT=-ones,
        logp_BT=-ones + np.log(RATIOS)[:, None],
        picked_BT=ones < 0,
    )
    return -value_and_grad(loss, x)[1][:, 0]


RATIOS = (0.5, 0.79, 0.81, 1.0, 1.19, 1.27, 1.29, 2.9, 3.1, 4.1)
CLIP_TABLE = {
    # loss, fields:           sign of A, slope / (r A) at each ratio above
    ("clipped", (0.2, 0.28), 1): (1, 1, 1, 1, 1, 1, 0, 0, 0, 0),
    ("clipped", (0.2, 0.28), -1): (0, 0, 1, 1, 1, 1, 1, 1, 1, 1),
    ("clipped", (0.2, 0.2), 1): (1, 1, 1, 1, 1, 0, 0, 0, 0, 0),
    ("dual_clip", (0.2, 0.28, 3.0), 1): (1, 1, 1, 1, 1, 1, 0, 0, 0, 0),
    ("dual_clip", (0.2, 0.28, 3.0), -1): (0, 0, 1, 1, 1, 1, 1, 1, 0, 0),
    ("two_sided", (0.2, 0.28, 4.0), 1): (1, 1, 1, 1, 1, 1, 0, 0, 0, 0),
    ("two_sided", (0.2, 0.28, 4.0), -1): (0, 0, 1, 1, 1, 1, 1, 1, 1, 0),
    ("gspo", (0.2, 0.28), 1): (1, 1, 1, 1, 1, 1, 0, 0, 0, 0),
    ("gspo", (0.2, 0.28), -1): (0, 0, 1, 1, 1, 1, 1, 1, 1, 1),
    ("gmpo", (0.25,), 1): (1, 1, 1, 1, 1, 1, 0, 0, 0, 0),  # e^0.25 = 1.284
    ("gmpo", (0.25,), -1): (0, 1, 1, 1, 1, 1, 1, 1, 1, 1),  # e^-0.25 = 0.7788
}


@pytest.mark.parametrize("row", list(CLIP_TABLE), ids=str)
def test_slopes_of_the_clip_rules(row):
    name, fields, sign = row
    expected = sign * np.asarray(RATIOS) * CLIP_TABLE[row]
    np.testing.assert_allclose(slopes(LOSSES[name](*fields), sign), expected, atol=1e-9)


def test_soft_gates_never_shut():
    assert np.all(slopes(LOSSES["sapo"](), 1.0) > 0)
    capped = np.minimum(RATIOS, 2.0)
    np.testing.assert_allclose(slopes(LOSSES["cispo"](is_cap=2.0), 1.0), capped, rtol=1e-9)


@pytest.mark.parametrize(
    "name, fields",
    [
        ("clipped", {"eps_low": 1.5}),
        ("clipped", {"eps_high": -0.1}),
        ("dual_clip", {"dual": 1.0}),
        ("two_sided", {"delta": 1.1}),
        ("gspo", {"eps_low": -1.0}),
        ("gspo_token", {"eps_high": -1.0}),
        ("gmpo", {"clip_log": 0.0}),
        ("cispo", {"is_cap": 0.28}),
        ("sapo", {"tau_neg": 0.0}),
        ("mirror_descent", {"tau": -1.0}),
        ("vespo", {"k_pos": -1.0}),
        ("vespo", {"lam_pos": 0.0}),
        ("clip_cov", {"cov_low": 6.0}),
        ("kl_cov", {"share": 0.0}),
    ],
)
def test_senseless_settings_are_refused(name, fields):
    with pytest.raises(ValueError):
        LOSSES.make(name, **fields)
