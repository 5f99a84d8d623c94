"""Where a formula has a corner: ties, ratios far away, advantages of 0."""

import dataclasses

import jax
import loss_oracle as oracle
import numpy as np
import pytest

from rlvr_jax.losses import KL, LOSSES, Objective


def value_and_grad(loss, x):
    with jax.enable_x64(True):
        return jax.tree.map(
            np.asarray,
            jax.value_and_grad(lambda logp: loss(dataclasses.replace(x, logp_BT=logp))[0])(
                x.logp_BT
            ),
        )


@pytest.mark.parametrize(
    "bounds", [{"eps_low": 0.0}, {"eps_high": 0.0}, {"eps_low": 0, "eps_high": 0}]
)
@pytest.mark.parametrize("name", ["clipped", "dual_clip", "gspo"])
def test_a_bound_of_zero_leaves_the_first_update_whole(name, bounds):
    x = oracle.make_inputs(1, spread=0.0)
    whole = value_and_grad(LOSSES[name](), x)[1]
    np.testing.assert_allclose(value_and_grad(LOSSES[name](**bounds), x)[1], whole, atol=1e-12)


def test_an_upper_bound_beyond_the_dual_one_is_no_contradiction():
    """DeepSeek-R1 clips at 10: of A < 0 the dual bound alone speaks."""
    x = oracle.make_inputs(3, spread=1.5)
    x = dataclasses.replace(x, adv_BT=-np.abs(x.adv_BT))
    wide, narrow = (LOSSES["dual_clip"](eps_high=e) for e in (10.0, 0.2))
    np.testing.assert_allclose(value_and_grad(wide, x)[1], value_and_grad(narrow, x)[1])


def far(d: float):
    x = oracle.make_inputs(1, spread=0.0)
    return dataclasses.replace(x, logp_BT=x.logp_BT + d, ref_logp_BT=x.logp_BT)


@pytest.mark.parametrize("d", [-50.0, 50.0])
def test_squares_pull_from_any_distance(d):
    x = far(d)
    kl = KL(place="loss", estimator="k2", coef=1.0)
    slope_BT = np.asarray(
        jax.grad(lambda l: kl.loss_BT(dataclasses.replace(x, logp_BT=l)).sum())(x.logp_BT)
    )
    np.testing.assert_allclose(slope_BT[x.mask_BT], d, rtol=1e-5)
    slope_BT = value_and_grad(LOSSES["mirror_descent"](tau=0.5), x)[1]
    assert (np.sign(slope_BT[x.mask_BT]) == np.sign(d)).all()


@pytest.mark.parametrize("d", [-19.5, -15.0, -3.0, 0.5, 3.0])
def test_ratio_corrected_k3_keeps_its_gradient_in_single_precision(d):
    """d/dlogp of r k3 is r d."""
    one = np.ones((1, 1), np.float32)
    mask = np.ones((1, 1), bool)
    x = oracle.make_inputs(1)
    x = dataclasses.replace(
        x, logp_BT=one * -20, old_logp_BT=one * -20, ref_logp_BT=one * (-20 - d), mask_BT=mask
    )
    kl = KL(place="loss", estimator="k3", coef=1.0, ratio_corrected=True)
    slope = jax.grad(lambda l: kl.loss_BT(dataclasses.replace(x, logp_BT=l)).sum())(one * -20)
    np.testing.assert_allclose(slope, [[d]], rtol=1e-5)
    value = kl.loss_BT(x)
    np.testing.assert_allclose(value, [[np.expm1(-d) + d]], rtol=1e-5)


def test_an_advantage_of_zero_is_neither_good_nor_bad():
    x = oracle.make_inputs(2, spread=0.5)
    x = dataclasses.replace(x, adv_BT=np.zeros_like(x.adv_BT))
    loss = LOSSES["mirror_descent"]()
    slopes = [
        value_and_grad(Objective(loss=loss, positive_scale=p, negative_scale=n), x)[1]
        for p, n in ((1.0, 1.0), (1.0, 0.0), (0.0, 1.0))
    ]
    assert np.abs(slopes[0]).max() > 0
    np.testing.assert_array_equal(slopes[0], slopes[1])
    np.testing.assert_array_equal(slopes[0], slopes[2])


@pytest.mark.parametrize("name", ["clipped", "cispo", "gspo"])
def test_half_precision_is_widened_before_it_is_subtracted(name):
    x = oracle.make_inputs(1, spread=0.3)
    half = dataclasses.replace(
        x, logp_BT=x.logp_BT.astype("bfloat16"), old_logp_BT=x.old_logp_BT.astype("bfloat16")
    )
    full = dataclasses.replace(
        x,
        logp_BT=half.logp_BT.astype(np.float32),
        old_logp_BT=half.old_logp_BT.astype(np.float32),
    )
    np.testing.assert_allclose(LOSSES[name]()(half)[0], LOSSES[name]()(full)[0], rtol=1e-6)
