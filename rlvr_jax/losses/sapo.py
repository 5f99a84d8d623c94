"""The soft gate in place of the clip."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from rlvr_jax.batch import LossInputs, Metrics
from rlvr_jax.losses.base import LOSSES, log_ratio, token_metric, under_mask, weighted_sum


@LOSSES.register("sapo")
@dataclasses.dataclass(frozen=True)
class Sapo:
    """l = -(4 / tau) sigmoid(tau (r - 1)) A, tau = tau_pos for A > 0 and tau_neg otherwise.

    arXiv 2511.20347.  The slope in r is 4 s (1 - s) A with s the sigmoid: 1 at r = 1
    for any tau, fading smoothly on both sides.  At r = 1 the value is 2 A / tau, not A.
    """

    tau_pos: float = 1.0
    tau_neg: float = 1.05
    level: ClassVar[str] = "token"

    def __post_init__(self):
        if self.tau_pos <= 0 or self.tau_neg <= 0:
            raise ValueError(f"temperatures must be positive: {self.tau_pos}, {self.tau_neg}")

    def __call__(self, x: LossInputs) -> tuple[jax.Array, Metrics]:
        x = under_mask(x)
        ratio_BT = jnp.exp(log_ratio(x.logp_BT, x.old_logp_BT, x.mask_BT))
        tau_BT = jnp.where(x.adv_BT > 0, self.tau_pos, self.tau_neg)
        gate_BT = jax.nn.sigmoid(tau_BT * (ratio_BT - 1.0))
        slope_BT = 4.0 * gate_BT * (1.0 - gate_BT)
        metrics = {"policy/gate_mean": token_metric(slope_BT, x.mask_BT)}
        return weighted_sum(-4.0 / tau_BT * gate_BT * x.adv_BT, x), metrics
