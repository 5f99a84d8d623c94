"""A scalar head on final hidden states: the critic's value, or a reward model's score."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rlvr_jax.models.config import ModelConfig


def init_value_head(config: ModelConfig) -> dict[str, jax.Array]:
    """{"weight": [D], "bias": []}, all zero: the first values are 0 and say nothing wrong."""
    return {"weight": jnp.zeros(config.width, jnp.float32), "bias": jnp.zeros((), jnp.float32)}


def values_of(head: dict[str, jax.Array], hidden: jax.Array) -> jax.Array:
    """float32 values [...] of hidden states [..., D]."""
    return hidden.astype(jnp.float32) @ head["weight"] + head["bias"]
