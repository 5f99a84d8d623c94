"""Advantages with statistics of the whole batch: REINFORCE++, its group form, Magistral."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from rlvr_jax.advantages.base import (
    ADVANTAGES,
    check_inputs,
    check_normaliser,
    last_token,
    penalised_reward,
    reward_to_go,
)
from rlvr_jax.advantages.group import centre_groups
from rlvr_jax.batch import AdvantageInputs
from rlvr_jax.masking import masked_mean, masked_std, per_token, unanimous


def whiten(
    x: jax.Array, mask: jax.Array, *, ddof: int, eps: float, tol: float, centre: bool = True
) -> jax.Array:
    """(x - mean) / (std + eps) over all unmasked entries; 0 where masked or if none differs."""
    std = masked_std(x, mask, ddof=ddof) + eps
    if centre:
        x = x - masked_mean(x, mask)
    flat = unanimous(x, mask, tol=tol)
    return jnp.where(mask & ~flat, x / jnp.where(std > 0, std, 1.0), 0.0)


@ADVANTAGES.register("reinforce_pp")
@dataclasses.dataclass(frozen=True)
class ReinforcePP:
    """The token's return, whitened over all tokens of the batch.

    G_t = sum_{s>=t} gamma^{s-t} (R 1[s last] - beta KL_s);  A = (G - mean) / (std + eps).
    Hu et al., arXiv 2501.03262.  Needs no second sample of a prompt.  Long completions
    weigh more in mean and deviation, because they have more tokens.
    """

    gamma: float = 1.0
    ddof: int = 1
    eps: float = 1e-6
    tol: float = 1e-6
    needs: ClassVar[tuple[str, ...]] = ()
    takes_kl: ClassVar[bool] = True

    def __post_init__(self):
        check_normaliser(self.ddof, self.eps, self.tol)
        if not 0 <= self.gamma <= 1:
            raise ValueError(f"gamma must be in [0, 1], it is {self.gamma}")

    @property
    def by_token(self) -> str:
        """A discount or a KL penalty makes the return differ between the tokens of a row."""
        return "with_kl" if self.gamma == 1 else "always"

    @property
    def promises(self) -> frozenset[str]:
        """With a discount, the same shift of the reward is worth less to earlier tokens."""
        return frozenset({"shift", "scale"} if self.gamma == 1 else {"scale"})

    def __call__(self, x: AdvantageInputs) -> jax.Array:
        check_inputs(self, x)
        return_BT = reward_to_go(token_reward(x), x.mask_BT, self.gamma)
        return whiten(return_BT, x.mask_BT, ddof=self.ddof, eps=self.eps, tol=self.tol)


def token_reward(x: AdvantageInputs) -> jax.Array:
    """The sample's reward on its last token, minus the KL penalty of each token.  f32 [B, T]."""
    reward_BT = jnp.where(last_token(x.mask_BT), x.reward_NG.reshape(-1, 1), 0.0)
    if x.kl_BT is not None:
        reward_BT = reward_BT - jnp.where(x.mask_BT, x.kl_BT, 0.0)
    return reward_BT


@ADVANTAGES.register("reinforce_pp_baseline")
@dataclasses.dataclass(frozen=True)
class ReinforcePPBaseline:
    """A' = R - mean of the group;  A = (A' - mean) / (std + eps) over all tokens of the batch.

    Hu et al., arXiv 2501.03262.  A unanimous group has A' = 0 but, unless all
    completions are equally long, not A = 0: the mean over tokens is not zero.
    """

    ddof: int = 1
    eps: float = 1e-6
    tol: float = 1e-6
    needs: ClassVar[tuple[str, ...]] = ()
    takes_kl: ClassVar[bool] = True
    by_token: ClassVar[str] = "never"
    promises: ClassVar[frozenset[str]] = frozenset({"shift", "scale"})

    def __post_init__(self):
        check_normaliser(self.ddof, self.eps, self.tol)

    def __call__(self, x: AdvantageInputs) -> jax.Array:
        check_inputs(self, x)
        centred_NG = centre_groups(penalised_reward(x), x.valid_NG, self.tol)
        centred_BT = per_token(centred_NG, x.mask_BT)
        return whiten(centred_BT, x.mask_BT, ddof=self.ddof, eps=self.eps, tol=self.tol)


@ADVANTAGES.register("magistral")
@dataclasses.dataclass(frozen=True)
class Magistral:
    """A' = R - mean of the group;  A = (A' - mean) / (std + eps) over all sequences of the batch.

    Mistral AI, arXiv 2506.10910, sec. 2.1.  The mean of A' is zero already, group by group, so it
    is not subtracted a second time and a unanimous group keeps exactly 0.
    """

    ddof: int = 0
    eps: float = 1e-6
    tol: float = 1e-6
    needs: ClassVar[tuple[str, ...]] = ()
    takes_kl: ClassVar[bool] = True
    by_token: ClassVar[str] = "never"
    promises: ClassVar[frozenset[str]] = frozenset({"unanimous", "shift", "scale"})

    def __post_init__(self):
        check_normaliser(self.ddof, self.eps, self.tol)

    def __call__(self, x: AdvantageInputs) -> jax.Array:
        check_inputs(self, x)
        centred_NG = centre_groups(penalised_reward(x), x.valid_NG, self.tol)
        adv_NG = whiten(
            centred_NG, x.valid_NG, ddof=self.ddof, eps=self.eps, tol=self.tol, centre=False
        )
        return per_token(adv_NG, x.mask_BT)
