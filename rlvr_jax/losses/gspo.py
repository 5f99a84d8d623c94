"""Ratios of whole sequences: GSPO, its token form, and the geometric mean of clipped ratios."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from rlvr_jax.batch import LossInputs, Metrics
from rlvr_jax.losses.base import (
    LOSSES,
    log_ratio,
    row_metric,
    token_metric,
    under_mask,
    weighted_sum,
)
from rlvr_jax.losses.clipped import check_clip, clipped_objective
from rlvr_jax.masking import masked_mean


def sequence_ratio(x: LossInputs) -> jax.Array:
    """s_i = exp(mean over the row's tokens of log pi / pi_old).  [B, 1]; 1 for a masked row."""
    log_BT = log_ratio(x.logp_BT, x.old_logp_BT, x.mask_BT)
    return jnp.exp(masked_mean(log_BT, x.mask_BT, axis=1, keepdims=True))


def _sequence_clip_metrics(s_B1: jax.Array, x: LossInputs, low: float, high: float) -> Metrics:
    """Shares of *sequences* whose gradient the clip removes.  Around 15 % is normal for GSPO."""
    adv_B1 = masked_mean(x.adv_BT, x.mask_BT, axis=1, keepdims=True)
    low_B1, high_B1 = (s_B1 < 1 - low) & (adv_B1 < 0), (s_B1 > 1 + high) & (adv_B1 > 0)
    return {
        "policy/clip_frac_low": row_metric(low_B1[:, 0], x.mask_BT),
        "policy/clip_frac_high": row_metric(high_B1[:, 0], x.mask_BT),
    }


@LOSSES.register("gspo")
@dataclasses.dataclass(frozen=True)
class Gspo:
    """l_i = -min(s_i A_i, clip(s_i, 1 - eps_low, 1 + eps_high) A_i) on every token of the row.

    s_i is the geometric mean of the token ratios.  Zheng et al., arXiv 2507.18071, eq. 5 to 7.
    All tokens of a row have the same gradient weight, s_i A_i / |o_i|.
    """

    eps_low: float = 3e-4
    eps_high: float = 4e-4
    level: ClassVar[str] = "sequence"

    def __post_init__(self):
        check_clip(self.eps_low, self.eps_high)

    def __call__(self, x: LossInputs) -> tuple[jax.Array, Metrics]:
        x = under_mask(x)
        s_B1 = sequence_ratio(x)
        objective_BT = clipped_objective(s_B1, x.adv_BT, self.eps_low, self.eps_high)
        metrics = _sequence_clip_metrics(s_B1, x, self.eps_low, self.eps_high)
        return weighted_sum(-objective_BT, x), metrics


@LOSSES.register("gspo_token")
@dataclasses.dataclass(frozen=True)
class GspoToken:
    """GSPO with s_{i,t} = sg(s_i) pi / sg(pi), so that advantages may differ by token.

    Zheng et al., arXiv 2507.18071, eq. 13 and 14.  With one advantage a row it has the value and
    the gradient of `gspo` (and also pulls at tokens more than e^20 off, where that bounds them).
    """

    eps_low: float = 3e-4
    eps_high: float = 4e-4
    level: ClassVar[str] = "token"

    def __post_init__(self):
        check_clip(self.eps_low, self.eps_high)

    def __call__(self, x: LossInputs) -> tuple[jax.Array, Metrics]:
        x = under_mask(x)
        s_B1 = jax.lax.stop_gradient(sequence_ratio(x))
        s_BT = s_B1 * jnp.exp(x.logp_BT - jax.lax.stop_gradient(x.logp_BT))
        objective_BT = clipped_objective(s_BT, x.adv_BT, self.eps_low, self.eps_high)
        metrics = _sequence_clip_metrics(s_B1, x, self.eps_low, self.eps_high)
        return weighted_sum(-objective_BT, x), metrics


@LOSSES.register("gmpo")
@dataclasses.dataclass(frozen=True)
class Gmpo:
    """l_i = -A_i exp(mean_t z_t), z_t the token's log-ratio clipped on the side A_i pushes to.

    z = min(log r, clip_log) for A > 0 and max(log r, -clip_log) for A < 0.
    Zhao et al., arXiv 2507.20673; the paper uses exp(+-0.4).
    """

    clip_log: float = 0.4
    level: ClassVar[str] = "sequence"

    def __post_init__(self):
        if self.clip_log <= 0:
            raise ValueError(f"clip_log must be positive, it is {self.clip_log}")

    def __call__(self, x: LossInputs) -> tuple[jax.Array, Metrics]:
        x = under_mask(x)
        log_BT = log_ratio(x.logp_BT, x.old_logp_BT, x.mask_BT)
        rising_BT = jnp.minimum(log_BT, self.clip_log)
        falling_BT = jnp.maximum(log_BT, -self.clip_log)
        z_BT = jnp.where(x.adv_BT > 0, rising_BT, falling_BT)
        ratio_B1 = jnp.exp(masked_mean(z_BT, x.mask_BT, axis=1, keepdims=True))
        high_BT = (log_BT > self.clip_log) & (x.adv_BT > 0)
        low_BT = (log_BT < -self.clip_log) & (x.adv_BT < 0)
        metrics = {
            "policy/clip_frac_low": token_metric(low_BT, x.mask_BT),
            "policy/clip_frac_high": token_metric(high_BT, x.mask_BT),
        }
        return weighted_sum(-ratio_B1 * x.adv_BT, x), metrics
