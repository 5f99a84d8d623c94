"""The clipped surrogate and its two ways of bounding negative advantages."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from rlvr_jax.batch import LossInputs, Metrics
from rlvr_jax.losses.base import LOSSES, log_ratio, token_metric, under_mask, weighted_sum


def check_clip(eps_low: float, eps_high: float) -> None:
    """ValueError unless [1 - eps_low, 1 + eps_high] is an interval around 1 above 0."""
    if not (0 <= eps_low <= 1 and eps_high >= 0):
        raise ValueError(
            f"clip bounds must satisfy 0 <= eps_low <= 1 (1 is no bound) and eps_high >= 0; "
            f"they are {eps_low} and {eps_high}"
        )


def clipped_objective(
    ratio: jax.Array, adv: jax.Array, eps_low: float, eps_high: float
) -> jax.Array:
    """min(r A, clip(r, 1 - eps_low, 1 + eps_high) A), to be maximised."""
    free, bound = ratio * adv, jnp.clip(ratio, 1 - eps_low, 1 + eps_high) * adv
    # Not `minimum`, which halves the gradient of a tie: with a bound of 0 that is the first update.
    return jnp.where(free <= bound, free, bound)


def clip_metrics(ratio_BT: jax.Array, x: LossInputs, eps_low: float, eps_high: float) -> Metrics:
    """Shares of tokens whose gradient the clip removes, by side.

    low: ratio under 1 - eps_low and A < 0; high: ratio above 1 + eps_high and A > 0.
    """
    low_BT = (ratio_BT < 1 - eps_low) & (x.adv_BT < 0)
    high_BT = (ratio_BT > 1 + eps_high) & (x.adv_BT > 0)
    return {
        "policy/clip_frac_low": token_metric(low_BT, x.mask_BT),
        "policy/clip_frac_high": token_metric(high_BT, x.mask_BT),
    }


@LOSSES.register("clipped")
@dataclasses.dataclass(frozen=True)
class Clipped:
    """l = -min(r A, clip(r, 1 - eps_low, 1 + eps_high) A), r = pi / pi_old of the token.

    Schulman et al. 2017, arXiv 1707.06347, eq. 7; two bounds: DAPO, arXiv 2503.14476, eq. 10.
    """

    eps_low: float = 0.2
    eps_high: float = 0.2
    level: ClassVar[str] = "token"

    def __post_init__(self):
        check_clip(self.eps_low, self.eps_high)

    def __call__(self, x: LossInputs) -> tuple[jax.Array, Metrics]:
        x = under_mask(x)
        ratio_BT = jnp.exp(log_ratio(x.logp_BT, x.old_logp_BT, x.mask_BT))
        objective_BT = clipped_objective(ratio_BT, x.adv_BT, self.eps_low, self.eps_high)
        return weighted_sum(-objective_BT, x), clip_metrics(
            ratio_BT, x, self.eps_low, self.eps_high
        )


@LOSSES.register("dual_clip")
@dataclasses.dataclass(frozen=True)
class DualClip:
    """The clipped objective, for A < 0 not below c A: max(min(r A, clip(r) A), c A).

    Ye et al., arXiv 1912.09729.  Bounds what one token that the policy has come to like can
    pull down; without it the loss of A < 0 grows with r without limit.
    """

    eps_low: float = 0.2
    eps_high: float = 0.2
    dual: float = 3.0
    level: ClassVar[str] = "token"

    def __post_init__(self):
        check_clip(self.eps_low, self.eps_high)
        if self.dual <= 1:
            raise ValueError(f"dual must be above 1, it is {self.dual}")

    def __call__(self, x: LossInputs) -> tuple[jax.Array, Metrics]:
        x = under_mask(x)
        ratio_BT = jnp.exp(log_ratio(x.logp_BT, x.old_logp_BT, x.mask_BT))
        objective_BT = clipped_objective(ratio_BT, x.adv_BT, self.eps_low, self.eps_high)
        floor_BT = jnp.maximum(objective_BT, self.dual * x.adv_BT)
        objective_BT = jnp.where(x.adv_BT < 0, floor_BT, objective_BT)
        bound_BT = (ratio_BT > self.dual) & (x.adv_BT < 0)
        metrics = clip_metrics(ratio_BT, x, self.eps_low, self.eps_high)
        metrics["policy/dual_clip_frac"] = token_metric(bound_BT, x.mask_BT)
        return weighted_sum(-objective_BT, x), metrics


@LOSSES.register("two_sided")
@dataclasses.dataclass(frozen=True)
class TwoSided:
    """l = -min(min(r, delta) A, clip(r, 1 - eps_low, 1 + eps_high) A).

    INTELLECT-2, arXiv 2505.07291; the paper uses delta 4 and eps 0.2.  The same function as
    `dual_clip` with c = delta; both names are used in the field.
    """

    eps_low: float = 0.2
    eps_high: float = 0.2
    delta: float = 4.0
    level: ClassVar[str] = "token"

    def __post_init__(self):
        check_clip(self.eps_low, self.eps_high)
        if self.delta <= 1 + self.eps_high:
            raise ValueError(f"delta must be above 1 + eps_high, it is {self.delta}")

    def __call__(self, x: LossInputs) -> tuple[jax.Array, Metrics]:
        return DualClip(self.eps_low, self.eps_high, self.delta)(x)
