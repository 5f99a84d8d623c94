"""Weights between sampler and trainer: bounds, sizes, statistics, and what they may not touch."""

import dataclasses

import jax
import jax.numpy as jnp
import loss_oracle as oracle
import numpy as np
import pytest

from rlvr_jax.losses import LOSSES, Correction, Objective, finish_metrics


def weights(correction, x):
    w_BT, metrics = jax.tree.map(np.asarray, jax.jit(lambda x: correction(x))(x))
    return np.asarray(w_BT), {k: float(v) for k, v in finish_metrics(metrics).items()}


def row_weights(x, level):
    """The raw weights by a loop over compacted rows, in float64."""
    out = np.zeros(x.mask_BT.shape)
    for row, mask in enumerate(x.mask_BT):
        logs = (x.old_logp_BT - x.sampler_logp_BT)[row, mask]
        if level == "token":
            out[row, mask] = np.exp(logs)
        elif logs.size:
            total = logs.sum() if level == "sequence" else logs.mean()
            out[row, mask] = np.exp(total)
    return out


@pytest.mark.parametrize("level", ["token", "sequence", "geometric"])
@pytest.mark.parametrize("action", ["clip", "mask", "reject"])
def test_levels_and_actions(level, action):
    x = oracle.make_inputs(0)
    low, high = 0.95, 1.08
    w_BT, done = weights(Correction(level=level, action=action, low=low, high=high), x)
    raw_BT, mask_BT = row_weights(x, level), x.mask_BT
    inside_BT = (raw_BT >= low) & (raw_BT <= high)
    expected_BT = {
        "clip": np.clip(raw_BT, low, high),
        "mask": np.where(inside_BT, raw_BT, 0.0),
        "reject": inside_BT.astype(float),
    }[action]
    np.testing.assert_allclose(w_BT[mask_BT], expected_BT[mask_BT], rtol=1e-5)
    assert inside_BT[mask_BT].any() and not inside_BT[mask_BT].all()
    w, raw = expected_BT[mask_BT], raw_BT[mask_BT]
    assert done["mismatch/is_ess"] == pytest.approx(w.sum() ** 2 / (w.size * (w**2).sum()), 1e-5)
    assert done["mismatch/raw_is_ess"] == pytest.approx(
        raw.sum() ** 2 / (raw.size * (raw**2).sum()), 1e-5
    )
    assert done["mismatch/raw_is_max"] == pytest.approx(raw.max(), 1e-5)
    assert done["mismatch/is_clip_frac"] == pytest.approx(1 - inside_BT[mask_BT].mean(), 1e-5)
    assert done["mismatch/masked_frac"] == pytest.approx((w == 0).mean(), abs=1e-6)


def test_statistics_of_the_gap():
    x = oracle.make_inputs(1)
    _, done = weights(Correction(), x)
    d = (x.old_logp_BT - x.sampler_logp_BT)[x.mask_BT]
    assert done["mismatch/kl_k1"] == pytest.approx(-d.mean(), rel=1e-4)
    assert done["mismatch/kl_k3"] == pytest.approx((np.exp(d) - d - 1).mean(), rel=1e-4)
    assert done["mismatch/abs_mean"] == pytest.approx(np.abs(d).mean(), rel=1e-4)
    assert done["mismatch/abs_max"] == pytest.approx(np.abs(d).max(), rel=1e-4)
    assert done["mismatch/prob_mult_error"] == pytest.approx(np.exp(np.abs(d)).mean(), rel=1e-4)


def test_none_leaves_the_loss_alone_and_still_reports():
    x = oracle.make_inputs(2)
    w_BT, done = weights(Correction(), x)
    assert np.all(w_BT == 1.0)
    assert done["mismatch/is_ess"] == pytest.approx(1.0)
    assert done["mismatch/raw_is_ess"] < 1.0
    without = dataclasses.replace(x, sampler_logp_BT=None)
    assert weights(Correction(), without)[1] == {}
    with pytest.raises(ValueError, match="none given"):
        Correction(level="token")(without)


def test_equal_policies_need_no_correction():
    x = oracle.make_inputs(3)
    x = dataclasses.replace(x, sampler_logp_BT=x.old_logp_BT)
    for level in ("token", "sequence", "geometric"):
        w_BT, done = weights(Correction(level=level, action="mask", low=0.9, high=1.1), x)
        np.testing.assert_array_equal(w_BT[x.mask_BT], 1.0)
        assert done["mismatch/masked_frac"] == 0.0


