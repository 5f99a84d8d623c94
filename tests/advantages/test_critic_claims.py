"""VAPO's parts in miniature: a choice at the first token, its reward a long way off.

The critic is a table over (branch, token); the policy one logit.  arXiv 2503.01491 and 2504.05118:
with lambda 0.95 the reward does not reach the first token; a critic pretrained on returns, targets
under lambda 1, and a lambda that grows with the length each bring the signal back.
"""

import functools
import importlib.util
import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr_jax.advantages import ADVANTAGES
from rlvr_jax.batch import AdvantageInputs, ValueInputs
from rlvr_jax.losses import ValueLoss

LENGTH, SAMPLES = 200, 16


@functools.partial(jax.jit, static_argnums=0)
def signals(gae, reward_B, value_BT):
    mask_BT = jnp.ones(value_BT.shape, bool)
    x = AdvantageInputs(
        reward_NG=reward_B[:, None],
        valid_NG=jnp.ones((reward_B.size, 1), bool),
        mask_BT=mask_BT,
        value_BT=value_BT,
    )
    return gae(x), gae.returns(x)


@jax.jit
def value_gradient(value_BT, return_BT):
    """Of the critic's own loss, summed over tokens."""
    mask_BT = jnp.ones(value_BT.shape, bool)

    def loss(value_BT):
        x = ValueInputs(
            value_BT=value_BT,
            old_value_BT=value_BT,
            return_BT=return_BT,
            mask_BT=mask_BT,
            weight_BT=jnp.ones_like(value_BT),
        )
        return ValueLoss(None)(x)[0]

    return jax.grad(loss)(value_BT)


def train(steps=12, pretrain=0, length=LENGTH, seed=0, **fields):
    """(probability of the good branch, advantage gap at the first token in the first step)."""
    gae, rng = ADVANTAGES.make("gae", **fields), np.random.default_rng(seed)
    start = 0.5 + 0.1 * rng.normal()  # one state before the choice
    table = rng.normal(0.5, 0.1, (2, length))
    table[:, 0] = start
    logit, gap = 0.0, None
    for i in range(pretrain + steps):
        good_B = rng.random(SAMPLES) < 1 / (1 + np.exp(-logit))
        branch_B = good_B.astype(int)
        value_BT = table[branch_B]
        adv_BT, return_BT = map(
            np.asarray, signals(gae, jnp.float32(good_B), jnp.float32(value_BT))
        )
        slope_BT = np.asarray(value_gradient(jnp.float32(value_BT), jnp.float32(return_BT)))
        for b in (0, 1):
            if (branch_B == b).any():
                table[b, 1:] -= 0.3 * slope_BT[branch_B == b, 1:].mean(0)
        table[:, 0] -= 0.3 * slope_BT[:, 0].mean()
        if i < pretrain:
            continue
        if gap is None and good_B.any() and not good_B.all():
            gap = adv_BT[good_B, 0].mean() - adv_BT[~good_B, 0].mean()
        p = 1 / (1 + np.exp(-logit))
        logit += 2.0 * np.mean(adv_BT[:, 0] * (good_B - p))
    return 1 / (1 + np.exp(-logit)), gap


def mean(**fields):
    out = np.array([train(seed=seed, **fields) for seed in range(4)], float)
    return out[:, 0].mean(), out[:, 1].mean()


@pytest.mark.parametrize("length", [10, 100])
def test_the_signal_at_the_first_token_is_lambda_to_the_length(length):
    """Against a critic that says 0 everywhere: 0.95^99 = 0.006."""
    gae = ADVANTAGES.make("gae", lam_policy=0.95, lam_value=1.0)
    adv_BT, return_BT = signals(gae, jnp.ones(1), jnp.zeros((1, length)))
    assert adv_BT[0, 0] == pytest.approx(0.95 ** (length - 1), rel=1e-4)
    assert return_BT[0, 0] == 1


def test_lambda_one_and_a_constant_value_is_reinforce_with_that_baseline():
    reward_B, value_BT = jnp.array([1.0, 0.0, 0.0]), jnp.full((3, 50), 0.3)
    adv_BT, _ = signals(ADVANTAGES.make("gae"), reward_B, value_BT)
    mask_BT = jnp.ones((3, 50), bool)
    x = AdvantageInputs(
        reward_NG=reward_B[:, None], valid_NG=jnp.ones((3, 1), bool), mask_BT=mask_BT
    )
    expected = ADVANTAGES.make("constant", baseline=0.3)(x)
    np.testing.assert_allclose(adv_BT, expected, atol=1e-6)


def test_each_part_of_vapo_brings_the_signal_back():
    plain, plain_gap = mean(lam_policy=0.95, lam_value=0.95)
    decoupled, _ = mean(lam_policy=0.95, lam_value=1.0)
    pretrained, pretrained_gap = mean(lam_policy=0.95, lam_value=1.0, pretrain=20)
    adaptive, adaptive_gap = mean(length_alpha=2.0, lam_value=1.0)
    assert abs(plain_gap) < 0.4 < pretrained_gap
    assert adaptive_gap > plain_gap + 0.2  # lambda is 0.9975 at 200 tokens
    assert plain < decoupled < pretrained
    assert adaptive > plain and pretrained > 0.9


@pytest.fixture(scope="module")
def parts():
    """benchmarks/vapo_parts.py, whose full size takes minutes."""
    path = pathlib.Path(__file__).resolve().parents[2] / "benchmarks" / "vapo_parts.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclass looks itself up there
    spec.loader.exec_module(module)
    return module


def test_the_toy_of_the_ablation_adds_up(parts):
    toy = parts.Toy(chunks=4, tokens=3, knots=3)
    stops_K = toy.stops_at(np.zeros(3))
    np.testing.assert_allclose(stops_K, [0.5, 0.25, 0.125, 0.125])
    logit_K = jnp.array([0.3, -0.2, 1.0])
    logp_BT = parts.logp(toy, logit_K, jnp.arange(4))
    np.testing.assert_allclose(np.exp(logp_BT.sum(1)), toy.stops_at(logit_K), rtol=1e-5)
    assert not np.delete(np.asarray(logp_BT), [2, 5, 8], axis=1).any()
    np.testing.assert_allclose(toy.features_TN.sum(1), 1)
    assert set(parts.ARMS["all three: PPO"][1]) == {"lam_policy", "length_alpha", "lam_value"}


@pytest.mark.slow
def test_without_a_pretrained_value_the_answers_become_shorter(parts):
    """Spec C10: against a critic that says 0 the end alone gets credit, and with it stopping."""
    toy = parts.Toy(chunks=10, tokens=40, tail=0, noise=0.0)
    whole, bare = (
        parts.train(toy, parts.ARMS[name], 20, 4)
        for name in ("nothing: VAPO's parts", "value pretraining")
    )
    assert whole["return"].mean() > bare["return"].mean() + 0.1
    assert whole["length"].mean() > bare["length"].mean() + 40
