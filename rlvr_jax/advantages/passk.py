"""Training for the best of k: analytic pass@k advantages and PKPO.

The binomial coefficients depend on the number of valid samples, which is known only on device, so
they are tabulated for every possible number, in exact integer arithmetic, and looked up.
"""

from __future__ import annotations

import dataclasses
import functools
from math import comb, sqrt
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from rlvr_jax.advantages.base import ADVANTAGES, check_inputs, check_tol, penalised_reward
from rlvr_jax.batch import AdvantageInputs
from rlvr_jax.masking import per_token, unanimous
from rlvr_jax.registry import nearest

BASELINES = ("none", "loo", "loo_minus_one")


@functools.cache
def passk_table(samples: int, k: int) -> np.ndarray:
    """[n, c, 0 or 1] -> advantage of a wrong or a right sample among n with c right.  f32."""
    table = np.zeros((samples + 1, samples + 1, 2), np.float32)
    for n in range(k, samples + 1):
        for c in range(1, n + 1):
            mean = 1 - comb(n - c, k) / comb(n, k)
            sigma = sqrt(mean * (1 - mean))
            if sigma == 0:
                continue
            table[n, c, 1] = (1 - mean) / sigma
            if c < n:
                table[n, c, 0] = (1 - mean - comb(n - c - 1, k - 1) / comb(n - 1, k - 1)) / sigma
    return table


@ADVANTAGES.register("passk")
@dataclasses.dataclass(frozen=True)
class PassK:
    """The expected group advantage of a sample over all groups of k drawn from its prompt's n.

    With c right of n, mean = 1 - C(n-c, k) / C(n, k) and sigma^2 = mean (1 - mean):
    A_right = (1 - mean) / sigma,  A_wrong = (1 - mean - C(n-c-1, k-1) / C(n-1, k-1)) / sigma.
    Chen et al., arXiv 2508.10751.  Once n - c < k every draw holds a right answer and
    the prompt teaches nothing more.  k = 1 is GRPO with the population deviation.
    """

    k: int = 4
    needs: ClassVar[tuple[str, ...]] = ("correct_NG",)
    takes_kl: ClassVar[bool] = False
    by_token: ClassVar[str] = "never"
    promises: ClassVar[frozenset[str]] = frozenset({"unanimous"})

    def __post_init__(self):
        if self.k < 1:
            raise ValueError(f"k must be at least 1, it is {self.k}")

    def __call__(self, x: AdvantageInputs) -> jax.Array:
        check_inputs(self, x)
        samples = x.reward_NG.shape[1]
        if self.k > samples:
            raise ValueError(f"k = {self.k} needs at least k samples a prompt, there are {samples}")
        right_NG = x.correct_NG & x.valid_NG
        n_N1 = jnp.sum(x.valid_NG, axis=1, keepdims=True)
        c_N1 = jnp.sum(right_NG, axis=1, keepdims=True)
        table = jnp.asarray(passk_table(samples, self.k))
        return per_token(table[n_N1, c_N1, right_NG.astype(jnp.int32)], x.mask_BT)


