"""Holding the entropy by the few tokens that move it most: Clip-Cov and KL-Cov."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from rlvr_jax.batch import LossInputs, Metrics
from rlvr_jax.losses.base import LOSSES, log_ratio, token_metric, under_mask, weighted_sum
from rlvr_jax.losses.clipped import check_clip, clip_metrics, clipped_objective
from rlvr_jax.losses.select import covariance, scatter, top


def _picked(x: LossInputs, who: str) -> jax.Array:
    if x.picked_BT is None:
        raise ValueError(f"{who} needs picked_BT: call Objective.prepare on the whole minibatch")
    return x.picked_BT & x.mask_BT


@LOSSES.register("clip_cov")
@dataclasses.dataclass(frozen=True)
class ClipCov:
    """The clipped surrogate without the loss of a few tokens of high covariance.

    arXiv 2505.22617: of the tokens with cov_low < Cov < cov_high, a random
    `share` of all tokens (at least one) is taken out.
    Departures: (1) Cov uses pi_old instead of pi, see `select`; (2) "random" is a hash of the
    log-prob; (3) tokens the clip removes anyway may be among those chosen.
    """

    eps_low: float = 0.2
    eps_high: float = 0.2
    share: float = 2e-4
    cov_low: float = 1.0
    cov_high: float = 5.0
    level: ClassVar[str] = "token"

    def __post_init__(self):
        check_clip(self.eps_low, self.eps_high)
        if not (0 < self.share <= 1 and self.cov_low < self.cov_high):
            raise ValueError(
                f"0 < share <= 1 and cov_low < cov_high must hold; they are {self.share}, "
                f"{self.cov_low}, {self.cov_high}"
            )

    def pick(self, x: LossInputs) -> jax.Array:
        """bool [B, T]: the tokens to take out, from the whole minibatch."""
        cov_BT = covariance(x.adv_BT, x.old_logp_BT, x.mask_BT)
        window_BT = (cov_BT > self.cov_low) & (cov_BT < self.cov_high) & x.mask_BT
        return top(scatter(x.old_logp_BT), window_BT, self.share, x.mask_BT)

    def __call__(self, x: LossInputs) -> tuple[jax.Array, Metrics]:
        x = under_mask(x)
        picked_BT = _picked(x, "clip_cov")
        ratio_BT = jnp.exp(log_ratio(x.logp_BT, x.old_logp_BT, x.mask_BT))
        objective_BT = clipped_objective(ratio_BT, x.adv_BT, self.eps_low, self.eps_high)
        metrics = clip_metrics(ratio_BT, x, self.eps_low, self.eps_high)
        metrics["policy/picked_frac"] = token_metric(picked_BT, x.mask_BT)
        return weighted_sum(jnp.where(picked_BT, 0.0, -objective_BT), x), metrics


@LOSSES.register("kl_cov")
@dataclasses.dataclass(frozen=True)
class KLCov:
    """l = -r A, plus penalty |log pi - log pi_old| on the `share` of tokens with the highest Cov.

    arXiv 2505.22617.  Departures: (1) Cov uses pi_old instead of pi, see `select`;
    (2) a token with Cov <= 0 is never chosen.
    """

    share: float = 2e-4
    penalty: float = 1.0
    level: ClassVar[str] = "token"

    def __post_init__(self):
        if not (0 < self.share <= 1 and self.penalty >= 0):
            raise ValueError(
                f"0 < share <= 1 and penalty >= 0 must hold; they are {self.share}, {self.penalty}"
            )

    def pick(self, x: LossInputs) -> jax.Array:
        """bool [B, T]: the tokens to hold back, from the whole minibatch."""
        cov_BT = covariance(x.adv_BT, x.old_logp_BT, x.mask_BT)
        return top(cov_BT, (cov_BT > 0) & x.mask_BT, self.share, x.mask_BT)

    def __call__(self, x: LossInputs) -> tuple[jax.Array, Metrics]:
        x = under_mask(x)
        picked_BT = _picked(x, "kl_cov")
        log_BT = log_ratio(x.logp_BT, x.old_logp_BT, x.mask_BT)
        # |x| written so that its slope at 0 is 0: the first update feels no pull
        size_BT = log_BT * jax.lax.stop_gradient(jnp.sign(log_BT))
        pull_BT = jnp.where(picked_BT, self.penalty * size_BT, 0.0)
        metrics = {"policy/picked_frac": token_metric(picked_BT, x.mask_BT)}
        return weighted_sum(-jnp.exp(log_BT) * x.adv_BT + pull_BT, x), metrics
