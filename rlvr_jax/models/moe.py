"""A mixture of experts: every token goes to its top k, no capacity, nothing dropped."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rlvr_jax.models.config import MoeConfig


def mixture(
    x: jax.Array,
    router: jax.Array,
    experts: tuple[jax.Array, jax.Array, jax.Array],
    config: MoeConfig,
    activation: Callable[[jax.Array], jax.Array],
) -> jax.Array:
    """sum over the top k experts e of p_e * down_e(act(gate_e(x)) * up_e(x)), like x [..., D].

    p = softmax(x @ router) in float32, of the chosen ones divided by their sum where
    `config.normalize`.  router [D, E]; gate, up [E, D, F]; down [E, F, D].  Tokens are sorted by
    expert, so that each expert multiplies one contiguous run of rows.
    """
    gate, up, down = (w.astype(x.dtype) for w in experts)
    flat = x.reshape(-1, x.shape[-1])
    scores = (flat @ router.astype(x.dtype)).astype(jnp.float32)
    weight, chosen = jax.lax.top_k(jax.nn.softmax(scores, axis=-1), config.top_k)
    if config.normalize:
        weight = weight / weight.sum(axis=-1, keepdims=True)
    order = jnp.argsort(chosen.reshape(-1), stable=True)
    token = order // config.top_k
    sizes = jnp.bincount(chosen.reshape(-1), length=config.experts)
    rows = flat[token]
    h = activation(jax.lax.ragged_dot(rows, gate, sizes)) * jax.lax.ragged_dot(rows, up, sizes)
    out = jax.lax.ragged_dot(h, down, sizes)
    out = out * weight.reshape(-1)[order, None].astype(x.dtype)
    return jnp.zeros_like(flat).at[token].add(out).reshape(x.shape)