@functools.cache
def pkpo_tables(samples: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights of the rewards, sorted ascending with ranks 1..n, in the sums of PKPO.  f32.

    own[n, j]: C(j-1, k-1) / C(n, k), the share of k-subsets whose maximum is rank j.
    with_lower[n, j]: C(j-2, k-2) / C(n, k), those of them that also hold one given lower rank.
    """
    own = np.zeros((samples + 1, samples + 1), np.float32)
    with_lower = np.zeros_like(own)
    for n in range(k, samples + 1):
        for j in range(1, n + 1):
            own[n, j] = comb(j - 1, k - 1) / comb(n, k)
            if k >= 2 and j >= 2:
                with_lower[n, j] = comb(j - 2, k - 2) / comb(n, k)
    return own, with_lower


@ADVANTAGES.register("pkpo")
@dataclasses.dataclass(frozen=True)
class Pkpo:
    """s_i, the weight of grad log pi(o_i) in the unbiased gradient of E[max of k rewards].

    s_i = (1 / C(n, k)) sum over the k-subsets I that hold i of max_I R; for rewards in {0, 1} that
    is k / n if right and (k / n) (1 - C(n-1-c, k-1) / C(n-1, k-1)) if wrong.
    Walder & Karkhanis, arXiv 2505.15201, and its leave-one-out baselines:
        loo             minus (k / n) times the estimate of E[max of k] without sample i
        loo_minus_one   minus (1 / C(n, k)) sum_I max over I without i, the paper's best; k >= 2
    Any factor in front of loo leaves the expected gradient alone; k / n makes it zero for unanimous
    groups and blind to a shift of the reward.
    """

    k: int = 4
    variance_baseline: str = "loo_minus_one"
    tol: float = 1e-6
    needs: ClassVar[tuple[str, ...]] = ()
    takes_kl: ClassVar[bool] = False
    by_token: ClassVar[str] = "never"

    def __post_init__(self):
        if self.variance_baseline not in BASELINES:
            raise ValueError(
                f'variance_baseline "{self.variance_baseline}" is not one of {", ".join(BASELINES)}'
                f"{nearest(self.variance_baseline, list(BASELINES))}"
            )
        if self.k < (2 if self.variance_baseline == "loo_minus_one" else 1):
            raise ValueError(f'k = {self.k} is too small for baseline "{self.variance_baseline}"')
        check_tol(self.tol)

    @property
    def promises(self) -> frozenset[str]:
        """Without a baseline the estimate is unbiased but nothing cancels."""
        return (
            frozenset() if self.variance_baseline == "none" else frozenset({"unanimous", "shift"})
        )

    def __call__(self, x: AdvantageInputs) -> jax.Array:
        check_inputs(self, x)
        samples = x.reward_NG.shape[1]
        if self.k > samples:
            raise ValueError(f"k = {self.k} needs at least k samples a prompt, there are {samples}")
        if self.k == samples and self.variance_baseline == "loo":
            raise ValueError(f'baseline "loo" needs more than k = {self.k} samples a prompt')
        reward_NG = penalised_reward(x)
        adv_NG = self._inclusion(reward_NG, x.valid_NG, self.k) - self._baseline(x, reward_NG)
        if self.variance_baseline != "none":
            flat_N1 = unanimous(reward_NG, x.valid_NG, axis=1, tol=self.tol)
            adv_NG = jnp.where(flat_N1, 0.0, adv_NG)
        least = self.k + (self.variance_baseline == "loo")  # the others must be k as well
        few_N1 = jnp.sum(x.valid_NG, axis=1, keepdims=True) < least
        return per_token(jnp.where(x.valid_NG & ~few_N1, adv_NG, 0.0), x.mask_BT)

    def _inclusion(self, reward_NG: jax.Array, valid_NG: jax.Array, k: int) -> jax.Array:
        """s_i: rank i's own share, and that of the subsets in which a higher rank beats it."""
        own, with_lower = (jnp.asarray(t) for t in pkpo_tables(reward_NG.shape[1], k))
        n_N1 = jnp.sum(valid_NG, axis=1, keepdims=True)
        rank_NG = ranks(reward_NG, valid_NG)
        beaten_NG = jnp.where(valid_NG, with_lower[n_N1, rank_NG] * reward_NG, 0.0)
        above_NGG = rank_NG[:, None, :] > rank_NG[:, :, None]  # [prompt, i, j]: j beats i
        above_NG = jnp.sum(jnp.where(above_NGG, beaten_NG[:, None, :], 0.0), axis=2)
        return own[n_N1, rank_NG] * reward_NG + above_NG

    def _baseline(self, x: AdvantageInputs, reward_NG: jax.Array) -> jax.Array | float:
        """(k / n) E[max of q of the others], q = k for loo and k - 1 for loo_minus_one."""
        if self.variance_baseline == "none":
            return 0.0
        samples = reward_NG.shape[1]
        own, _ = pkpo_tables(samples, self.k if self.variance_baseline == "loo" else self.k - 1)
        own = jnp.asarray(own)
        n_N1 = jnp.sum(x.valid_NG, axis=1, keepdims=True)
        rank_NG = ranks(reward_NG, x.valid_NG)
        above_NGG = rank_NG[:, None, :] > rank_NG[:, :, None]
        rank_NGG = rank_NG[:, None, :] - above_NGG  # rank of j once i is left out
        others_NGG = x.valid_NG[:, None, :] & ~jnp.eye(samples, dtype=bool)
        weight_NGG = own[jnp.maximum(n_N1 - 1, 0)[:, :, None], rank_NGG]
        best_NG = jnp.sum(jnp.where(others_NGG, weight_NGG * reward_NG[:, None, :], 0.0), axis=2)
        return self.k / jnp.maximum(n_N1, 1) * best_NG


def ranks(reward_NG: jax.Array, valid_NG: jax.Array) -> jax.Array:
    """1 for the lowest valid reward of the group up to n; equal rewards by position.  int [N, G].

    Invalid samples come last, behind the ranks the tables give any weight.
    """
    key_NG = jnp.where(valid_NG, reward_NG, jnp.inf)
    order_NG = jnp.argsort(key_NG, axis=1, stable=True)
    return jnp.argsort(order_NG, axis=1, stable=True) + 1
