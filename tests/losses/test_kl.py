"""Every KL option, by value and by exact expected gradient on a categorical."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr_jax.batch import LossInputs
from rlvr_jax.losses import KL, LOSSES, Objective
from rlvr_jax.losses.base import weighted_sum
from rlvr_jax.losses.kl import estimate


def batch(theta_V, weight_V, old_V, ref_V, adv_V=None):
    """One one-token row for each symbol, weighted with its probability: an exact expectation."""
    logp_BT = jax.nn.log_softmax(theta_V)[:, None]
    zeros_BT = jnp.zeros_like(logp_BT)
    return LossInputs(
        logp_BT=logp_BT,
        old_logp_BT=jnp.log(old_V)[:, None],
        adv_BT=zeros_BT if adv_V is None else adv_V[:, None],
        mask_BT=jnp.ones(logp_BT.shape, bool),
        weight_BT=weight_V[:, None],
        entropy_BT=zeros_BT,
        ref_logp_BT=jnp.log(ref_V)[:, None],
    )


def in_loss(kl, theta, ref, mu=None):
    """Exact expected gradient of the KL term of the loss; samples from mu (default: pi)."""
    old = jax.nn.softmax(theta) if mu is None else mu

    def term(th):  # how Objective adds it: test_objective.test_value_is_the_sum_of_its_parts
        x = batch(th, old, old, ref)
        return kl.coef * weighted_sum(kl.loss_BT(x), x)

    return jax.jit(jax.grad(term))(theta)


def in_reward(estimator, theta, ref):
    """Exact expected gradient of the policy loss with the KL taken off the reward."""
    pi = jax.nn.softmax(theta)
    kl = KL(place="reward", estimator=estimator, coef=1.0)
    x = batch(theta, pi, pi, ref)
    adv_V = -kl.reward_BT(x.logp_BT, x.ref_logp_BT, x.mask_BT)[:, 0]
    loss = LOSSES["policy_gradient"]()
    return jax.jit(jax.grad(lambda th: loss(batch(th, pi, pi, ref, adv_V))[0]))(theta)


def exact(theta, ref):
    def reverse(th):
        return jnp.sum(jax.nn.softmax(th) * (jax.nn.log_softmax(th) - jnp.log(ref)))

    def forward(th):
        return jnp.sum(ref * (jnp.log(ref) - jax.nn.log_softmax(th)))

    return jax.grad(reverse)(theta), jax.grad(forward)(theta)


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    theta, ref = jnp.asarray(rng.normal(size=7)), jax.nn.softmax(jnp.asarray(rng.normal(size=7)))
    mu = jax.nn.softmax(jnp.asarray(rng.normal(size=7)))
    return theta, ref, mu


def kl(estimator, **fields):
    return KL(**({"place": "loss", "estimator": estimator, "coef": 1.0} | fields))


def close(a, b):
    np.testing.assert_allclose(a, b, atol=1e-9)


def test_in_the_loss(case):
    theta, ref, _ = case
    reverse, forward = exact(theta, ref)
    close(in_loss(kl("k1", force=True), theta, ref), 0.0)
    close(in_loss(kl("k2"), theta, ref), reverse)
    close(in_loss(kl("k3"), theta, ref), forward)
    for value in ("k1", "k2", "k3"):
        close(in_loss(kl(value, grad="k2"), theta, ref), reverse)


def test_in_the_reward(case):
    theta, ref, _ = case
    reverse, forward = exact(theta, ref)
    close(in_reward("k1", theta, ref), reverse)
    close(in_reward("k3", theta, ref), reverse - forward)
    assert np.abs(in_reward("k2", theta, ref) - reverse).max() > 0.01


@pytest.mark.parametrize(
    "options",
    [
        {"estimator": "k1"},
        {"estimator": "k3"},
        {"estimator": "k1", "grad": "k2"},
        {"estimator": "k3", "grad": "k2"},
    ],
    ids=str,
)
def test_ratio_correction_is_exact_on_and_off_policy(case, options):
    theta, ref, mu = case
    reverse, _ = exact(theta, ref)
    corrected = kl(**options, ratio_corrected=True)
    close(in_loss(corrected, theta, ref), reverse)
    close(in_loss(corrected, theta, ref, mu), reverse)


def test_without_correction_off_policy_is_biased(case):
    theta, ref, mu = case
    reverse, forward = exact(theta, ref)
    for estimator in ("k2", "k3"):
        grad = in_loss(kl(estimator), theta, ref, mu)
        assert np.abs(grad - reverse).max() > 0.01 and np.abs(grad - forward).max() > 0.01


def test_straight_through_keeps_the_value(case):
    theta, ref, mu = case
    for estimator in ("k1", "k2", "k3"):
        x = batch(theta, mu, mu, ref)
        through = kl(estimator, grad="k2").loss_BT(x)
        close(through, estimate(estimator, x.logp_BT, x.ref_logp_BT, x.mask_BT))


def test_the_binary_example(vectors):
    """Specification A5: pi = (.5, .5), ref = (.8, .2); gradients in the logit of the first."""
    theta, ref, mu = jnp.zeros(2), jnp.array([0.8, 0.2]), jnp.array([0.3, 0.7])
    logit = jnp.array([1.0, 0.0])  # theta of the vectors moves the first logit only

    def first(grad):
        return float(grad @ logit)

    x = batch(theta, jax.nn.softmax(theta), jax.nn.softmax(theta), ref)
    values = [
        float(jnp.mean(estimate(k, x.logp_BT, x.ref_logp_BT, x.mask_BT)))
        for k in ("k1", "k2", "k3")
    ]
    np.testing.assert_allclose(values, vectors["kl.E"], atol=1e-6)
    reverse, forward = exact(theta, ref)
    true = vectors["kl.true_grads"]
    np.testing.assert_allclose([first(reverse), first(forward)], [true["rev"], true["fwd"]], 1e-5)
    for k in ("k1", "k2", "k3"):
        loss_grad = first(in_loss(kl(k, force=k == "k1"), theta, ref))
        reward_grad = first(in_reward(k, theta, ref))
        np.testing.assert_allclose(loss_grad, vectors["kl.grad_in_loss"][k], atol=1e-6)
        np.testing.assert_allclose(reward_grad, vectors["kl.grad_in_reward"][k], atol=1e-6)
    corrected = first(in_loss(kl("k3", ratio_corrected=True), theta, ref, mu))
    np.testing.assert_allclose(corrected, vectors["kl.v32_offpolicy_grad"], atol=1e-6)


@pytest.mark.parametrize("key, pair", [("kl.a", (-1.0, -1.5)), ("kl.b", (-1.5, -1.0))])
def test_values_of_one_token(vectors, key, pair):
    logp, ref = (np.full((1, 1), value) for value in pair)
    mask = np.ones((1, 1), bool)
    values = [estimate(k, logp, ref, mask).item() for k in ("k1", "k2", "k3")]
    np.testing.assert_allclose(values, vectors[key], atol=1e-6)


def test_exact_divergences_match(vectors):
    pi, ref = np.array([0.5, 0.5]), np.array([0.8, 0.2])
    k1 = estimate("k1", np.log(pi)[None], np.log(ref)[None], np.ones((1, 2), bool))
    np.testing.assert_allclose(float(k1[0] @ pi), vectors["kl.exact_rev"], atol=1e-6)
    k1 = estimate("k1", np.log(ref)[None], np.log(pi)[None], np.ones((1, 2), bool))
    np.testing.assert_allclose(float(k1[0] @ ref), vectors["kl.exact_fwd"], atol=1e-6)


def test_k3_is_never_negative_and_finite_far_away():
    logp_BT = jnp.linspace(-60.0, 0.0, 31)[None]
    ref_BT = jnp.full_like(logp_BT, -30.0)
    mask_BT = jnp.ones(logp_BT.shape, bool)
    value, grad = jax.jit(jax.value_and_grad(lambda p: estimate("k3", p, ref_BT, mask_BT).sum()))(
        logp_BT
    )
    assert jnp.isfinite(value) and jnp.all(jnp.isfinite(grad))
    assert jnp.all(estimate("k3", logp_BT, ref_BT, mask_BT) >= 0)


@pytest.mark.parametrize(
    "fields, reason",
    [
        ({"place": "loss", "estimator": "k1", "coef": 0.1}, "exactly 0"),
        ({"place": "loss", "coef": 0.0}, "no effect"),
        ({"place": "none", "coef": 0.1}, "no effect"),
        ({"place": "reward", "coef": 0.1, "grad": "k2"}, "in the loss only"),
        ({"place": "reward", "coef": 0.1, "ratio_corrected": True}, "in the loss only"),
        ({"place": "los", "coef": 0.1}, 'did you mean "loss"'),
        ({"place": "loss", "coef": 0.1, "estimator": "k4"}, "not one of"),
        ({"place": "loss", "coef": -0.1}, "negative"),
        (
            {"place": "loss", "coef": 0.1, "estimator": "k2", "ratio_corrected": True},
            "no divergence",
        ),
    ],
)
def test_senseless_choices_are_refused(fields, reason):
    with pytest.raises(ValueError, match=reason):
        KL(**fields)


def test_all_three_are_reported_whenever_a_reference_is_there(case):
    theta, ref, mu = case
    objective = Objective(loss=LOSSES["clipped"]())
    metrics = objective(batch(theta, mu, mu, ref))[1]
    assert {"policy/kl_ref_k1", "policy/kl_ref_k2", "policy/kl_ref_k3"} <= metrics.keys()
    without = dataclasses.replace(batch(theta, mu, mu, ref), ref_logp_BT=None)
    assert not any("kl_ref" in name for name in objective(without)[1])
    with pytest.raises(ValueError, match="no reference"):
        Objective(loss=LOSSES["clipped"](), kl=kl("k3"))(without)
