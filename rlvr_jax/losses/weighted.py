"""Policy gradients with a constant weight in front: CISPO, TOPR, VESPO.

l = -sg(weight) A log pi.  No token loses its gradient; how much it counts is decided by the ratio.
The value of such a loss says nothing; its gradient does.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from rlvr_jax.batch import LossInputs, Metrics
from rlvr_jax.losses.base import (
    LOSSES,
    MAX_LOG_RATIO,
    log_ratio,
    row_metric,
    token_metric,
    under_mask,
    weighted_sum,
)
from rlvr_jax.masking import masked_mean, masked_sum


def _log_product(x: LossInputs) -> jax.Array:
    """log of the ratio of the whole sequence, clipped to +-MAX_LOG_RATIO.  [B, 1]."""
    log_BT = log_ratio(x.logp_BT, x.old_logp_BT, x.mask_BT)
    total_B1 = masked_sum(log_BT, x.mask_BT, axis=1, keepdims=True)
    return jnp.clip(total_B1, -MAX_LOG_RATIO, MAX_LOG_RATIO)


@LOSSES.register("cispo")
@dataclasses.dataclass(frozen=True)
class Cispo:
    """l = -sg(clip(r, is_floor, is_cap)) A log pi.  MiniMax-M1, arXiv 2506.13585.

    is_cap bounds the ratio itself: with is_cap 5 a token counts at most five times.  The paper has
    no effective lower bound (is_floor 0) and tunes the cap only.
    """

    is_floor: float = 0.0
    is_cap: float = 5.0
    level: ClassVar[str] = "token"

    def __post_init__(self):
        if not 0 <= self.is_floor <= 1 <= self.is_cap:
            raise ValueError(
                "is_floor and is_cap bound the ratio itself: 0 <= is_floor <= 1 <= is_cap; "
                f"they are {self.is_floor} and {self.is_cap}"
            )

    def __call__(self, x: LossInputs) -> tuple[jax.Array, Metrics]:
        x = under_mask(x)
        ratio_BT = jnp.exp(log_ratio(x.logp_BT, x.old_logp_BT, x.mask_BT))
        ratio_BT = jax.lax.stop_gradient(ratio_BT)
        weight_BT = jnp.clip(ratio_BT, self.is_floor, self.is_cap)
        metrics = {
            "policy/clip_frac_low": token_metric(ratio_BT < self.is_floor, x.mask_BT),
            "policy/clip_frac_high": token_metric(ratio_BT > self.is_cap, x.mask_BT),
        }
        return weighted_sum(-weight_BT * x.adv_BT * x.logp_BT, x), metrics


@LOSSES.register("topr")
@dataclasses.dataclass(frozen=True)
class Topr:
    """l = -A log pi for A > 0;  l = -sg(min(W, 1)) A log pi for A < 0, W the sequence's ratio.

    Le Roux et al., arXiv 2503.14286: off-policy good samples are learned like
    demonstrations, bad ones fade as the policy leaves them, so neither can diverge.
    """

    level: ClassVar[str] = "token"

    def __call__(self, x: LossInputs) -> tuple[jax.Array, Metrics]:
        x = under_mask(x)
        taper_B1 = jax.lax.stop_gradient(jnp.exp(jnp.minimum(_log_product(x), 0.0)))
        weight_BT = jnp.where(x.adv_BT < 0, taper_B1, 1.0)
        negative_B = masked_mean(x.adv_BT, x.mask_BT, axis=1) < 0
        taper_B = jnp.where(negative_B, taper_B1[:, 0], 1.0)
        metrics = {"policy/taper_mean": row_metric(taper_B, x.mask_BT)}
        return weighted_sum(-weight_BT * x.adv_BT * x.logp_BT, x), metrics


@LOSSES.register("vespo")
@dataclasses.dataclass(frozen=True)
class Vespo:
    """l = -sg(W^k e^{lam (1 - W)}) A log pi, W the sequence's ratio.  arXiv 2602.10693.

    (k, lam) is (k_pos, lam_pos) for A > 0 and (k_neg, lam_neg) for A < 0.
    """

    k_pos: float = 2.0
    lam_pos: float = 3.0
    k_neg: float = 3.0
    lam_neg: float = 2.0
    level: ClassVar[str] = "token"

    def __post_init__(self):
        if min(self.k_pos, self.lam_pos, self.k_neg, self.lam_neg) < 0:
            raise ValueError("k_pos, lam_pos, k_neg and lam_neg must not be negative")
        for k, lam in ((self.k_pos, self.lam_pos), (self.k_neg, self.lam_neg)):
            if k > 0 and lam == 0:
                raise ValueError(f"W^k with k = {k} and lam = 0 has no bound; lam must be positive")

    def __call__(self, x: LossInputs) -> tuple[jax.Array, Metrics]:
        x = under_mask(x)
        log_B1 = jax.lax.stop_gradient(_log_product(x))
        k_BT = jnp.where(x.adv_BT > 0, self.k_pos, self.k_neg)
        lam_BT = jnp.where(x.adv_BT > 0, self.lam_pos, self.lam_neg)
        weight_BT = jnp.exp(k_BT * log_B1 + lam_BT * (1.0 - jnp.exp(log_B1)))
        metrics = {"policy/taper_mean": token_metric(weight_BT, x.mask_BT)}
        return weighted_sum(-weight_BT * x.adv_BT * x.logp_BT, x), metrics
