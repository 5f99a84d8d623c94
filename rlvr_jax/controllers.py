"""Coefficients that follow a measurement from step to step.

Between steps they are plain numbers in the run's place, so that a resumed run goes on from the same
ones; they reach the loss as arguments (`losses.Coefs`), so that nothing is compiled again.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np

from rlvr_jax.experience import Experience
from rlvr_jax.losses import AdaptiveEntropy, AdaptiveKL, Coefs, Objective


@dataclasses.dataclass(frozen=True)
class EntropyConfig:
    """The entropy bonus: a fixed coefficient, or one that steps towards an entropy
    (losses.AdaptiveEntropy)."""

    coef: float = 0.0
    target: float | None = None  # nats a token; unset = the coefficient stays as it is
    step: float = 1e-4
    low: float = 0.0
    high: float = 5e-3

    def __post_init__(self):
        if self.target is not None and self.coef:
            raise ValueError("entropy.target moves the coefficient itself; leave entropy.coef at 0")
        if self.target is not None:
            self.controller()

    def controller(self) -> AdaptiveEntropy:
        return AdaptiveEntropy(self.target, self.step, self.low, self.high)


@dataclasses.dataclass(frozen=True)
class KLControlConfig:
    """Adaptive coefficient of the KL (losses.AdaptiveKL)."""

    target: float | None = None  # nats a sequence; unset = the coefficient stays as it is
    horizon: float = 10_000.0  # samples

    def __post_init__(self):
        if self.target is not None:
            self.controller()

    def controller(self) -> AdaptiveKL:
        return AdaptiveKL(self.target, self.horizon)


def sequence_kl(e: Experience) -> float:
    """Mean over trained sequences of sum_t log pi_old / pi_ref: KL(old || reference), in nats."""
    live_B = e.mask_BT.any(1)
    d_BT = np.where(e.mask_BT, e.old_logp_BT - e.ref_logp_BT, 0.0)
    return float(d_BT.sum(1)[live_B].mean()) if live_B.any() else 0.0


def next_kl(config: KLControlConfig, coef: float, e: Experience) -> float:
    """The coefficient for the next step, from the divergence this one began with."""
    if config.target is None:
        return coef
    samples = int(e.mask_BT.any(1).sum())
    return float(config.controller()(jnp.float32(coef), sequence_kl(e), samples))


def next_entropy(config: EntropyConfig, coef: float, e: Experience) -> tuple[float, float]:
    """(the coefficient to carry on, the one to use in this step)."""
    if config.target is None:
        return coef, config.coef
    entropy = float(e.entropy_BT[e.mask_BT].mean()) if e.mask_BT.any() else config.target
    carried, used = config.controller()(jnp.float32(coef), entropy)
    return float(carried), float(used)


def coefs(
    objective: Objective, entropy: EntropyConfig, control: KLControlConfig, kl: float, bonus: float
) -> Coefs | None:
    """What the loss is given; None where both coefficients are constants of the program."""
    if entropy.target is None and control.target is None:
        return None
    in_loss = kl if objective.kl.place == "loss" else 0.0
    return Coefs(kl=np.float32(in_loss), entropy=np.float32(bonus))
