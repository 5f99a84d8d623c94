"""The worked examples of the specification, through the public functions."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from rlvr_jax.batch import LossInputs, ValueInputs
from rlvr_jax.losses import LOSSES, AdaptiveEntropy, Correction, ValueLoss
from rlvr_jax.losses.select import covariance
from rlvr_jax.masking import token_weights

F32 = np.float32


def inputs(logr, adv, weight=None, mask=None):
    """Rows of log-ratios against log-prob -1; 2-d."""
    logr_BT = np.atleast_2d(np.asarray(logr, F32))
    mask_BT = np.ones(logr_BT.shape, bool) if mask is None else np.asarray(mask, bool)
    adv_BT = np.broadcast_to(np.asarray(adv, F32), logr_BT.shape)
    old_BT = np.full_like(logr_BT, -1.0)
    if weight is None:
        weight = token_weights(mask_BT, "seq_mean_token_mean")
    return LossInputs(
        logp_BT=old_BT + logr_BT,
        old_logp_BT=old_BT,
        adv_BT=adv_BT,
        mask_BT=mask_BT,
        weight_BT=np.broadcast_to(np.asarray(weight, F32), logr_BT.shape),
        entropy_BT=np.ones_like(logr_BT),
    )


@functools.cache
def compiled(loss):
    def value(logp_BT, x):
        return loss(dataclasses.replace(x, logp_BT=logp_BT))

    return jax.jit(jax.value_and_grad(value, has_aux=True))


def run(loss, x):
    (total, metrics), grad_BT = compiled(loss)(x.logp_BT, x)
    return float(total), np.asarray(grad_BT), metrics


def objectives(name, ratios, adv, **fields):
    """Objective of each one-token row."""
    loss = LOSSES.make(name, **fields)
    x = [inputs([[np.log(r)]], a, weight=1.0) for r, a in zip(ratios, adv, strict=True)]
    return [-run(loss, one)[0] for one in x]


def close(a, b, **tolerance):
    np.testing.assert_allclose(a, b, **({"rtol": 1e-5, "atol": 2e-6} | tolerance))


def test_aggregators(vectors):
    mask_BT = np.array([[1, 1, 0, 0], [1, 1, 1, 1]], bool)
    loss_BT = np.array([[-1.0], [1.0]]) * mask_BT
    for key, mode, limit in (
        ("agg.seq_mean_token_mean", "seq_mean_token_mean", None),
        ("agg.token_mean", "token_mean", None),
        ("agg.seq_mean_token_sum", "seq_mean_token_sum", None),
        ("agg.drgrpo_Lmax4", "const", 4),
        ("agg.drgrpo_Lmax8", "const", 8),
    ):
        weight_BT = token_weights(mask_BT, mode, length_limit=limit)
        close(np.sum(weight_BT * loss_BT), vectors[key])


def test_ppo(vectors):
    ratios, adv = [1.5, 1.5, 0.5, 0.5], [1.0, -1.0, 1.0, -1.0]
    close(objectives("clipped", ratios, adv), vectors["ppo.obj"])
    x = inputs(np.log(ratios), [adv])
    total, grad_BT, metrics = run(LOSSES["clipped"](), x)
    close(total, vectors["ppo.loss"])
    close(grad_BT[0], vectors["ppo.grad_logr"])
    clipped = sum(metrics[f"policy/clip_frac_{side}"][0] for side in ("low", "high"))
    assert clipped / 4 == 0.5


def test_dual_and_two_sided_clip(vectors):
    close(objectives("dual_clip", [5.0], [-1.0]), vectors["dual.obj_r5_Aneg1"])
    close(objectives("dual_clip", [2.0], [-1.0]), vectors["dual.obj_r2_Aneg1"])
    _, grad_BT, _ = run(LOSSES["dual_clip"](), inputs(np.log([[5.0]]), -1.0))
    close(grad_BT, [vectors["dual.grad"]])
    close(objectives("two_sided", [5.0, 5.0, 2.0], [-1.0, 1.0, -1.0]), vectors["twosided"])


def test_clip_higher(vectors):
    wide = objectives("clipped", [1.25], [1.0], eps_high=0.28)
    close([wide, objectives("clipped", [1.25], [1.0])], vectors["cliphigher"])


def test_gspo(vectors):
    logr = [0.1, -0.05, 0.1, 0.05]
    close(-run(LOSSES["gspo"](), inputs(logr, 1.0))[0], vectors["gspo.obj_pos"])
    close(-run(LOSSES["gspo"](), inputs(logr, -1.0))[0], vectors["gspo.obj_neg"])
    close(-run(LOSSES["gspo"](eps_high=9.0), inputs(logr, 1.0))[0], vectors["gspo.s"])
    whole = Correction(level="sequence", high=9.0)
    x = dataclasses.replace(inputs(logr, 1.0), sampler_logp_BT=np.full((1, 4), -1.0, F32))
    x = dataclasses.replace(x, old_logp_BT=x.logp_BT)
    close(whole(x)[0], np.full((1, 4), vectors["gspo.prod"]))


def test_gspo_gradients(vectors):
    logr = [2e-4, -1e-4, 3e-4, 0.0]
    for name, key in (("gspo", "gspo.grad_seq"), ("gspo_token", "gspo.grad_tok")):
        value, grad_BT, _ = run(LOSSES[name](), inputs(logr, 1.0))
        close(-grad_BT[0], vectors[key])
        close(-value, vectors["gspo.s2"])


def test_gmpo(vectors):
    logr = [0.5, -0.1, 0.1, -0.5]
    rising = -run(LOSSES["gmpo"](), inputs(logr, 1.0))[0]
    falling = run(LOSSES["gmpo"](), inputs(logr, -1.0))[0]
    close([rising, falling], vectors["gmpo.ratio_pos_neg"])


def test_cispo(vectors):
    x = dataclasses.replace(inputs([[0.5]], 2.0), logp_BT=np.full((1, 1), -0.5, F32))
    value, grad_BT, metrics = run(LOSSES["cispo"](is_cap=1.28), x)
    close([value, grad_BT[0, 0]], vectors["cispo"][:2])
    assert metrics["policy/clip_frac_high"][0] == 1
    assert run(LOSSES["clipped"](eps_high=0.28), x)[1] == 0
    free = run(LOSSES["cispo"](is_cap=9.0), x)[1]
    close(free, -2.0 * vectors["cispo"][2])


def test_sapo(vectors):
    expected = vectors["sapo"]
    for ratio, adv, key in ((1.0, 1.0, "1,1"), (1.5, 1.0, "1.5,1"), (0.5, -1.0, ".5,1.05")):
        value, grad_BT, _ = run(LOSSES["sapo"](), inputs([[np.log(ratio)]], adv))
        close(-value * adv, expected[f"f({key})"])
        if f"f'({key})" in expected:
            close(-grad_BT * adv / ratio, [[expected[f"f'({key})"]]])
    _, grad_BT, _ = run(LOSSES["sapo"](), inputs([[0.0]], -1.0))
    close(grad_BT, [[expected["f'(1,1.05)"]]])


def test_kimi(vectors):
    x = inputs([[0.15, 0.05], [-0.1, 0.0]], [[0.5], [-0.5]])
    value, grad_BT, _ = run(LOSSES["mirror_descent"](tau=0.5), x)
    close(value * 2 * 0.5, vectors["kimi.loss"])  # the loss is the paper's over 2 tau
    close(-grad_BT[:, 0], vectors["kimi.coef"])
    close(grad_BT[:, 0], grad_BT[:, 1])


def test_corrections(vectors):
    x = inputs(np.log([1.0, 2.0, 4.0]), 1.0)
    x = dataclasses.replace(x, sampler_logp_BT=x.old_logp_BT, old_logp_BT=x.logp_BT)
    expected = vectors["tis"]
    rows = {
        "tok": Correction(level="token", action="clip", high=2.0),
        "mis": Correction(level="token", action="mask", low=0.5, high=2.0),
        "seq_prod": Correction(level="sequence", action="clip", high=100.0),
        "seq_tis": Correction(level="sequence", action="clip", high=2.0),
        "geo": Correction(level="geometric", action="clip", high=100.0),
    }
    for key, correction in rows.items():
        close(correction(x)[0][0], np.broadcast_to(expected[key], 3))
    masked = Correction(level="sequence", action="mask", low=0.5, high=2.0)
    close(masked(x)[0], np.zeros((1, 3)))
    rejected = Correction(level="geometric", action="reject", low=1.5, high=2.5)
    close(rejected(x)[0], np.ones((1, 3)))


def test_covariance(vectors):
    x = inputs(np.zeros(4), [1.0, 0.0, 0.0, -1.0])
    x = dataclasses.replace(x, old_logp_BT=np.array([[-0.1, -1.0, -1.0, -2.1]], F32))
    cov_BT = covariance(x.adv_BT, x.old_logp_BT, x.mask_BT)
    close(cov_BT[0], vectors["cov"])
    close(cov_BT.mean(), vectors["cov.mean"])
    last = [[False, False, False, True]]
    assert LOSSES["kl_cov"](share=0.25).pick(x).tolist() == last
    assert LOSSES["clip_cov"](share=1.0).pick(x).tolist() == last


def test_value_clip(vectors):
    one = np.ones((1, 1), F32)
    x = ValueInputs(
        value_BT=0.6 * one,
        old_value_BT=0.2 * one,
        return_BT=one,
        mask_BT=one > 0,
        weight_BT=one,
    )
    close(ValueLoss(eps=0.2)(x)[0], vectors["vclip"])
    close(ValueLoss(eps=None)(x)[0], 0.5 * 0.4**2)


def test_entropy_of_one_step_is_the_covariance(vectors):
    """dH / eta = -Cov_pi(log pi, pi A), with our covariance under weights pi as counts."""
    pi = np.array([0.7, 0.2, 0.1])
    counts = np.repeat(np.arange(3), (pi * 10).round().astype(int))
    adv = np.array([1.0, 0.0, -1.0])
    centred = pi * (adv - pi @ adv)
    x_BT, a_BT = np.log(pi)[counts][None], centred[counts][None]
    cov_BT = covariance(a_BT.astype(F32), x_BT.astype(F32), np.ones((1, 10), bool))
    for key in ("-Cov(logpi,pi*A)", "dH/eta"):
        close(-np.mean(cov_BT), vectors["entropy.identity"][key], atol=1e-4)


def test_adaptive_entropy_example():
    """Specification A7: H = .5, .19, .15, .25 -> c = 0 (off), 1e-4, 2e-4, 1e-4 (off)."""
    control = AdaptiveEntropy(target=0.2, step=1e-4, low=0.0, high=0.005)
    state, states, used = F32(0.0), [], []
    for entropy in (0.5, 0.19, 0.15, 0.25):
        state, coef = control(state, F32(entropy))
        states.append(float(state))
        used.append(float(coef))
    np.testing.assert_allclose(states, [0.0, 1e-4, 2e-4, 1e-4], atol=1e-8)
    np.testing.assert_allclose(used, [0.0, 1e-4, 2e-4, 0.0], atol=1e-8)


@pytest.mark.parametrize("b, expected", [(0.5, -0.25), (0.0, 1.0)])
def test_reinforce_example(b, expected):
    """Specification A1.1: R = [1, 0], sums of log-probs [-2, -3]."""
    x = inputs(np.zeros((2, 1)), np.array([[1.0 - b], [0.0 - b]]))
    x = dataclasses.replace(x, logp_BT=np.array([[-2.0], [-3.0]], F32))
    value, grad_BT, _ = run(LOSSES["policy_gradient"](), x)
    close(value, expected)
    close(grad_BT[:, 0], -np.array([1.0 - b, -b]) / 2)
