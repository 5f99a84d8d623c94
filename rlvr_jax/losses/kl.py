"""The divergence from the reference: where it acts, how it is estimated, what is differentiated.

With d = log pi - log pi_ref of the sampled token:  k1 = d,  k2 = d^2 / 2,  k3 = e^{-d} + d - 1.
E_pi[k1] = E_pi[k3] = KL(pi || pi_ref).  Values and gradients are different matters; on-policy, the
expected gradient is (Schulman 2020; Tang & Munos, arXiv 2506.09477):

    place    k1                    k2                    k3
    loss     0                     grad KL(pi||ref)      grad KL(ref||pi)
    reward   grad KL(pi||ref)      biased                grad KL(pi||ref) - grad KL(ref||pi)

and in the loss, multiplied by r = pi / pi_old inside the gradient, k1 and k3 both give
grad KL(pi||ref) exactly, also off-policy (DeepSeek-V3.2, arXiv 2512.02556).
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from rlvr_jax.batch import LossInputs, Metrics
from rlvr_jax.losses.base import difference, log_ratio, token_metric
from rlvr_jax.registry import nearest

ESTIMATORS = ("k1", "k2", "k3")
PLACES = ("none", "loss", "reward")
GRADIENTS = ("value", "k2")


def one_of(what: str, value: str, allowed: tuple[str, ...]) -> None:
    """ValueError naming the allowed words unless `value` is one of them."""
    if value not in allowed:
        hint = nearest(str(value), list(allowed))
        raise ValueError(f'{what} "{value}" is not one of {", ".join(allowed)}{hint}')


def estimate(
    estimator: str, logp_BT: jax.Array, ref_logp_BT: jax.Array, mask_BT: jax.Array
) -> jax.Array:
    """k1, k2 or k3 of each token; 0 where masked."""
    one_of("KL estimator", estimator, ESTIMATORS)
    if estimator != "k3":
        d_BT = difference(logp_BT, ref_logp_BT, mask_BT)
        return d_BT if estimator == "k1" else 0.5 * d_BT**2
    d_BT = log_ratio(logp_BT, ref_logp_BT, mask_BT)
    return jnp.expm1(-d_BT) + d_BT


def kl_metrics(x: LossInputs) -> Metrics:
    """All three estimates of KL(policy || reference), in nats a token."""
    return {
        f"policy/kl_ref_{k}": token_metric(
            estimate(k, x.logp_BT, x.ref_logp_BT, x.mask_BT), x.mask_BT
        )
        for k in ESTIMATORS
    }


@dataclasses.dataclass(frozen=True)
class KL:
    """coef * KL(policy || reference).

    place: "loss" adds it to the loss under the loss's own token weights, "reward" takes it off the
        reward (per token; the advantage estimator sums it), "none" leaves it out.
    grad: "value" differentiates the estimator; "k2" keeps its value and takes the gradient of k2.
    ratio_corrected: multiply by pi / pi_old inside the gradient (in the loss only).
    force: accept k1 in the loss although its expected on-policy gradient is zero.
    """

    place: str = "none"
    estimator: str = "k3"
    coef: float = 0.0
    grad: str = "value"
    ratio_corrected: bool = False
    force: bool = False

    def __post_init__(self):
        one_of("kl.place", self.place, PLACES)
        one_of("kl.estimator", self.estimator, ESTIMATORS)
        one_of("kl.grad", self.grad, GRADIENTS)
        if self.coef < 0:
            raise ValueError(f"kl.coef must not be negative, it is {self.coef}")
        if (self.coef > 0) != (self.place != "none"):
            raise ValueError(
                f'kl.place "{self.place}" with kl.coef {self.coef} has no effect; '
                'a coefficient above 0 goes with place "loss" or "reward"'
            )
        if self.place != "loss" and (self.grad != "value" or self.ratio_corrected):
            raise ValueError(
                f'kl.grad and kl.ratio_corrected act in the loss only, kl.place is "{self.place}"'
            )
        self._check_gradient()

    def _check_gradient(self) -> None:
        plain = self.place == "loss" and self.grad == "value"
        if plain and self.estimator == "k1" and not (self.ratio_corrected or self.force):
            raise ValueError(
                "k1 in the loss has an expected on-policy gradient of exactly 0 and holds nothing "
                'back; use estimator "k2", grad "k2", ratio_corrected, or place "reward" '
                "(kl.force = True to have it anyway)"
            )
        if plain and self.estimator == "k2" and self.ratio_corrected:
            raise ValueError("ratio-corrected k2 estimates no divergence; use k1, k3 or grad k2")

    def loss_BT(self, x: LossInputs) -> jax.Array:
        """The estimate of each token with the chosen gradient, without the coefficient."""
        if x.ref_logp_BT is None:
            raise ValueError("kl.place is set but no reference log-probs were given")
        ref_BT = jax.lax.stop_gradient(x.ref_logp_BT)
        value_BT = estimate(self.estimator, x.logp_BT, ref_BT, x.mask_BT)
        if self.grad == "k2":
            k2_BT = estimate("k2", x.logp_BT, ref_BT, x.mask_BT)
            value_BT = jax.lax.stop_gradient(value_BT - k2_BT) + k2_BT
        if not self.ratio_corrected:
            return value_BT
        ratio_BT = jnp.exp(log_ratio(x.logp_BT, x.old_logp_BT, x.mask_BT))
        if self.grad == "k2":  # the score term is already in k2: weight, do not differentiate
            ratio_BT = jax.lax.stop_gradient(ratio_BT)
        if self.grad == "k2" or self.estimator != "k3":
            return ratio_BT * value_BT
        # r k3 has the gradient r d; summed up from r k3 and r k3' it would cancel to noise.
        d_BT = log_ratio(x.logp_BT, ref_BT, x.mask_BT)
        slope_BT = jax.lax.stop_gradient(ratio_BT * d_BT) * jnp.where(x.mask_BT, x.logp_BT, 0.0)
        return slope_BT + jax.lax.stop_gradient(ratio_BT * value_BT - slope_BT)

    def reward_BT(self, logp_BT, ref_logp_BT, mask_BT, coef: jax.Array | None = None) -> jax.Array:
        """coef * estimate of each token, constant, for `AdvantageInputs.kl_BT`.

        logp_BT: log-probs of the policy that is penalised, as of the start of the update phase.
        coef: overrides `self.coef` (adaptive control).
        """
        value_BT = estimate(self.estimator, logp_BT, ref_logp_BT, mask_BT)
        return jax.lax.stop_gradient((self.coef if coef is None else coef) * value_BT)
