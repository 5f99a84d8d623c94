"""What every advantage estimator is made of: the registry, the contract, the inputs it may need."""

from __future__ import annotations

from typing import ClassVar, Protocol

import jax
import jax.numpy as jnp

from rlvr_jax.batch import AdvantageInputs
from rlvr_jax.masking import masked_sum
from rlvr_jax.registry import Registry

ADVANTAGES = Registry("advantage")


class Advantage(Protocol):
    """A frozen dataclass of hyper-parameters.  Calling it gives adv_BT: f32, 0 where masked.

    needs:    optional fields of AdvantageInputs that must be there.
    takes_kl: `kl_BT` (KL placed in the reward) is understood; otherwise it is refused.
    by_token: whether the tokens of one completion can have different advantages: "never", "always",
        or "with_kl" in the reward.
    promises: what the contract tests hold it to:
        "unanimous"  a group whose rewards are all equal gets exactly 0
        "shift"      adding a constant to every reward changes nothing
        "scale"      multiplying every reward by a positive constant changes nothing (eps aside)
    """

    needs: ClassVar[tuple[str, ...]]
    takes_kl: ClassVar[bool]
    by_token: ClassVar[str]
    promises: ClassVar[frozenset[str]]

    def __call__(self, x: AdvantageInputs) -> jax.Array: ...


def check_inputs(estimator: Advantage, x: AdvantageInputs) -> None:
    """ValueError if a needed field is missing or a KL penalty would be dropped silently."""
    name = type(estimator).__name__
    for field in estimator.needs:
        if getattr(x, field) is None:
            raise ValueError(f"advantage {name} needs {field}, which was not given")
    for field in ("valid_NG", "mask_BT"):  # ~ of integers is another thing
        if getattr(x, field).dtype != bool:
            raise ValueError(f"{field} must be bool, it is {getattr(x, field).dtype}")
    if x.kl_BT is not None and not estimator.takes_kl:
        raise ValueError(f'advantage {name} cannot take the KL in the reward; use kl.place "loss"')


def check_normaliser(ddof: int, eps: float, tol: float) -> None:
    """ValueError unless ddof is 0 or 1 and eps, tol are not negative."""
    check_tol(tol)
    if ddof not in (0, 1) or eps < 0:
        raise ValueError(f"ddof must be 0 or 1, eps not negative; they are {ddof}, {eps}")


def check_tol(tol: float) -> None:
    """ValueError for a tolerance under which no group is unanimous."""
    if tol < 0:
        raise ValueError(f"tol must not be negative, it is {tol}")


def penalised_reward(x: AdvantageInputs) -> jax.Array:
    """reward_NG minus the KL penalty summed over each sequence; 0 where invalid.

    The form for estimators that see a completion as one action.
    """
    reward_NG = x.reward_NG
    if x.kl_BT is not None:
        reward_NG = reward_NG - masked_sum(x.kl_BT, x.mask_BT, axis=1).reshape(reward_NG.shape)
    return jnp.where(x.valid_NG, reward_NG, 0.0)


def last_token(mask_BT: jax.Array) -> jax.Array:
    """True at the last unmasked token of each row; a fully masked row has none.  bool [B, T]."""
    after_BT = jnp.cumsum(mask_BT[:, ::-1], axis=1)[:, ::-1]
    return mask_BT & (after_BT == 1)


def reward_to_go(reward_BT: jax.Array, mask_BT: jax.Array, gamma: float = 1.0) -> jax.Array:
    """sum_{s >= t} gamma^{n(t, s)} r_s, n the number of unmasked tokens from t to s.

    Masked tokens neither pay nor discount: the sum is carried across them.  0 where masked.
    """
    reward_BT = jnp.where(mask_BT, reward_BT, 0.0)
    if gamma == 1.0:
        return_BT = jnp.cumsum(reward_BT[:, ::-1], axis=1)[:, ::-1]
        return jnp.where(mask_BT, return_BT, 0.0)

    def step(later_B, column):
        reward_B, mask_B = column
        later_B = jnp.where(mask_B, reward_B + gamma * later_B, later_B)
        return later_B, later_B

    start_B = jnp.zeros_like(reward_BT[:, 0])
    return_TB = jax.lax.scan(step, start_B, (reward_BT.T, mask_BT.T), reverse=True)[1]
    return jnp.where(mask_BT, return_TB.T, 0.0)
