"""REINFORCE: the reward of a completion minus a baseline that does not look at its group."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from rlvr_jax.advantages.base import ADVANTAGES, check_inputs, penalised_reward
from rlvr_jax.batch import AdvantageInputs
from rlvr_jax.masking import masked_mean, per_token


@ADVANTAGES.register("constant")
@dataclasses.dataclass(frozen=True)
class Constant:
    """A = R - b with a fixed b.  Williams 1992.  b = 0 is plain REINFORCE."""

    baseline: float = 0.0
    needs: ClassVar[tuple[str, ...]] = ()
    takes_kl: ClassVar[bool] = True
    by_token: ClassVar[str] = "never"
    promises: ClassVar[frozenset[str]] = frozenset()

    def __call__(self, x: AdvantageInputs) -> jax.Array:
        check_inputs(self, x)
        return per_token(penalised_reward(x) - self.baseline, x.mask_BT)


@ADVANTAGES.register("batch_mean")
@dataclasses.dataclass(frozen=True)
class BatchMean:
    """A = R - mean of all valid rewards of the batch.  Williams 1992; arXiv 2402.14740.

    The mean includes the sample itself, which only scales the expected gradient by (n - 1) / n.
    """

    needs: ClassVar[tuple[str, ...]] = ()
    takes_kl: ClassVar[bool] = True
    by_token: ClassVar[str] = "never"
    promises: ClassVar[frozenset[str]] = frozenset({"shift"})

    def __call__(self, x: AdvantageInputs) -> jax.Array:
        check_inputs(self, x)
        reward_NG = penalised_reward(x)
        return per_token(reward_NG - masked_mean(reward_NG, x.valid_NG), x.mask_BT)


@ADVANTAGES.register("running_mean")
@dataclasses.dataclass(frozen=True)
class RunningMean:
    """A = R - b, b an exponential average of earlier batch means.  Williams 1992.

    b <- alpha b + (1 - alpha) mean R, with `update`, after the advantages have been taken: the
    baseline must not depend on the samples it is subtracted from.
    """

    alpha: float = 0.95
    needs: ClassVar[tuple[str, ...]] = ("running_baseline",)
    takes_kl: ClassVar[bool] = True
    by_token: ClassVar[str] = "never"
    promises: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self):
        if not 0 <= self.alpha < 1:
            raise ValueError(f"alpha must be in [0, 1), it is {self.alpha}")

    def __call__(self, x: AdvantageInputs) -> jax.Array:
        check_inputs(self, x)
        return per_token(penalised_reward(x) - x.running_baseline, x.mask_BT)

    def update(self, x: AdvantageInputs) -> jax.Array:
        """The baseline for the next step, f32 scalar; unchanged if no sample was valid."""
        mean = masked_mean(penalised_reward(x), x.valid_NG)
        moved = self.alpha * x.running_baseline + (1 - self.alpha) * mean
        return jnp.where(jnp.any(x.valid_NG), moved, x.running_baseline)
