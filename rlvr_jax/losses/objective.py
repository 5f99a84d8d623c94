"""The whole objective: one policy loss and the terms that any of them can be combined with."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from rlvr_jax.batch import LossInputs, Metrics, pytree
from rlvr_jax.losses.base import Loss, log_ratio, max_metric, token_metric, under_mask, weighted_sum
from rlvr_jax.losses.correction import Correction
from rlvr_jax.losses.kl import KL, kl_metrics
from rlvr_jax.losses.select import top
from rlvr_jax.masking import masked_sum


@pytree
class Coefs:
    """Coefficients that a controller moves between steps (losses/control.py); f32 scalars."""

    kl: jax.Array | float
    entropy: jax.Array | float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Objective:
    """L = loss(w A) + beta KL(pi || ref) - c H(pi) + mu NLL(accepted answers).

    loss: an entry of LOSSES.
    correction: weight w of the policy-loss term, after the loss's own clip.
    entropy_coef: c; the bonus is the weighted mean of the entropy over the whole vocabulary.
    nll_coef: mu; -log pi of accepted answers over their tokens (VAPO, arXiv 2504.05118).
    positive_scale, negative_scale: factors on tokens with A > 0 and A < 0.  (1, 0) learns from good
        samples only, (0, 1) from bad ones only, (0.1, 1) is W-REINFORCE (arXiv 2506.01347).
    top_entropy: share of tokens, those of highest entropy, that carry the policy gradient
        (arXiv 2506.01939: 0.2); the others stay in the denominator.

    `prepare` goes once over the whole minibatch, before it is split.
    Calling it gives the sum over this micro-batch's tokens and the metrics; sums of micro-batches
    add up to the minibatch.  Metric `policy/loss` is a total, the rest are means or maxima.
    """

    loss: Loss
    kl: KL = KL()
    correction: Correction = Correction()
    entropy_coef: float = 0.0
    nll_coef: float = 0.0
    positive_scale: float = 1.0
    negative_scale: float = 1.0
    top_entropy: float = 1.0

    def __post_init__(self):
        for name in ("nll_coef", "positive_scale", "negative_scale"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, it is {getattr(self, name)}")
        if self.positive_scale == self.negative_scale == 0:
            raise ValueError("positive_scale and negative_scale are both 0: nothing to learn from")
        if not 0 < self.top_entropy <= 1:
            raise ValueError(f"top_entropy is a share in (0, 1], it is {self.top_entropy}")
        if self.loss.level != "token" and self.top_entropy < 1:
            raise ValueError(
                f"{type(self.loss).__name__} has one ratio a sequence; top_entropy picks tokens"
            )
        if self.loss.level != "token" and self.correction.by_token:
            raise ValueError(
                f"{type(self.loss).__name__} has one ratio a sequence; a correction that differs "
                'by token breaks it apart (use correction.level "sequence" or "geometric")'
            )

    @property
    def needs_reference(self) -> bool:
        """The objective cannot be evaluated without reference log-probs."""
        return self.kl.place != "none"

    def prepare(self, x: LossInputs) -> LossInputs:
        """`x`, the whole minibatch, with the fields filled in that depend on all of it.

        Reads old_logp_BT, adv_BT, and for top_entropy the entropies of the old policy in
        entropy_BT.  Nothing happens for objectives without such a choice.
        """
        if hasattr(self.loss, "pick"):
            x = dataclasses.replace(x, picked_BT=self.loss.pick(under_mask(x)))
        if self.top_entropy < 1:
            keep_BT = top(x.entropy_BT, x.mask_BT, self.top_entropy, x.mask_BT)
            x = dataclasses.replace(x, keep_BT=keep_BT)
        return x

    def _token_factor(self, x: LossInputs) -> jax.Array:
        factor_BT = jnp.where(x.adv_BT > 0, self.positive_scale, 1.0)
        factor_BT = jnp.where(x.adv_BT < 0, self.negative_scale, factor_BT)
        if self.top_entropy == 1:
            return factor_BT
        if x.keep_BT is None:
            raise ValueError("top_entropy needs keep_BT: call prepare on the whole minibatch")
        return jnp.where(x.keep_BT, factor_BT, 0.0)

    def __call__(self, x: LossInputs, coefs: Coefs | None = None) -> tuple[jax.Array, Metrics]:
        x = under_mask(x)
        if coefs is None:
            coefs = Coefs(kl=self.kl.coef, entropy=self.entropy_coef)
        w_BT, metrics = self.correction(x)
        weight_BT = x.weight_BT * w_BT * self._token_factor(x)
        policy, own = self.loss(dataclasses.replace(x, weight_BT=weight_BT))
        total = policy
        if self.kl.place == "loss":
            total = total + coefs.kl * weighted_sum(self.kl.loss_BT(x), x)
        if not _is_zero(coefs.entropy):
            total = total - coefs.entropy * weighted_sum(x.entropy_BT, x)
        if self.nll_coef:
            total = total + self.nll_coef * _nll(x)
        metrics |= own | _common_metrics(x)
        metrics["policy/loss"] = (policy, jnp.zeros(()))
        return total, metrics


def _is_zero(coef) -> bool:
    """A constant 0 is left out of the program, so that its backward pass costs nothing."""
    return isinstance(coef, float | int) and coef == 0


def _nll(x: LossInputs) -> jax.Array:
    if x.nll_weight_BT is None:
        raise ValueError("nll_coef is set but nll_weight_BT was not given (masking.nll_weights)")
    return masked_sum(-x.nll_weight_BT * x.logp_BT, x.mask_BT)


def _common_metrics(x: LossInputs) -> Metrics:
    x = jax.lax.stop_gradient(x)
    d_BT = log_ratio(x.logp_BT, x.old_logp_BT, x.mask_BT)
    metrics = {
        "policy/approx_kl": token_metric(jnp.expm1(d_BT) - d_BT, x.mask_BT),
        "policy/ratio_max": max_metric(jnp.exp(d_BT), x.mask_BT),
        "policy/entropy": token_metric(x.entropy_BT, x.mask_BT),
    }
    if x.ref_logp_BT is not None:
        metrics |= kl_metrics(x)
    return metrics
