"""pass@k advantages and PKPO against brute force over all subsets."""

import itertools

import jax
import numpy as np
import pytest

from rlvr_jax.advantages import ADVANTAGES
from rlvr_jax.advantages.passk import ranks
from rlvr_jax.batch import AdvantageInputs

F32 = np.float32


def inputs(reward_NG, valid_NG=None):
    reward_NG = np.asarray(reward_NG, F32)
    valid_NG = np.ones(reward_NG.shape, bool) if valid_NG is None else valid_NG
    return AdvantageInputs(
        reward_NG=reward_NG,
        valid_NG=valid_NG,
        mask_BT=valid_NG.reshape(-1, 1),
        correct_NG=(reward_NG > 0) & valid_NG,
    )


def run(name, x, **fields):
    estimator = ADVANTAGES.make(name, **fields)
    out = np.asarray(jax.jit(lambda x: estimator(x))(x))
    return out[:, 0].reshape(x.reward_NG.shape)


def inclusion(values, k):
    """s_i: mean over all k-subsets of [i in I] max over I."""
    subsets = list(itertools.combinations(range(len(values)), k))
    return np.array(
        [sum(max(values[j] for j in s) for s in subsets if i in s) for i in range(len(values))]
    ) / len(subsets)


def loo(values, k):
    n = len(values)
    out = []
    for i in range(n):
        others = values[:i] + values[i + 1 :]
        best = np.mean([max(s) for s in itertools.combinations(others, k)])
        out.append(k / n * best)
    return np.array(out)


def loo_minus_one(values, k):
    subsets = list(itertools.combinations(range(len(values)), k))
    return np.array(
        [
            sum(max(values[j] for j in s if j != i) for s in subsets if i in s)
            for i in range(len(values))
        ]
    ) / len(subsets)


GROUPS = [[0.3, 0.1, 0.9, 0.5, 0.2], [1, 0, 0, 1, 0], [0.5, 0.5, 0.1, 0.7, 0.7]]


@pytest.mark.parametrize("k", [2, 3, 4])
def test_pkpo_is_the_average_over_subsets(k):
    x = inputs(GROUPS)
    baselines = {"none": lambda v, k: 0.0, "loo": loo, "loo_minus_one": loo_minus_one}
    for name, baseline in baselines.items():
        expected = [inclusion(v, k) - baseline(v, k) for v in GROUPS]
        np.testing.assert_allclose(run("pkpo", x, k=k, variance_baseline=name), expected, atol=1e-6)


def test_pkpo_without_the_invalid_samples():
    valid_NG = np.array([[1, 1, 0, 1, 1], [0, 1, 1, 1, 0], [1, 0, 0, 0, 1]], bool)
    adv_NG = run("pkpo", inputs(GROUPS, valid_NG), k=3)
    for values, valid, adv in zip(GROUPS, valid_NG, adv_NG, strict=True):
        kept = [v for v, ok in zip(values, valid, strict=True) if ok]
        expected = np.zeros(len(kept))
        if len(kept) >= 3:
            expected = inclusion(kept, 3) - loo_minus_one(kept, 3)
        np.testing.assert_allclose(adv[valid], expected, atol=1e-6)
        assert np.all(adv[~valid] == 0)


def test_pkpo_needs_k_others_for_its_loo_baseline():
    """With k judged samples no k others are left: a baseline of 0 would pay wrong samples too."""
    valid_NG = np.array([[1, 1, 0, 1, 1], [0, 1, 1, 1, 0], [1, 1, 1, 0, 0]], bool)
    adv_NG = run("pkpo", inputs(GROUPS, valid_NG), k=3, variance_baseline="loo")
    kept = [v for v, ok in zip(GROUPS[0], valid_NG[0], strict=True) if ok]
    np.testing.assert_allclose(adv_NG[0][valid_NG[0]], inclusion(kept, 3) - loo(kept, 3), atol=1e-6)
    assert not adv_NG[1:].any()
    with pytest.raises(ValueError, match="more than k = 5 samples"):
        run("pkpo", inputs(GROUPS), k=5, variance_baseline="loo")


def test_pkpo_fades_as_the_prompt_becomes_easy():
    """A right sample is worth at least a wrong one, and the difference falls with c."""
    x = inputs([[1] * c + [0] * (8 - c) for c in range(1, 8)])
    adv_NG = run("pkpo", x, k=4, variance_baseline="none")
    gaps = adv_NG[:, 0] - adv_NG[:, -1]
    assert np.all(gaps >= 0) and np.all(np.diff(gaps) <= 1e-7)


def test_pkpo_gradient_is_unbiased():
    """Bernoulli policy, n = 4, k = 2: E[sum_i s_i score_i] = d/dtheta (1 - (1-p)^k)."""
    p, n, k = 0.3, 4, 2
    true = k * (1 - p) ** (k - 1) * p * (1 - p)
    draws = list(itertools.product([0.0, 1.0], repeat=n))
    x = inputs(draws)
    chance = np.array([np.prod([p if r else 1 - p for r in draw]) for draw in draws])
    for baseline in ("none", "loo", "loo_minus_one"):
        adv_NG = run("pkpo", x, k=k, variance_baseline=baseline)
        score_NG = np.array(draws) - p
        np.testing.assert_allclose(chance @ np.sum(adv_NG * score_NG, 1), true, rtol=1e-5)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_passk_is_the_mean_group_advantage_over_draws(k):
    """A_i averaged over the k-subsets that hold i, each scored by its best sample."""
    for c in range(0, 9):
        reward = [1.0] * c + [0.0] * (8 - c)
        adv = run("passk", inputs([reward]), k=k)[0]
        subsets = list(itertools.combinations(range(8), k))
        best = np.array([max(reward[j] for j in s) for s in subsets])
        sigma = best.std()
        expected = np.zeros(8)
        if sigma > 0:
            scaled = (best - best.mean()) / sigma
            for i in range(8):
                expected[i] = np.mean([a for a, s in zip(scaled, subsets, strict=True) if i in s])
        np.testing.assert_allclose(adv, expected, atol=1e-5)


def test_passk_one_is_grpo():
    x = inputs([[1, 0, 0, 1, 1], [0, 0, 0, 0, 1]])
    np.testing.assert_allclose(run("passk", x, k=1), run("group", x, ddof=0, eps=0.0), rtol=1e-5)


def test_passk_counts_valid_samples_only():
    valid_NG = np.array([[1, 1, 1, 1, 0, 0]], bool)
    adv = run("passk", inputs([[1, 0, 0, 0, 1, 1]], valid_NG), k=2)[0]
    np.testing.assert_allclose(adv, [1.0, -1 / 3, -1 / 3, -1 / 3, 0, 0], atol=1e-6)


def test_ranks_put_invalid_samples_last():
    reward = np.array([[0.5, 0.1, 0.5, 9.0]], F32)
    valid = np.array([[True, True, True, False]])
    assert np.asarray(ranks(reward, valid)).tolist() == [[2, 1, 3, 4]]


@pytest.mark.parametrize(
    "name, fields, reason",
    [
        ("passk", {"k": 0}, "at least 1"),
        ("passk", {"k": 9}, "samples a prompt"),
        ("pkpo", {"k": 1}, "too small"),
        ("pkpo", {"k": 9}, "samples a prompt"),
        ("pkpo", {"variance_baseline": "lo"}, 'did you mean "loo"'),
    ],
)
def test_senseless_settings_are_refused(name, fields, reason):
    with pytest.raises(ValueError, match=reason):
        run(name, inputs(GROUPS), **fields)
