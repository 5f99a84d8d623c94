"""The metrics of the losses, by hand on seven tokens: which side, which sign, over what."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from rlvr_jax.batch import LossInputs
from rlvr_jax.losses import KL, LOSSES, Correction, Objective

MASK = np.array([[1, 1, 1, 1], [1, 1, 0, 1]], bool)
D = np.array([[0.5, -0.5, 0.3, -0.3], [0.5, -0.9, 9.0, 0.05]])  # log pi / pi_old
ADV = np.array([[1, 1, -1, -1], [-1, -1, 1, 1]])


def inputs(d=D, adv=ADV, sampler=None):
    old = np.full((2, 4), -1.0)
    arrays = {
        "logp_BT": old + d,
        "old_logp_BT": old,
        "adv_BT": adv,
        "weight_BT": MASK / 7,
        "entropy_BT": np.ones((2, 4)),
        "ref_logp_BT": old - 0.1,
        "sampler_logp_BT": old if sampler is None else sampler,
    }
    arrays = {name: jnp.asarray(a, jnp.float32) for name, a in arrays.items()}
    return LossInputs(mask_BT=jnp.asarray(MASK), **arrays)


def means(metrics):
    return {name: float(a / b) for name, (a, b) in metrics.items() if b > 0}


def per_row(first, second):
    return np.repeat([[first], [second]], 4, axis=1)


APART = {"d": per_row(0.5, -0.5), "adv": per_row(1, -1)}  # both beyond the bound that acts on them
GATES = [1 / (1 + np.exp(-t * (np.exp(d) - 1))) for t, d in ((1.0, D), (1.05, D))]
GATE = np.where(ADV > 0, *GATES)


@pytest.mark.parametrize(
    ("name", "fields", "given", "expected"),
    [
        ("clipped", {}, {}, {"clip_frac_low": 2 / 7, "clip_frac_high": 1 / 7}),
        ("dual_clip", {"dual": 1.5}, {}, {"dual_clip_frac": 1 / 7, "clip_frac_low": 2 / 7}),
        (
            "cispo",
            {"is_floor": 0.7, "is_cap": 1.2},
            {},
            {"clip_frac_low": 2 / 7, "clip_frac_high": 3 / 7},
        ),
        ("gspo", {}, APART, {"clip_frac_low": 0.5, "clip_frac_high": 0.5}),
        ("gmpo", {}, APART, {"clip_frac_low": 3 / 7, "clip_frac_high": 4 / 7}),
        ("topr", {}, {}, {"taper_mean": (1 + np.exp(-0.35)) / 2}),
        ("sapo", {}, {}, {"gate_mean": np.mean((4 * GATE * (1 - GATE))[MASK])}),
    ],
)
def test_metrics_of_a_loss(name, fields, given, expected):
    found = means(LOSSES[name](**fields)(inputs(**given))[1])
    assert {k: found[f"policy/{k}"] for k in expected} == pytest.approx(expected, rel=1e-5)


def test_metrics_of_every_loss():
    plain, _ = Objective(loss=LOSSES["clipped"]())(inputs())
    total, metrics = Objective(
        loss=LOSSES["clipped"](), kl=KL(place="loss", estimator="k3", coef=0.5)
    )(inputs())
    found = means(metrics)
    assert found["policy/approx_kl"] == pytest.approx(np.mean((np.expm1(D) - D)[MASK]), rel=1e-5)
    assert found["policy/ratio_max"] == pytest.approx(np.exp(0.5), rel=1e-5)
    assert float(metrics["policy/loss"][0]) == pytest.approx(float(plain), rel=1e-6) != total


def test_metrics_of_a_correction_tell_raw_from_bounded():
    x = inputs(sampler=np.full((2, 4), -1.0 - np.log(1.3)))
    weight, metrics = Correction(level="token", action="clip", high=1.1)(x)
    found = means(metrics)
    assert found["mismatch/raw_is_max"] == pytest.approx(1.3, rel=1e-5)
    assert found["mismatch/is_max"] == pytest.approx(1.1, rel=1e-5)
    np.testing.assert_allclose(np.asarray(weight)[MASK], 1.1, rtol=1e-5)


def test_a_drift_is_the_mean_over_the_row_from_the_sampler():
    """Row 0 drifts by 0.3 a token, 1.2 in all; row 1 by 0.6, and its first token alone is liked."""
    x = inputs(adv=np.array([[-1, -1, -1, -1], [1, -1, 0, -1]]))
    drift = jnp.asarray(per_row(0.3, 0.6), jnp.float32)
    x = dataclasses.replace(x, old_logp_BT=x.logp_BT, sampler_logp_BT=x.logp_BT + drift)
    weight, _ = Correction(max_negative_drift=0.5)(x)
    np.testing.assert_array_equal(np.asarray(weight)[MASK], [1, 1, 1, 1, 0, 0, 0])
