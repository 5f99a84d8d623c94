"""Adaptive coefficients."""

import numpy as np
import pytest

from rlvr_jax.losses import AdaptiveEntropy, AdaptiveKL


@pytest.mark.parametrize(
    "kl, factor",
    [(6.0, 1.0), (6.6, 1.0 + 0.1 * 0.01), (60.0, 1.0 + 0.2 * 0.01), (0.0, 1.0 - 0.2 * 0.01)],
)
def test_kl_coefficient_moves_toward_the_target(kl, factor):
    control = AdaptiveKL(target=6.0, horizon=10_000)
    np.testing.assert_allclose(float(control(0.5, kl, 100)), 0.5 * factor, rtol=1e-6)


def test_kl_coefficient_finds_the_balance():
    """A toy in which the divergence is 1 / beta: the fixed point is beta = 1 / target."""
    control, beta = AdaptiveKL(target=0.5, horizon=100.0), np.float32(0.2)
    for _ in range(300):
        beta = control(beta, 1.0 / beta, 16)
    np.testing.assert_allclose(float(beta), 2.0, rtol=0.02)


def test_entropy_coefficient_stays_in_its_bounds():
    control = AdaptiveEntropy(target=1.0, step=0.01, low=0.0, high=0.03)
    state = np.float32(0.0)
    for _ in range(10):
        state, used = control(state, np.float32(0.5))
    np.testing.assert_allclose([float(state), float(used)], 0.03, rtol=1e-6)
    for _ in range(10):
        state, used = control(state, np.float32(2.0))
    assert float(state) == 0.0 and float(used) == 0.0


@pytest.mark.parametrize(
    "make",
    [
        lambda: AdaptiveKL(target=0.0),
        lambda: AdaptiveKL(horizon=-1.0),
        lambda: AdaptiveEntropy(target=0.0),
        lambda: AdaptiveEntropy(step=0.0),
        lambda: AdaptiveEntropy(low=1.0, high=0.5),
    ],
)
def test_senseless_settings_are_refused(make):
    with pytest.raises(ValueError):
        make()
