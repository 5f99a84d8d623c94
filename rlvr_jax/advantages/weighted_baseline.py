"""Group baselines other than the plain mean: OPO, GPG, and the soft maximum of mirror descent."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from rlvr_jax.advantages.base import ADVANTAGES, check_inputs, check_tol, penalised_reward
from rlvr_jax.advantages.group import centre_groups
from rlvr_jax.batch import AdvantageInputs
from rlvr_jax.masking import masked_count, masked_sum, per_token, unanimous


@ADVANTAGES.register("opo")
@dataclasses.dataclass(frozen=True)
class Opo:
    """A_i = R_i - sum_j |o_j| R_j / sum_j |o_j| over the group: the baseline of least variance.

    Hao et al., arXiv 2505.23585: the variance of a sample's score grows with its length.
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
        reward_NG = penalised_reward(x)
        length_NG = x.length_NG  # a cut answer that is not trained on still has a length
        if length_NG is None:
            length_NG = jnp.sum(x.mask_BT, axis=1).reshape(reward_NG.shape)
        length_NG = length_NG.astype(jnp.float32)
        total_N1 = masked_sum(length_NG, x.valid_NG, axis=1, keepdims=True)
        baseline_N1 = masked_sum(length_NG * reward_NG, x.valid_NG, axis=1, keepdims=True)
        baseline_N1 = baseline_N1 / jnp.maximum(total_N1, 1.0)
        flat_N1 = unanimous(reward_NG, x.valid_NG, axis=1, tol=self.tol)
        return per_token(jnp.where(flat_N1, 0.0, reward_NG - baseline_N1), x.mask_BT)


@ADVANTAGES.register("gpg")
@dataclasses.dataclass(frozen=True)
class Gpg:
    """A = alpha (R - mean of the group) / scale, alpha = n / (n - samples in unanimous groups).

    Chu et al., arXiv 2504.02546: prompts without signal take no part of the step.
    """

    scale: float = 1.0
    tol: float = 1e-6
    needs: ClassVar[tuple[str, ...]] = ()
    takes_kl: ClassVar[bool] = False
    by_token: ClassVar[str] = "never"
    promises: ClassVar[frozenset[str]] = frozenset({"unanimous", "shift"})

    def __post_init__(self):
        if self.scale <= 0:
            raise ValueError(f"scale must be positive, it is {self.scale}")
        check_tol(self.tol)

    def __call__(self, x: AdvantageInputs) -> jax.Array:
        check_inputs(self, x)
        reward_NG = penalised_reward(x)
        centred_NG = centre_groups(reward_NG, x.valid_NG, self.tol)
        flat_N1 = unanimous(reward_NG, x.valid_NG, axis=1, tol=self.tol)
        alpha = masked_count(x.valid_NG) / masked_count(x.valid_NG & ~flat_N1)
        return per_token(alpha / self.scale * centred_NG, x.mask_BT)


@ADVANTAGES.register("log_mean_exp")
@dataclasses.dataclass(frozen=True)
class LogMeanExp:
    """A = R - tau log mean exp(R / tau) over the group.  Kimi k1.5, arXiv 2501.12599, sec. 2.3.2.

    The estimate of tau log Z of the regularised problem; tau -> infinity gives the group mean.
    """

    tau: float = 0.5
    tol: float = 1e-6
    needs: ClassVar[tuple[str, ...]] = ()
    takes_kl: ClassVar[bool] = False
    by_token: ClassVar[str] = "never"
    promises: ClassVar[frozenset[str]] = frozenset({"unanimous", "shift"})

    def __post_init__(self):
        if self.tau <= 0:
            raise ValueError(f"tau must be positive, it is {self.tau}")
        check_tol(self.tol)

    def __call__(self, x: AdvantageInputs) -> jax.Array:
        check_inputs(self, x)
        reward_NG = penalised_reward(x)
        scaled_NG = jnp.where(x.valid_NG, reward_NG / self.tau, -jnp.inf)
        high_N1 = jnp.max(jnp.where(x.valid_NG, scaled_NG, -1e30), axis=1, keepdims=True)
        total_N1 = masked_sum(jnp.exp(scaled_NG - high_N1), x.valid_NG, axis=1, keepdims=True)
        mean_N1 = total_N1 / masked_count(x.valid_NG, axis=1, keepdims=True)
        baseline_N1 = self.tau * (high_N1 + jnp.log(jnp.where(mean_N1 > 0, mean_N1, 1.0)))
        flat_N1 = unanimous(reward_NG, x.valid_NG, axis=1, tol=self.tol)
        adv_NG = jnp.where(flat_N1 | ~x.valid_NG, 0.0, reward_NG - baseline_N1)
        return per_token(adv_NG, x.mask_BT)
