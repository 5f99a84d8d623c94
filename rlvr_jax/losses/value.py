"""The critic's loss."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from rlvr_jax.batch import Metrics, ValueInputs
from rlvr_jax.losses.base import token_metric
from rlvr_jax.masking import masked_sum


@dataclasses.dataclass(frozen=True)
class ValueLoss:
    """l = 1/2 max((V - R)^2, (clip(V, V_old +- eps) - R)^2) under the token weights.

    Schulman et al., arXiv 1506.02438; the clip is that of PPO's published code.  eps None leaves
    it out.  R is the return of the rollout (`Gae.returns`), V_old the value at that time.
    """

    eps: float | None = 0.2

    def __post_init__(self):
        if self.eps is not None and self.eps <= 0:
            raise ValueError(f"value clip eps must be positive or None, it is {self.eps}")

    def __call__(self, x: ValueInputs) -> tuple[jax.Array, Metrics]:
        clean = [
            jnp.where(x.mask_BT, a, 0.0)
            for a in (x.value_BT, x.old_value_BT, x.return_BT, x.weight_BT)
        ]
        value_BT, old_BT, return_BT, weight_BT = clean
        worst_BT, moved_BT = (value_BT - return_BT) ** 2, jnp.zeros_like(x.mask_BT)
        if self.eps is not None:
            near_BT = jnp.clip(value_BT, old_BT - self.eps, old_BT + self.eps)
            near_error_BT = (near_BT - return_BT) ** 2
            moved_BT = near_error_BT > worst_BT
            worst_BT = jnp.maximum(worst_BT, near_error_BT)
        loss = masked_sum(weight_BT * 0.5 * worst_BT, x.mask_BT)
        metrics = {
            "value/loss": (loss, jnp.zeros(())),
            "value/clip_frac": token_metric(moved_BT, x.mask_BT),
            "value/return_mean": token_metric(return_BT, x.mask_BT),
        }
        return loss, metrics
