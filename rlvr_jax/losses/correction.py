"""Weights for a sampler whose policy is not quite the trainer's.

w_t = pi_old / pi_sampler of a token.  Even at equal weights the two differ: another kernel, bf16
sums in another order, a cache.  The weight multiplies the token loss after its clip and before the
KL term is added, and it is never differentiated.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from rlvr_jax.batch import LossInputs, Metrics
from rlvr_jax.losses.base import MAX_LOG_RATIO, log_ratio, max_metric, token_metric
from rlvr_jax.losses.kl import one_of
from rlvr_jax.masking import masked_mean, masked_sum

LEVELS = ("none", "token", "sequence", "geometric")
ACTIONS = ("clip", "mask", "reject")


@dataclasses.dataclass(frozen=True)
class Correction:
    """Importance weights between the sampler and the proximal policy.

    level: "token" w_t; "sequence" the product over the row; "geometric" its |o|-th root.
    action: "clip" bounds the weight to [low, high] (truncated importance sampling);
        "mask" keeps it inside and sets it to 0 outside (masked IS, IcePop, arXiv 2510.18855);
        "reject" is 1 inside and 0 outside: a filter without a weight.
    Rejected tokens stay in the denominator of the loss.

    Token TIS: token, clip, high 2.  IcePop: token, mask, 0.5 to 5.  Decoupled PPO
    (arXiv 2110.00641): token, clip, high inf.  Geo-RS: geometric, reject, 0.999 to 1.001.

    max_negative_drift: when set, a row with a negative advantage is dropped once its mean
    log pi_sampler / pi exceeds it (DeepSeek-V3.2, arXiv 2512.02556: off-policy sequence mask).
    """

    level: str = "none"
    action: str = "clip"
    low: float = 0.0
    high: float = 2.0
    max_negative_drift: float | None = None

    def __post_init__(self):
        one_of("correction.level", self.level, LEVELS)
        one_of("correction.action", self.action, ACTIONS)
        if not 0 <= self.low < self.high:
            raise ValueError(
                f"correction bounds must satisfy 0 <= low < high, they are {self.low}, {self.high}"
            )
        if self.max_negative_drift is not None and self.max_negative_drift <= 0:
            raise ValueError(f"max_negative_drift must be positive, is {self.max_negative_drift}")

    @property
    def by_token(self) -> bool:
        """The weights differ between the tokens of one row."""
        return self.level == "token"

    def raw_BT(self, x: LossInputs) -> jax.Array:
        """The weight before any bound, at the chosen level (token when there is none)."""
        log_w_BT = log_ratio(x.old_logp_BT, x.sampler_logp_BT, x.mask_BT)
        if self.level == "sequence":
            log_w_BT = masked_sum(log_w_BT, x.mask_BT, axis=1, keepdims=True)
        elif self.level == "geometric":
            log_w_BT = masked_mean(log_w_BT, x.mask_BT, axis=1, keepdims=True)
        w_BT = jnp.exp(jnp.clip(log_w_BT, -MAX_LOG_RATIO, MAX_LOG_RATIO))
        return jnp.where(x.mask_BT, w_BT, 0.0)

    def __call__(self, x: LossInputs) -> tuple[jax.Array, Metrics]:
        """(weight_BT, metrics); needs the sampler's log-probs unless nothing is to be done."""
        ones_BT = jnp.ones_like(x.old_logp_BT)
        if x.sampler_logp_BT is None:
            if self.level != "none":
                raise ValueError(
                    f'correction.level "{self.level}" needs the sampler\'s log-probs, none given'
                )
            return self._drift_BT(x, ones_BT), {}
        raw_BT = self.raw_BT(x)
        inside_BT = (raw_BT >= self.low) & (raw_BT <= self.high)
        w_BT = {
            "clip": jnp.clip(raw_BT, self.low, self.high),
            "mask": jnp.where(inside_BT, raw_BT, 0.0),
            "reject": jnp.where(inside_BT, 1.0, 0.0),
        }[self.action]
        if self.level == "none":
            w_BT, inside_BT = ones_BT, ones_BT > 0
        w_BT = jax.lax.stop_gradient(self._drift_BT(x, w_BT))
        return w_BT, _metrics(x, raw_BT, w_BT, inside_BT)

    def _drift_BT(self, x: LossInputs, w_BT: jax.Array) -> jax.Array:
        if self.max_negative_drift is None:
            return w_BT
        base_BT = x.old_logp_BT if x.sampler_logp_BT is None else x.sampler_logp_BT
        drift_BT = log_ratio(base_BT, jax.lax.stop_gradient(x.logp_BT), x.mask_BT)
        drift_B1 = masked_mean(drift_BT, x.mask_BT, axis=1, keepdims=True)
        negative_B1 = masked_sum(x.adv_BT, x.mask_BT, axis=1, keepdims=True) < 0
        return jnp.where(negative_B1 & (drift_B1 > self.max_negative_drift), 0.0, w_BT)


def _metrics(x: LossInputs, raw_BT, w_BT, inside_BT) -> Metrics:
    d_BT = log_ratio(x.old_logp_BT, x.sampler_logp_BT, x.mask_BT)
    size_BT, mask_BT = jnp.abs(d_BT), x.mask_BT
    return {
        "mismatch/kl_k1": token_metric(-d_BT, mask_BT),
        "mismatch/kl_k3": token_metric(jnp.expm1(d_BT) - d_BT, mask_BT),
        "mismatch/abs_mean": token_metric(size_BT, mask_BT),
        "mismatch/abs_max": max_metric(size_BT, mask_BT),
        "mismatch/prob_mult_error": token_metric(jnp.exp(size_BT), mask_BT),
        "mismatch/raw_is_mean": token_metric(raw_BT, mask_BT),
        "mismatch/raw_is_sq_mean": token_metric(raw_BT**2, mask_BT),
        "mismatch/raw_is_max": max_metric(raw_BT, mask_BT),
        "mismatch/is_mean": token_metric(w_BT, mask_BT),
        "mismatch/is_sq_mean": token_metric(w_BT**2, mask_BT),
        "mismatch/is_max": max_metric(w_BT, mask_BT),
        "mismatch/is_clip_frac": token_metric(~inside_BT, mask_BT),
        "mismatch/masked_frac": token_metric(w_BT == 0, mask_BT),
    }
