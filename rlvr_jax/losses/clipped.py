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
            f"clip bounds must satisfy 0 <= eps_low <= 1 and eps_high >= 0; "
            f"they are {eps_low} and {eps_high}"
        )


def clip_metrics(ratio: jax.Array, x: LossInputs, low: float, high: float) -> Metrics:
    """Shares of tokens whose gradient the clip removes, by side.

    low: ratio under `low` and a negative advantage; high: ratio above `high` and a positive one.
    """
    return {
        "policy/clip_frac_low": token_metric((ratio < low) & (x.adv_BT < 0), x.mask_BT),
        "policy/clip_frac_high": token_metric((ratio > high) & (x.adv_BT > 0), x.mask_BT),
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

    def objective(self, ratio_BT: jax.Array, adv_BT: jax.Array) -> jax.Array:
        """The clipped objective of each token (to be maximised)."""
        bounded_BT = jnp.clip(ratio_BT, 1 - self.eps_low, 1 + self.eps_high)
        return jnp.minimum(ratio_BT * adv_BT, bounded_BT * adv_BT)

    def __call__(self, x: LossInputs) -> tuple[jax.Array, Metrics]:
        x = under_mask(x)
        ratio_BT = jnp.exp(log_ratio(x.logp_BT, x.old_logp_BT, x.mask_BT))
        loss = weighted_sum(-self.objective(ratio_BT, x.adv_BT), x)
        return loss, clip_metrics(ratio_BT, x, 1 - self.eps_low, 1 + self.eps_high)
