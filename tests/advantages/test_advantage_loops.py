"""Estimators without a worked example against float64 loops, with invalid samples and KL."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr_jax.advantages import ADVANTAGES
from rlvr_jax.batch import AdvantageInputs

F32 = np.float32
PROMPTS, SAMPLES, WIDTH = 3, 4, 5


def make_inputs(seed, kl=False):
    rng = np.random.default_rng(seed)
    valid_NG = rng.uniform(size=(PROMPTS, SAMPLES)) < 0.85
    rows = PROMPTS * SAMPLES
    length_B = rng.integers(1, WIDTH + 1, rows) * valid_NG.reshape(-1)
    mask_BT = np.arange(WIDTH) < length_B[:, None]
    return AdvantageInputs(
        reward_NG=rng.choice([0.0, 0.1, 0.5, 1.0], size=(PROMPTS, SAMPLES)).astype(F32),
        valid_NG=valid_NG,
        mask_BT=mask_BT,
        kl_BT=(0.1 * rng.normal(size=(rows, WIDTH))).astype(F32) if kl else None,
        reward_parts_CNG=rng.normal(size=(3, PROMPTS, SAMPLES)).astype(F32),
        running_baseline=F32(0.25),
    )


_COMPILED = {}


def run(name, x, **fields):
    key = (name, tuple(fields.items()), x.kl_BT is None)
    if key not in _COMPILED:
        estimator = ADVANTAGES.make(name, **fields)
        _COMPILED[key] = jax.jit(lambda x: estimator(x))
    return np.asarray(_COMPILED[key](x))


def penalised(x):
    reward = x.reward_NG.astype(float)
    if x.kl_BT is not None:
        reward = reward - np.where(x.mask_BT, x.kl_BT, 0).sum(1).reshape(reward.shape)
    return reward


def flat(values):
    return len(values) < 2 or values.max() - values.min() <= 1e-6


def std(values, ddof):
    return np.sqrt(((values - values.mean()) ** 2).sum() / max(len(values) - ddof, 1))


def groups(x):
    """(prompt, indices of valid samples, their penalised rewards)"""
    reward = penalised(x)
    for n in range(PROMPTS):
        keep = np.flatnonzero(x.valid_NG[n])
        yield n, keep, reward[n, keep]


def centred(x):
    out = np.zeros(x.reward_NG.shape)
    for n, keep, values in groups(x):
        if keep.size and not flat(values):
            out[n, keep] = values - values.mean()
    return out


def spread(adv_NG, x):
    return np.where(x.mask_BT, np.asarray(adv_NG).reshape(-1, 1), 0.0)


def group(x, level, ddof):
    out = centred(x)
    everything = penalised(x)[x.valid_NG]
    for n, keep, values in groups(x):
        if level == "group" and keep.size:
            out[n] /= std(values, ddof) + 1e-6
        if level == "batch":
            out[n] /= std(everything, ddof) + 1e-6
    return spread(out, x)


def rloo(x):
    out = np.zeros(x.reward_NG.shape)
    for n, keep, values in groups(x):
        if not flat(values):
            for i, j in enumerate(keep):
                out[n, j] = values[i] - np.delete(values, i).mean()
    return spread(out, x)


def opo(x):
    out = np.zeros(x.reward_NG.shape)
    length = x.mask_BT.sum(1).reshape(x.reward_NG.shape)
    for n, keep, values in groups(x):
        if not flat(values):
            out[n, keep] = values - (length[n, keep] * values).sum() / length[n, keep].sum()
    return spread(out, x)


def gpg(x):
    alive = sum(keep.size for _, keep, values in groups(x) if not flat(values))
    return spread(centred(x) * x.valid_NG.sum() / max(alive, 1), x)


def log_mean_exp(x):
    out = np.zeros(x.reward_NG.shape)
    for n, keep, values in groups(x):
        if not flat(values):
            out[n, keep] = values - 0.5 * np.log(np.mean(np.exp(values / 0.5)))
    return spread(out, x)


def magistral(x):
    out = centred(x)
    return spread(out / (std(out[x.valid_NG], 0) + 1e-6), x)


def token_whitened(value_BT, x):
    values = value_BT[x.mask_BT]
    out = np.zeros(x.mask_BT.shape)
    if not flat(values):
        out[x.mask_BT] = (values - values.mean()) / (std(values, 1) + 1e-6)
    return out


def reinforce_pp_baseline(x):
    return token_whitened(spread(centred(x), x), x)


def reinforce_pp(x):
    out = np.zeros(x.mask_BT.shape)
    for row in range(out.shape[0]):
        total = x.reward_NG.reshape(-1)[row]
        for t in np.flatnonzero(x.mask_BT[row])[::-1]:
            total = total - (0 if x.kl_BT is None else x.kl_BT[row, t])
            out[row, t] = total
    return token_whitened(out, x)


def gdpo(x):
    out = np.zeros(x.reward_NG.shape)
    for part in x.reward_parts_CNG.astype(float):
        for n in range(PROMPTS):
            keep = np.flatnonzero(x.valid_NG[n])
            values = part[n, keep]
            if not flat(values):
                out[n, keep] += (values - values.mean()) / (std(values, 1) + 1e-6)
    return spread(out / (std(out[x.valid_NG], 1) + 1e-6), x)


def batch_mean(x):
    reward = penalised(x)
    return spread(reward - reward[x.valid_NG].mean(), x)


def running_mean(x):
    return spread(penalised(x) - 0.25, x)


LOOPS = {
    "grpo": (lambda x: group(x, "group", 1), "group", {}),
    "grpo_pop": (lambda x: group(x, "group", 0), "group", {"ddof": 0}),
    "dr_grpo": (lambda x: group(x, "none", 1), "group", {"std": "none"}),
    "lite_ppo": (lambda x: group(x, "batch", 1), "group", {"std": "batch"}),
    "rloo": (rloo, "rloo", {}),
    "opo": (opo, "opo", {}),
    "magistral": (magistral, "magistral", {}),
    "reinforce_pp": (reinforce_pp, "reinforce_pp", {}),
    "reinforce_pp_baseline": (reinforce_pp_baseline, "reinforce_pp_baseline", {}),
    "batch_mean": (batch_mean, "batch_mean", {}),
    "running_mean": (running_mean, "running_mean", {}),
}
WITHOUT_KL = {
    "gpg": (gpg, "gpg", {}),
    "log_mean_exp": (log_mean_exp, "log_mean_exp", {}),
    "gdpo": (gdpo, "gdpo", {}),
}


@pytest.mark.parametrize("case", list(LOOPS) + list(WITHOUT_KL))
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), kl=st.booleans())
def test_against_the_loop(case, seed, kl):
    loop, name, fields = (LOOPS | WITHOUT_KL)[case]
    x = make_inputs(seed, kl=kl and case in LOOPS)
    if not x.valid_NG.any():
        return
    np.testing.assert_allclose(run(name, x, **fields), loop(x), atol=2e-5, rtol=1e-4)


def test_gdpo_keeps_combinations_apart():
    """(1, 0) and (0, 1) sum to the same reward; components of different spread tell them apart."""
    parts = np.array([[[1, 0, 1, 0]], [[0, 1, 0, 0]]], F32)
    x = make_inputs(0)
    valid_NG = np.ones((1, 4), bool)
    x = AdvantageInputs(
        reward_NG=parts.sum(0), valid_NG=valid_NG, mask_BT=valid_NG.T, reward_parts_CNG=parts
    )
    summed, apart = run("group", x)[:, 0], run("gdpo", x)[:, 0]
    assert summed[0] == summed[1] and apart[0] != apart[1]
    weighted = ADVANTAGES.make("gdpo", weights=(1.0, 0.0), batch_std=False)(x)[:, 0]
    np.testing.assert_allclose(weighted, np.array([1, -1, 1, -1]) * np.sqrt(0.75), rtol=1e-4)
    with pytest.raises(ValueError, match="2 reward components"):
        ADVANTAGES.make("gdpo", weights=(1.0,))(x)


def test_running_baseline_follows_the_valid_rewards():
    x = make_inputs(1)
    estimator = ADVANTAGES.make("running_mean", alpha=0.9)
    expected = 0.9 * 0.25 + 0.1 * x.reward_NG[x.valid_NG].mean()
    np.testing.assert_allclose(estimator.update(x), expected, rtol=1e-5)


def test_float_noise_is_no_signal():
    """0.1 + 0.2 and 0.3 differ in the last bit; a tiny deviation must not be blown up."""
    reward = np.array([[0.1 + 0.2, 0.3, 0.3, 0.1 + 0.2]], F32)
    reward[0, 0] = np.nextafter(F32(0.3), F32(1))
    valid_NG = np.ones((1, 4), bool)
    x = AdvantageInputs(reward_NG=reward, valid_NG=valid_NG, mask_BT=valid_NG.T)
    for name in ("group", "rloo", "opo", "magistral", "gpg"):
        assert np.all(run(name, x) == 0)
    assert np.abs(np.asarray(ADVANTAGES.make("group", eps=0.0, tol=0.0)(x))).max() > 0.4


@pytest.mark.parametrize(
    "name, fields",
    [
        ("group", {"ddof": 2}),
        ("group", {"std": "grup"}),
        ("group", {"eps": -1.0}),
        ("magistral", {"tol": -1.0}),
        ("reinforce_pp", {"gamma": 1.1}),
        ("gpg", {"scale": 0.0}),
        ("log_mean_exp", {"tau": 0.0}),
        ("running_mean", {"alpha": 1.0}),
        ("gdpo", {"ddof": 3}),
        ("process", {"eps": -0.1}),
    ],
)
def test_senseless_settings_are_refused(name, fields):
    with pytest.raises(ValueError):
        ADVANTAGES.make(name, **fields)
