"""The policy that the KL term holds on to, and how it follows the one that is trained."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp

from rlvr_jax.checkpoint import Checkpoints
from rlvr_jax.choices import REFERENCE_MODES
from rlvr_jax.learner import TrainState, reset_moments


@dataclasses.dataclass(frozen=True)
class ReferenceConfig:
    """ "none"; "frozen" as it was when RL began; "every_n": the policy takes its place every
    `every` steps (ProRL, arXiv 2505.24864); "ema": ref <- decay ref + (1 - decay) policy after
    every step."""

    mode: str = "none"
    every: int = 0  # steps, with every_n
    reset_optimizer: bool = False  # with every_n: Adam begins anew each time; the schedule goes on
    decay: float = 0.0  # with ema

    def __post_init__(self):
        if self.mode not in REFERENCE_MODES:
            modes = ", ".join(REFERENCE_MODES)
            raise ValueError(f'reference.mode is one of {modes}, got "{self.mode}"')
        if self.every < 0 or not 0 <= self.decay < 1:
            raise ValueError(
                f"reference.every must not be negative and decay must be in [0, 1); got "
                f"{self.every}, {self.decay}"
            )


@dataclasses.dataclass
class Reference:
    """The frozen parameters of a stage: what the KL is measured against; under adapters their base,
    whatever the mode.  `version` numbers what they are saved as; None where they have moved since.
    """

    config: ReferenceConfig
    params: Any
    version: int | None

    def follow(self, state: TrainState, step: int, index: int) -> TrainState:
        """After `step` of the stage, `index` of the run; the state comes back, reset perhaps."""
        c = self.config
        if c.mode == "ema":
            self.params = _average(self.params, state.params, jnp.float32(c.decay))
            self.version = None
        elif c.mode == "every_n" and step % c.every == 0:
            self.params, self.version = copy_of(state.params), index
            return reset_moments(state) if c.reset_optimizer else state
        return state

    def save(self, checkpoints: Checkpoints, index: int) -> int:
        """The version that a checkpoint of moment `index` needs, on disk when this returns."""
        if self.version is None:
            self.version = index
        checkpoints.save_reference(self.version, self.params)
        return self.version

    def fresh(self, step: int) -> bool:
        """The policy equals the reference when `step` begins."""
        if self.config.mode == "every_n":
            return (step - 1) % self.config.every == 0
        return step == 1


@functools.partial(jax.jit, donate_argnums=0)
def _average(old, new, decay):
    return jax.tree.map(lambda a, b: decay * a + (1.0 - decay) * b, old, new)


def copy_of(params):
    """The same arrays again, where they are."""
    where = jax.tree.map(lambda a: a.sharding, params)
    return jax.jit(functools.partial(jax.tree.map, jnp.copy), out_shardings=where)(params)


def open_reference(
    config: ReferenceConfig,
    checkpoints: Checkpoints,
    state: TrainState,
    index: int,
    saved: int | None,
) -> Reference | None:
    """The reference of a stage: the policy as it begins, or version `saved` of a resumed stage.

    Where adapters are trained it is their base: the same arrays.  They are then there to be saved
    even if nothing is measured against them.
    """
    if state.frozen is not None:
        return Reference(config, state.frozen, index if saved is None else saved)
    if config.mode == "none":
        return None
    if saved is None:
        return Reference(config, copy_of(state.params), index)
    shapes = jax.tree.map(
        lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=a.sharding), state.params
    )
    return Reference(config, checkpoints.restore_reference(saved, shapes), saved)
