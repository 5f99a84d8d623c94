"""Rewards of steps."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from rlvr_jax.advantages.base import ADVANTAGES, check_inputs, check_normaliser, reward_to_go
from rlvr_jax.batch import AdvantageInputs
from rlvr_jax.masking import masked_mean, masked_std, unanimous


@ADVANTAGES.register("process")
@dataclasses.dataclass(frozen=True)
class Process:
    """All step rewards of a prompt's samples are normalised together; a token earns those to come.

    r~ = (r - mean) / (std + eps) over every step of the group;  A_t = sum of r~ of the steps that
    end at t or later.  DeepSeekMath, arXiv 2402.03300, sec. 4.1.3.
    Reads `step_reward_BT` at `step_end_BT` and not the outcome reward.
    """

    ddof: int = 0
    eps: float = 1e-6
    tol: float = 1e-6
    needs: ClassVar[tuple[str, ...]] = ("step_reward_BT", "step_end_BT")
    takes_kl: ClassVar[bool] = False
    by_token: ClassVar[str] = "always"
    promises: ClassVar[frozenset[str]] = frozenset({"unanimous", "scale"})

    def __post_init__(self):
        check_normaliser(self.ddof, self.eps, self.tol)

    def __call__(self, x: AdvantageInputs) -> jax.Array:
        check_inputs(self, x)
        prompts = x.reward_NG.shape[0]
        end_BT = x.step_end_BT & x.mask_BT
        reward_NS = jnp.where(end_BT, x.step_reward_BT, 0.0).reshape(prompts, -1)
        end_NS = end_BT.reshape(prompts, -1)
        mean_N1 = masked_mean(reward_NS, end_NS, 1, keepdims=True)
        std_N1 = masked_std(reward_NS, end_NS, 1, ddof=self.ddof, keepdims=True) + self.eps
        flat_N1 = unanimous(reward_NS, end_NS, 1, tol=self.tol)
        scaled_NS = (reward_NS - mean_N1) / jnp.where(std_N1 > 0, std_N1, 1.0)
        scaled_NS = jnp.where(end_NS & ~flat_N1, scaled_NS, 0.0)
        return reward_to_go(scaled_NS.reshape(end_BT.shape), x.mask_BT)
