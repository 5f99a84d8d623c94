"""GAE, returns and reward-to-go against float64 loops over compacted sequences."""

import dataclasses

import jax
import numpy as np
import pytest

from rlvr_jax.advantages import ADVANTAGES
from rlvr_jax.advantages.base import last_token, reward_to_go
from rlvr_jax.batch import AdvantageInputs

F32 = np.float32


def make_inputs(seed, prompts=3, samples=4, width=11, kl=False):
    rng = np.random.default_rng(seed)
    rows = prompts * samples
    mask_BT = rng.uniform(size=(rows, width)) < 0.6  # holes: tool output between sampled tokens
    mask_BT[1] = False
    valid_NG = mask_BT.any(1).reshape(prompts, samples)
    return AdvantageInputs(
        reward_NG=rng.normal(size=(prompts, samples)).astype(F32),
        valid_NG=valid_NG,
        mask_BT=mask_BT,
        kl_BT=rng.normal(size=(rows, width)).astype(F32) if kl else None,
        value_BT=rng.normal(size=(rows, width)).astype(F32),
    )


def compacted(x, row):
    """(columns, token rewards, values) of the unmasked tokens of one row, in float64."""
    keep = np.flatnonzero(x.mask_BT[row])
    reward = np.zeros(keep.size)
    if keep.size:
        reward[-1] = x.reward_NG.reshape(-1)[row]
    if x.kl_BT is not None:
        reward -= x.kl_BT[row, keep].astype(float)
    return keep, reward, x.value_BT[row, keep].astype(float)


def loop_gae(reward, value, gamma, lam):
    adv, following, out = 0.0, 0.0, []
    for r, v in zip(reward[::-1], value[::-1], strict=True):
        adv = r + gamma * following - v + gamma * lam * adv
        following = v
        out.append(adv)
    return np.array(out[::-1])


@pytest.mark.parametrize("kl", [False, True])
@pytest.mark.parametrize("gamma, lam_policy, lam_value", [(1, 1, 1), (1, 0.95, 1), (0.9, 0.5, 0.8)])
def test_gae_steps_over_masked_tokens(gamma, lam_policy, lam_value, kl):
    gae = ADVANTAGES.make("gae", gamma=gamma, lam_policy=lam_policy, lam_value=lam_value)
    x = make_inputs(0, kl=kl)
    adv_BT, return_BT = jax.jit(lambda x: (gae(x), gae.returns(x)))(x)
    for row in range(x.mask_BT.shape[0]):
        keep, reward, value = compacted(x, row)
        np.testing.assert_allclose(
            adv_BT[row, keep], loop_gae(reward, value, gamma, lam_policy), atol=1e-5
        )
        target = value + loop_gae(reward, value, gamma, lam_value)
        np.testing.assert_allclose(return_BT[row, keep], target, atol=1e-5)
    assert np.all(np.where(x.mask_BT, 0, return_BT) == 0)


def test_length_adaptive_rows_have_their_own_lambda():
    x = make_inputs(1)
    gae = ADVANTAGES.make("gae", length_alpha=0.5)
    adv_BT = np.asarray(jax.jit(lambda x: gae(x))(x))
    for row in range(x.mask_BT.shape[0]):
        keep, reward, value = compacted(x, row)
        if keep.size:
            lam = min(max(1 - 1 / (0.5 * keep.size), 0.0), 1.0)
            np.testing.assert_allclose(
                adv_BT[row, keep], loop_gae(reward, value, 1.0, lam), atol=1e-5
            )


def test_masked_values_do_not_leak():
    x = make_inputs(2)
    gae = ADVANTAGES.make("gae", lam_policy=0.9)
    spoiled = dataclasses.replace(x, value_BT=np.where(x.mask_BT, x.value_BT, F32(np.nan)))
    function = jax.jit(lambda x: (gae(x), gae.returns(x)))
    jax.tree.map(np.testing.assert_array_equal, function(x), function(spoiled))


def test_constant_critic_is_reinforce_with_that_baseline():
    """gamma = lambda = 1 and V = b: A = R - b at every token (specification C10)."""
    x = make_inputs(3)
    x = dataclasses.replace(x, value_BT=np.full_like(x.value_BT, 0.4))
    gae = ADVANTAGES["gae"]()
    constant = ADVANTAGES.make("constant", baseline=0.4)
    np.testing.assert_allclose(gae(x), constant(x), atol=1e-6)
    np.testing.assert_allclose(
        gae.returns(x), np.where(x.mask_BT, x.reward_NG.reshape(-1, 1), 0), atol=1e-6
    )


def test_whitening_comes_after_the_targets():
    x = make_inputs(4)
    plain, white = ADVANTAGES.make("gae"), ADVANTAGES.make("gae", whiten=True)
    adv = np.asarray(white(x))[x.mask_BT]
    assert abs(adv.mean()) < 1e-5 and adv.std(ddof=1) == pytest.approx(1.0, abs=1e-4)
    np.testing.assert_array_equal(plain.returns(x), white.returns(x))


@pytest.mark.parametrize("gamma", [1.0, 0.9, 0.0])
def test_reward_to_go(gamma):
    x = make_inputs(5)
    reward_BT = x.value_BT
    out_BT = np.asarray(jax.jit(lambda r, m: reward_to_go(r, m, gamma))(reward_BT, x.mask_BT))
    for row in range(x.mask_BT.shape[0]):
        keep = np.flatnonzero(x.mask_BT[row])
        total, expected = 0.0, []
        for r in reward_BT[row, keep][::-1].astype(float):
            total = r + gamma * total
            expected.append(total)
        np.testing.assert_allclose(out_BT[row, keep], expected[::-1], atol=1e-5)
    assert np.all(out_BT[~x.mask_BT] == 0)


def test_last_token_with_holes():
    mask_BT = np.array([[1, 0, 1, 0], [1, 1, 1, 1], [0, 0, 0, 0], [1, 0, 0, 0]], bool)
    expected = [[0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0], [1, 0, 0, 0]]
    np.testing.assert_array_equal(last_token(mask_BT), np.array(expected, bool))


@pytest.mark.parametrize(
    "fields, reason",
    [
        ({"gamma": 1.5}, "gamma"),
        ({"lam_policy": -0.1}, "lam_policy"),
        ({"lam_value": 2.0}, "lam_value"),
        ({"length_alpha": 0.0}, "length_alpha"),
        ({"length_alpha": 0.05, "lam_policy": 0.95}, "no effect"),
    ],
)
def test_senseless_settings_are_refused(fields, reason):
    with pytest.raises(ValueError, match=reason):
        ADVANTAGES.make("gae", **fields)
