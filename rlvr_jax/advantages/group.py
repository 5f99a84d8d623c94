"""Baselines from the other samples of the same prompt: GRPO, Dr. GRPO, Lite-PPO, RLOO."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from rlvr_jax.advantages.base import (
    ADVANTAGES,
    check_inputs,
    check_normaliser,
    check_tol,
    penalised_reward,
)
from rlvr_jax.batch import AdvantageInputs
from rlvr_jax.masking import masked_count, masked_mean, masked_std, per_token, unanimous
from rlvr_jax.registry import nearest

STD_LEVELS = ("group", "none", "batch")


def centre_groups(reward_NG: jax.Array, valid_NG: jax.Array, tol: float) -> jax.Array:
    """Reward minus the mean of the group's valid samples; exactly 0 in unanimous groups."""
    mean_N1 = masked_mean(reward_NG, valid_NG, axis=1, keepdims=True)
    flat_N1 = unanimous(reward_NG, valid_NG, axis=1, tol=tol)
    return jnp.where(flat_N1 | ~valid_NG, 0.0, reward_NG - mean_N1)


@ADVANTAGES.register("group")
@dataclasses.dataclass(frozen=True)
class Group:
    """A = (R - mean of the group) / (std + eps).

    std "group": GRPO, DeepSeekMath, arXiv 2402.03300, sec. 4.1.2.
    std "none":  Dr. GRPO, arXiv 2503.20783.
    std "batch": deviation of the raw rewards of the whole batch: Lite-PPO, arXiv 2508.08221.
    ddof: 0 population, 1 sample deviation (torch's default, so what most published runs used).
    tol: a group with max - min <= tol * max(1, max |R|) has no signal and gets exactly 0.
    """

    std: str = "group"
    ddof: int = 1
    eps: float = 1e-6
    tol: float = 1e-6
    needs: ClassVar[tuple[str, ...]] = ()
    takes_kl: ClassVar[bool] = True
    by_token: ClassVar[str] = "never"

    def __post_init__(self):
        check_normaliser(self.ddof, self.eps, self.tol)
        if self.std not in STD_LEVELS:
            raise ValueError(
                f'std "{self.std}" is not one of {", ".join(STD_LEVELS)}'
                f"{nearest(self.std, list(STD_LEVELS))}"
            )

    @property
    def promises(self) -> frozenset[str]:
        """Without the deviation, rewards keep their scale."""
        return frozenset({"unanimous", "shift"} | (set() if self.std == "none" else {"scale"}))

    def __call__(self, x: AdvantageInputs) -> jax.Array:
        check_inputs(self, x)
        reward_NG = penalised_reward(x)
        adv_NG = centre_groups(reward_NG, x.valid_NG, self.tol)
        if self.std != "none":
            axis = 1 if self.std == "group" else None
            std = masked_std(reward_NG, x.valid_NG, axis, ddof=self.ddof, keepdims=True) + self.eps
            adv_NG = jnp.where(adv_NG == 0, 0.0, adv_NG / jnp.where(std > 0, std, 1.0))
        return per_token(adv_NG, x.mask_BT)


@ADVANTAGES.register("rloo")
@dataclasses.dataclass(frozen=True)
class Rloo:
    """A_i = R_i - mean of the other samples of the group = n / (n - 1) (R_i - mean R).

    Ahmadian et al., arXiv 2402.14740.  A group with one valid sample has no baseline and
    gets 0.
    """

    tol: float = 1e-6
    needs: ClassVar[tuple[str, ...]] = ()
    takes_kl: ClassVar[bool] = True
    by_token: ClassVar[str] = "never"
    promises: ClassVar[frozenset[str]] = frozenset({"unanimous", "shift"})

    def __post_init__(self):
        check_tol(self.tol)

    def __call__(self, x: AdvantageInputs) -> jax.Array:
        check_inputs(self, x)
        centred_NG = centre_groups(penalised_reward(x), x.valid_NG, self.tol)
        n_N1 = masked_count(x.valid_NG, axis=1, keepdims=True)
        return per_token(centred_NG * n_N1 / jnp.maximum(n_N1 - 1, 1), x.mask_BT)
