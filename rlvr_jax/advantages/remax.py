"""The greedy completion as the baseline."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from rlvr_jax.advantages.base import ADVANTAGES, check_inputs, reward_to_go
from rlvr_jax.advantages.whitened import token_reward
from rlvr_jax.batch import AdvantageInputs


@ADVANTAGES.register("remax")
@dataclasses.dataclass(frozen=True)
class ReMax:
    """A_t = sum_{s>=t} r_s - R(greedy completion of the prompt).

    Li et al., arXiv 2310.10505.  One more completion a prompt, decoded greedily and judged
    by the same verifier; the baseline depends on the prompt only, so the gradient is unbiased.
    """

    needs: ClassVar[tuple[str, ...]] = ("greedy_reward_N",)
    takes_kl: ClassVar[bool] = True
    by_token: ClassVar[str] = "with_kl"
    promises: ClassVar[frozenset[str]] = frozenset()

    def __call__(self, x: AdvantageInputs) -> jax.Array:
        check_inputs(self, x)
        return_BT = reward_to_go(token_reward(x), x.mask_BT)
        samples = x.reward_NG.shape[1]
        baseline_B1 = jnp.repeat(x.greedy_reward_N, samples)[:, None]
        return jnp.where(x.mask_BT, return_BT - baseline_B1, 0.0)
