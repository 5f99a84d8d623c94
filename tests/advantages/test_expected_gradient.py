"""What the estimators optimise: exact expectations over a one-parameter Bernoulli policy.

score_i = r_i - p and dp/dtheta = p (1 - p), so every expected gradient is a sum over 2^G draws
(grouped by their number of right answers).
"""

from math import comb

import jax
import numpy as np
import pytest

from rlvr_jax.advantages import ADVANTAGES
from rlvr_jax.batch import AdvantageInputs

G = 8
RATES = (0.05, 0.125, 0.25, 0.5)


def expected_gradient(name, rate, **fields):
    """E[(1 / G) sum_i A_i score_i], one group for each number of right answers."""
    reward_NG = (np.arange(G) < np.arange(G + 1)[:, None]).astype(np.float32)
    estimator = ADVANTAGES.make(name, **fields)
    values = []
    for row in reward_NG:  # one prompt at a time: some estimators look across the batch
        x = AdvantageInputs(
            reward_NG=row[None],
            valid_NG=np.ones((1, G), bool),
            mask_BT=np.ones((G, 1), bool),
            correct_NG=row[None] > 0,
        )
        values.append(np.asarray(jitted(estimator)(x))[:, 0])
    chance = np.array([comb(G, c) * rate**c * (1 - rate) ** (G - c) for c in range(G + 1)])
    return float(chance @ np.mean(np.array(values) * (reward_NG - rate), axis=1))


_JITTED = {}


def jitted(estimator):
    if estimator not in _JITTED:
        _JITTED[estimator] = jax.jit(lambda x: estimator(x))
    return _JITTED[estimator]


@pytest.mark.parametrize(
    "rate, expected", list(zip(RATES, (0.1175, 0.2477, 0.3799, 0.4639), strict=True))
)
def test_grpo_divides_by_the_deviation(rate, expected):
    """Specification 0.4: the expected group deviation, far above p (1 - p) for rare successes."""
    assert expected_gradient("group", rate, ddof=0, eps=0.0) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    "rate, expected", list(zip(RATES, (0.0416, 0.0957, 0.1641, 0.2188), strict=True))
)
def test_a_mean_that_includes_the_sample_only_rescales(rate, expected):
    """Dr. GRPO: exactly (G - 1) / G of the true gradient p (1 - p)."""
    value = expected_gradient("group", rate, std="none")
    assert value == pytest.approx(expected, abs=1e-4)
    assert value == pytest.approx((G - 1) / G * rate * (1 - rate), rel=1e-4)


@pytest.mark.parametrize("rate", RATES)
def test_leave_one_out_is_unbiased(rate):
    assert expected_gradient("rloo", rate) == pytest.approx(rate * (1 - rate), rel=1e-4)
    constant = expected_gradient("constant", rate, baseline=0.7)
    assert constant == pytest.approx(rate * (1 - rate), rel=1e-4)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("k", [2, 4])
def test_pkpo_climbs_pass_at_k(rate, k):
    """d/dtheta (1 - (1 - p)^k), times 1 / G for the mean over samples."""
    true = k * (1 - rate) ** (k - 1) * rate * (1 - rate) / G
    for baseline in ("none", "loo", "loo_minus_one"):
        value = expected_gradient("pkpo", rate, k=k, variance_baseline=baseline)
        assert value == pytest.approx(true, rel=1e-4)


def test_passk_advantages_prefer_rare_successes():
    """Relative to GRPO, the weight moves from middling to rare successes."""
    ratio = [
        expected_gradient("passk", rate, k=4) / expected_gradient("passk", rate, k=1)
        for rate in RATES
    ]
    assert ratio == sorted(ratio, reverse=True)
