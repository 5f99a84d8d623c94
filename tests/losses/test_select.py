"""Choosing tokens: number, order, split, and a hash that looks random."""

import numpy as np

from rlvr_jax.losses.select import covariance, scatter, top

F32 = np.float32


def data(seed=0, rows=20, width=30):
    rng = np.random.default_rng(seed)
    mask_BT = rng.uniform(size=(rows, width)) < 0.8
    return rng, mask_BT, -rng.exponential(1.0, (rows, width)).astype(F32)


def test_top_takes_the_share_it_says():
    rng, mask_BT, score_BT = data()
    for share in (1e-6, 0.1, 0.5, 1.0):
        number = max(1, int(share * mask_BT.sum() + 1e-4))
        chosen_BT = np.asarray(top(score_BT, mask_BT, share, mask_BT))
        assert chosen_BT.sum() == number and not np.any(chosen_BT & ~mask_BT)
        assert score_BT[chosen_BT].min() >= np.sort(score_BT[mask_BT])[::-1][number - 1]


def test_top_with_fewer_candidates_than_wanted_takes_them_all():
    rng, mask_BT, score_BT = data(1)
    few_BT = mask_BT & (rng.uniform(size=mask_BT.shape) < 0.02)
    np.testing.assert_array_equal(top(score_BT, few_BT, 0.9, mask_BT), few_BT)
    assert not np.any(top(score_BT, np.zeros_like(mask_BT), 0.9, mask_BT))


def test_covariance_against_a_loop():
    rng, mask_BT, logp_BT = data(2)
    adv_BT = rng.normal(size=mask_BT.shape).astype(F32)
    cov_BT = np.asarray(covariance(adv_BT, logp_BT, mask_BT))
    a, p = adv_BT[mask_BT].astype(float), logp_BT[mask_BT].astype(float)
    np.testing.assert_allclose(
        cov_BT[mask_BT], (a - a.mean()) * (p - p.mean()), rtol=1e-4, atol=1e-6
    )
    assert np.all(cov_BT[~mask_BT] == 0)
    np.testing.assert_allclose(cov_BT[mask_BT].mean(), np.cov(a, p, ddof=0)[0, 1], rtol=1e-4)


def test_scatter_looks_uniform_and_ignores_rows():
    _, _, logp_BT = data(3, rows=200, width=50)
    u_BT = np.asarray(scatter(logp_BT))
    assert u_BT.min() >= 0 and u_BT.max() < 1
    share = np.histogram(u_BT, bins=10, range=(0, 1))[0] / u_BT.size
    assert np.all(np.abs(share - 0.1) < 0.012)  # 4 standard deviations of 10,000 draws
    assert abs(np.corrcoef(u_BT.ravel(), logp_BT.ravel())[0, 1]) < 0.04
    order = np.random.default_rng(0).permutation(200)
    np.testing.assert_array_equal(scatter(logp_BT[order]), u_BT[order])
    wider = np.pad(logp_BT, ((0, 0), (0, 4)))
    np.testing.assert_array_equal(np.asarray(scatter(wider))[:, :50], u_BT)
