"""Advantages from a critic."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from rlvr_jax.advantages.base import ADVANTAGES, check_inputs
from rlvr_jax.advantages.whitened import token_reward, whiten
from rlvr_jax.batch import AdvantageInputs


def gae(
    reward_BT: jax.Array,
    value_BT: jax.Array,
    mask_BT: jax.Array,
    *,
    gamma: float,
    lam: jax.Array | float,
) -> jax.Array:
    """sum_{s >= t} (gamma lam)^{s-t} delta_s,  delta_t = r_t + gamma V_{t+1} - V_t.

    Schulman et al., arXiv 1506.02438, eq. 16.  V after the last token is 0: a completion ends, also
    when the limit cut it.  Masked tokens between unmasked ones are stepped over, so the answer is
    that of the compacted sequence.  lam: a number, or one per row.  f32 [B, T], 0 where masked.
    """
    value_BT = jnp.where(mask_BT, value_BT, 0.0)
    reward_BT = jnp.where(mask_BT, reward_BT, 0.0)

    def step(carry, column):
        value_next_B, adv_next_B = carry
        reward_B, value_B, mask_B = column
        delta_B = reward_B + gamma * value_next_B - value_B
        adv_B = jnp.where(mask_B, delta_B + gamma * lam * adv_next_B, adv_next_B)
        return (jnp.where(mask_B, value_B, value_next_B), adv_B), adv_B

    zero_B = jnp.zeros_like(value_BT[:, 0])
    columns = (reward_BT.T, value_BT.T, mask_BT.T)
    adv_TB = jax.lax.scan(step, (zero_B, zero_B), columns, reverse=True)[1]
    return jnp.where(mask_BT, adv_TB.T, 0.0)


def adaptive_lambda(mask_BT: jax.Array, alpha: float) -> jax.Array:
    """1 - 1 / (alpha |o|) of each row, clipped to [0, 1].  VAPO, arXiv 2504.05118."""
    length_B = jnp.maximum(jnp.sum(mask_BT, axis=1), 1)
    return jnp.clip(1.0 - 1.0 / (alpha * length_B), 0.0, 1.0)


@ADVANTAGES.register("gae")
@dataclasses.dataclass(frozen=True)
class Gae:
    """Generalised advantages; the reward is paid at the last token.  arXiv 1506.02438, eq. 16.

    lam_policy: lambda of the policy's advantages; lam_value: of the critic's targets.  Two of them
        is the decoupling of VC-PPO, arXiv 2503.01491 (0.95 and 1.0).
    length_alpha: when set, lam_policy is 1 - 1 / (length_alpha |o|) of each row (VAPO: 0.05).
    whiten: normalise over all tokens of the batch, after the targets have been taken.
    gamma = lam = 1 is Open-Reasoner-Zero, arXiv 2503.24290: A = R - V, target R at every token.
    """

    gamma: float = 1.0
    lam_policy: float = 1.0
    lam_value: float = 1.0
    length_alpha: float | None = None
    whiten: bool = False
    needs: ClassVar[tuple[str, ...]] = ("value_BT",)
    takes_kl: ClassVar[bool] = True
    by_token: ClassVar[str] = "always"
    promises: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self):
        for name in ("gamma", "lam_policy", "lam_value"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be in [0, 1], it is {getattr(self, name)}")
        if self.length_alpha is not None and self.length_alpha <= 0:
            raise ValueError(f"length_alpha must be positive or None, it is {self.length_alpha}")
        if self.length_alpha is not None and self.lam_policy != 1.0:
            raise ValueError(
                f"lam_policy {self.lam_policy} has no effect when length_alpha sets it by length"
            )

    def __call__(self, x: AdvantageInputs) -> jax.Array:
        check_inputs(self, x)
        lam = self.lam_policy
        if self.length_alpha is not None:
            lam = adaptive_lambda(x.mask_BT, self.length_alpha)
        adv_BT = gae(token_reward(x), x.value_BT, x.mask_BT, gamma=self.gamma, lam=lam)
        if self.whiten:
            adv_BT = whiten(adv_BT, x.mask_BT, ddof=1, eps=1e-6, tol=1e-6)
        return adv_BT

    def returns(self, x: AdvantageInputs) -> jax.Array:
        """Targets of the critic: V + the advantage under lam_value.  f32 [B, T], 0 where masked."""
        check_inputs(self, x)
        adv_BT = gae(token_reward(x), x.value_BT, x.mask_BT, gamma=self.gamma, lam=self.lam_value)
        return jnp.where(x.mask_BT, adv_BT + x.value_BT, 0.0)
