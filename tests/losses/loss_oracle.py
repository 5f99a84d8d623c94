"""Every loss once more, in float64, as loops over compacted sequences, from the papers' formulas.

A token loss gets the log-probs of its sequence twice: `lp`, which is varied, and `fixed`, the same
numbers where the paper has a stop-gradient.
"""

import dataclasses
import math

import numpy as np

from rlvr_jax.batch import LossInputs


def clip(x, low, high):
    return min(max(x, low), high)


def ppo(r, a, low, high):
    return min(r * a, clip(r, 1 - low, 1 + high) * a)


def policy_gradient(f, lp, fixed, old, adv, picked):
    return [-a * p for a, p in zip(adv, lp, strict=True)]


def clipped(f, lp, fixed, old, adv, picked):
    return [
        -ppo(math.exp(p - o), a, f.eps_low, f.eps_high)
        for p, o, a in zip(lp, old, adv, strict=True)
    ]


def dual_clip(f, lp, fixed, old, adv, picked, dual=None):
    dual = f.dual if dual is None else dual
    out = []
    for p, o, a in zip(lp, old, adv, strict=True):
        j = ppo(math.exp(p - o), a, f.eps_low, f.eps_high)
        out.append(-max(j, dual * a) if a < 0 else -j)
    return out


def two_sided(f, lp, fixed, old, adv, picked):
    out = []
    for p, o, a in zip(lp, old, adv, strict=True):
        r = math.exp(p - o)
        out.append(-min(min(r, f.delta) * a, clip(r, 1 - f.eps_low, 1 + f.eps_high) * a))
    return out


def mean_log_ratio(lp, old):
    return sum(p - o for p, o in zip(lp, old, strict=True)) / len(lp)


def gspo(f, lp, fixed, old, adv, picked):
    s = math.exp(mean_log_ratio(lp, old))
    return [-ppo(s, a, f.eps_low, f.eps_high) for a in adv]


def gspo_token(f, lp, fixed, old, adv, picked):
    s = math.exp(mean_log_ratio(fixed, old))
    return [
        -ppo(s * math.exp(p - q), a, f.eps_low, f.eps_high)
        for p, q, a in zip(lp, fixed, adv, strict=True)
    ]


def gmpo(f, lp, fixed, old, adv, picked):
    logs = [p - o for p, o in zip(lp, old, strict=True)]
    if adv[0] > 0:
        logs = [min(z, clip(z, -f.clip_log, f.clip_log)) for z in logs]
    else:
        logs = [max(z, clip(z, -f.clip_log, f.clip_log)) for z in logs]
    return [-a * math.exp(sum(logs) / len(logs)) for a in adv]


def cispo(f, lp, fixed, old, adv, picked):
    return [
        -clip(math.exp(q - o), f.is_floor, f.is_cap) * a * p
        for p, q, o, a in zip(lp, fixed, old, adv, strict=True)
    ]


def topr(f, lp, fixed, old, adv, picked):
    whole = math.exp(sum(q - o for q, o in zip(fixed, old, strict=True)))
    return [-(1.0 if a > 0 else min(whole, 1.0)) * a * p for p, a in zip(lp, adv, strict=True)]


def vespo(f, lp, fixed, old, adv, picked):
    whole = math.exp(sum(q - o for q, o in zip(fixed, old, strict=True)))
    out = []
    for p, a in zip(lp, adv, strict=True):
        k, lam = (f.k_pos, f.lam_pos) if a > 0 else (f.k_neg, f.lam_neg)
        out.append(-(whole**k) * math.exp(lam * (1 - whole)) * a * p)
    return out


def sapo(f, lp, fixed, old, adv, picked):
    out = []
    for p, o, a in zip(lp, old, adv, strict=True):
        tau = f.tau_pos if a > 0 else f.tau_neg
        out.append(-4 / tau * a / (1 + math.exp(-tau * (math.exp(p - o) - 1))))
    return out


def mirror_descent(f, lp, fixed, old, adv, picked):
    whole = sum(p - o for p, o in zip(lp, old, strict=True))
    return [(a - f.tau * whole) ** 2 / (2 * f.tau) for a in adv]


def clip_cov(f, lp, fixed, old, adv, picked):
    plain = clipped(f, lp, fixed, old, adv, picked)
    return [0.0 if chosen else value for value, chosen in zip(plain, picked, strict=True)]


def kl_cov(f, lp, fixed, old, adv, picked):
    return [
        -math.exp(p - o) * a + (f.penalty * abs(p - o) if chosen else 0.0)
        for p, o, a, chosen in zip(lp, old, adv, picked, strict=True)
    ]


ORACLES = {
    function.__name__: function
    for function in (
        policy_gradient,
        clipped,
        dual_clip,
        two_sided,
        gspo,
        gspo_token,
        gmpo,
        cispo,
        topr,
        vespo,
        sapo,
        mirror_descent,
        clip_cov,
        kl_cov,
    )
}


def value(name, loss, x: LossInputs, logp_BT, fixed_BT) -> float:
    """sum_i sum_t weight * token loss, over the unmasked tokens of each row only."""
    total = 0.0
    for row in range(x.mask_BT.shape[0]):
        keep = np.flatnonzero(x.mask_BT[row])
        if not keep.size:
            continue
        columns = (logp_BT, fixed_BT, x.old_logp_BT, x.adv_BT, x.picked_BT)
        losses = ORACLES[name](loss, *[list(a[row, keep]) for a in columns])
        total += sum(w * v for w, v in zip(x.weight_BT[row, keep], losses, strict=True))
    return total


def gradient(name, loss, x: LossInputs, step=1e-6) -> np.ndarray:
    """Central differences of `value` in every unmasked log-prob."""
    grad_BT = np.zeros(x.logp_BT.shape)
    for row, column in zip(*np.nonzero(x.mask_BT), strict=True):
        ends = []
        for sign in (1, -1):
            moved_BT = x.logp_BT.copy()
            moved_BT[row, column] += sign * step
            ends.append(value(name, loss, x, moved_BT, x.logp_BT))
        grad_BT[row, column] = (ends[0] - ends[1]) / (2 * step)
    return grad_BT


def make_inputs(seed, weight_BT=None, rows=5, width=6, spread=0.3) -> LossInputs:
    """Float64 inputs with holes in the masks and one masked row."""
    rng = np.random.default_rng(seed)
    mask_BT = rng.uniform(size=(rows, width)) < 0.7
    mask_BT[0] = False
    mask_BT[1:, 0] = True
    old_BT = -rng.exponential(1.0, (rows, width))
    adv_BT = np.repeat(rng.normal(size=(rows, 1)), width, axis=1)
    length_B1 = np.maximum(mask_BT.sum(1, keepdims=True), 1)
    uniform_BT = np.where(mask_BT, 1.0 / ((rows - 1) * length_B1), 0.0)
    return LossInputs(
        logp_BT=old_BT + spread * rng.normal(size=(rows, width)),
        old_logp_BT=old_BT,
        adv_BT=adv_BT,
        mask_BT=mask_BT,
        weight_BT=uniform_BT if weight_BT is None else weight_BT,
        entropy_BT=rng.uniform(0.1, 2.0, (rows, width)),
        ref_logp_BT=old_BT + 0.2 * rng.normal(size=(rows, width)),
        sampler_logp_BT=old_BT + 0.1 * rng.normal(size=(rows, width)),
        picked_BT=mask_BT & (rng.uniform(size=(rows, width)) < 0.3),
    )


def replace(x, **fields):
    return dataclasses.replace(x, **fields)