def test_weights_are_constants_and_multiply_after_the_clip():
    x = jax.tree.map(jnp.asarray, oracle.make_inputs(4, spread=1.0))
    correction = Correction(level="token", high=1.05)
    objective = Objective(loss=LOSSES["clipped"](), correction=correction)

    def value(logp_BT, old_BT):
        return objective(dataclasses.replace(x, logp_BT=logp_BT, old_logp_BT=old_BT))[0]

    grad_BT = jax.grad(value)(x.logp_BT, x.old_logp_BT)
    plain = Objective(loss=LOSSES["clipped"]())

    def bare(logp_BT):
        return plain(dataclasses.replace(x, logp_BT=logp_BT))[0]

    w_BT = correction(x)[0]
    np.testing.assert_allclose(grad_BT, jax.grad(bare)(x.logp_BT) * w_BT, rtol=1e-5, atol=1e-7)


def test_decoupled_ppo_is_an_unbounded_token_weight():
    """arXiv 2110.00641: E_roll[w min(rho A, clip(rho) A)], w = pi_old / pi_roll."""
    x = oracle.make_inputs(5)
    decoupled = Correction(level="token", action="clip", high=float("inf"))
    total = Objective(loss=LOSSES["clipped"](), correction=decoupled)(x)[0]
    expected = 0.0
    for row, column in zip(*np.nonzero(x.mask_BT), strict=True):
        at = (row, column)
        r = np.exp(x.logp_BT[at] - x.old_logp_BT[at])
        w = np.exp(x.old_logp_BT[at] - x.sampler_logp_BT[at])
        expected -= x.weight_BT[at] * w * oracle.ppo(r, x.adv_BT[at], 0.2, 0.2)
    np.testing.assert_allclose(float(total), expected, rtol=1e-5)


def test_drifted_rows_with_a_bad_outcome_are_dropped():
    x = oracle.make_inputs(6, spread=0.0)
    logp_BT = x.old_logp_BT.copy()
    logp_BT[2:4] -= 1.0  # rows 2 and 3 have drifted away by one nat a token
    adv_BT = np.ones_like(logp_BT)
    adv_BT[1:3] = -1.0  # rows 1 and 2 are bad
    x = dataclasses.replace(x, logp_BT=logp_BT, adv_BT=adv_BT, sampler_logp_BT=x.old_logp_BT)
    w_BT = np.asarray(Correction(max_negative_drift=0.5)(x)[0])
    kept_B = [np.all(w_BT[row, x.mask_BT[row]] == 1) for row in range(1, 5)]
    assert kept_B == [True, False, True, True]
    without = dataclasses.replace(x, sampler_logp_BT=None)
    w_BT = np.asarray(Correction(max_negative_drift=0.5)(without)[0])
    assert np.all(w_BT[2, x.mask_BT[2]] == 0)


def test_long_sequences_do_not_overflow():
    """A ratio of 1.1 a token is 13,780 after 100 tokens and 4e41 after 1,000."""
    mask_BT = np.ones((1, 1000), bool)
    x = oracle.make_inputs(0, rows=5, width=6)
    x = dataclasses.replace(
        x,
        mask_BT=mask_BT,
        old_logp_BT=np.full((1, 1000), -1.0),
        sampler_logp_BT=np.full((1, 1000), -1.0 - np.log(1.1)),
    )
    w_BT = Correction(level="sequence", high=2.0)(x)[0]
    np.testing.assert_allclose(w_BT, 2.0)
    w_BT = Correction(level="geometric", high=2.0)(x)[0]
    np.testing.assert_allclose(w_BT, 1.1, rtol=1e-5)
    assert np.all(Correction(level="sequence", action="mask", low=0.5)(x)[0] == 0)


@pytest.mark.parametrize(
    "fields, reason",
    [
        ({"level": "sequnce"}, 'did you mean "sequence"'),
        ({"action": "cut"}, "not one of"),
        ({"low": 3.0}, "low < high"),
        ({"low": -1.0}, "low < high"),
        ({"max_negative_drift": 0.0}, "positive"),
    ],
)
def test_senseless_choices_are_refused(fields, reason):
    with pytest.raises(ValueError, match=reason):
        Correction(**fields)
