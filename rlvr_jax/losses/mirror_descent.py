"""Regression of the log-ratio on the advantage."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax

from rlvr_jax.batch import LossInputs, Metrics
from rlvr_jax.losses.base import LOSSES, difference, row_metric, under_mask, weighted_sum
from rlvr_jax.masking import masked_sum


@LOSSES.register("mirror_descent")
@dataclasses.dataclass(frozen=True)
class MirrorDescent:
    """l_i = (A_i - tau log pi/pi_old of the whole sequence)^2 / (2 tau), on every token of the row.

    Kimi k1.5, arXiv 2501.12599, sec. 2.3.2, with A = R - tau log Z (advantage "log_mean_exp") or
    R - mean R ("group", std "none").  The paper's square is divided by 2 tau, which is the factor
    it drops from its gradient: A grad log pi - (tau / 2) grad (log pi/pi_old)^2.
    """

    tau: float = 0.5
    level: ClassVar[str] = "bandit"

    def __post_init__(self):
        if self.tau <= 0:
            raise ValueError(f"tau must be positive, it is {self.tau}")

    def __call__(self, x: LossInputs) -> tuple[jax.Array, Metrics]:
        x = under_mask(x)
        log_BT = difference(x.logp_BT, x.old_logp_BT, x.mask_BT)
        log_B1 = masked_sum(log_BT, x.mask_BT, axis=1, keepdims=True)
        residual_BT = x.adv_BT - self.tau * log_B1
        metrics = {"policy/sequence_log_ratio": row_metric(log_B1[:, 0], x.mask_BT)}
        return weighted_sum(residual_BT**2 / (2.0 * self.tau), x), metrics
