"""Coefficients that follow a measurement: pure functions of the last coefficient and the metric."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp


@dataclasses.dataclass(frozen=True)
class AdaptiveKL:
    """beta <- beta (1 + clip(KL / target - 1, -0.2, 0.2) n / horizon).

    Ziegler et al., arXiv 1909.08593.  n: samples since the last update.
    """

    target: float = 6.0
    horizon: float = 10_000.0  # above most * n, or beta would change its sign
    most: ClassVar[float] = 0.2

    def __post_init__(self):
        if self.target <= 0 or self.horizon <= 0:
            raise ValueError(f"target and horizon must be positive: {self.target}, {self.horizon}")

    def __call__(self, beta: jax.Array, kl: jax.Array, n: float) -> jax.Array:
        """The next coefficient; kl in the units of the target (nats a token, or a sequence)."""
        error = jnp.clip(kl / self.target - 1.0, -self.most, self.most)
        return beta * (1.0 + error * n / self.horizon)


@dataclasses.dataclass(frozen=True)
class AdaptiveEntropy:
    """c <- clip(c + step if H < target else c - step, low, high); used only while H < target.

    Skywork-OR1, arXiv 2505.22312: a bonus that is there exactly when entropy is short.
    """

    target: float = 0.2
    step: float = 1e-4
    low: float = 0.0
    high: float = 5e-3

    def __post_init__(self):
        if self.target <= 0 or self.step <= 0 or not 0 <= self.low <= self.high or self.high == 0:
            raise ValueError(
                f"target, step and high must be positive and 0 <= low <= high: "
                f"{self.target}, {self.step}, {self.low}, {self.high}"
            )

    def __call__(self, coef: jax.Array, entropy: jax.Array) -> tuple[jax.Array, jax.Array]:
        """(next state, coefficient to use in this step); entropy in nats a token."""
        short = entropy < self.target
        state = jnp.clip(coef + jnp.where(short, self.step, -self.step), self.low, self.high)
        return state, jnp.where(short, state, 0.0)
