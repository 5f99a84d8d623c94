"""A mixture of experts: every token goes to its top k, no capacity, nothing dropped."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from rlvr_jax.models.config import MoeConfig
from rlvr_jax.sharding import by_rows


def mixture(
    x: jax.Array,
    router: jax.Array,
    bias: jax.Array | None,
    experts: tuple[jax.Array, jax.Array, jax.Array],
    config: MoeConfig,
    activation: Callable[[jax.Array], jax.Array],
    mesh: Mesh | None = None,
) -> jax.Array:
    """sum over the top k experts e of p_e * down_e(act(gate_e(x)) * up_e(x)), like x [..., D].

    p: from `route`.  router [D, E]; bias [E], with sigmoid scores; gate, up [E, D, F]; down
    [E, F, D].  On a mesh every device sends its own rows through its part of each expert.
    """
    whole, split = ((None, None), (None,)), ((None, None, "mlp"),) * 2 + ((None, "mlp", None),)
    run = functools.partial(_mixture, config=config, activation=activation)
    return by_rows(run, mesh, x, (router, bias, *experts), whole + split)


def _mixture(x, router, bias, *experts, config: MoeConfig, activation) -> jax.Array:
    """Tokens are sorted by expert, so that each expert multiplies one contiguous run of rows."""
    gate, up, down = (w.astype(x.dtype) for w in experts)
    flat = x.reshape(-1, x.shape[-1])
    weight, chosen = route(flat, router, bias, config)
    order = jnp.argsort(chosen.reshape(-1), stable=True)
    token = order // config.top_k
    sizes = jnp.bincount(chosen.reshape(-1), length=config.experts)
    rows = flat[token]
    h = activation(jax.lax.ragged_dot(rows, gate, sizes)) * jax.lax.ragged_dot(rows, up, sizes)
    out = jax.lax.ragged_dot(h, down, sizes)
    out = out * weight.reshape(-1)[order, None].astype(x.dtype)
    return jnp.zeros_like(flat).at[token].add(out).reshape(x.shape)


def route(
    x: jax.Array, router: jax.Array, bias: jax.Array | None, config: MoeConfig
) -> tuple[jax.Array, jax.Array]:
    """The weights (float32) and numbers of each token's experts, both [N, k], of x [N, D].

    softmax: the k largest p = softmax(x @ router).  sigmoid (DeepSeek-AI 2024, arXiv 2412.19437,
    eq. 12 to 16): p = sigmoid(x @ router), all of it in float32; chosen are the k largest p + bias
    in the best groups.  The bias is not in the weights and so has no gradient: whoever balances
    the load moves it.  `config.normalize` divides the weights by their sum, `config.scale`
    multiplies them.
    """
    if config.scoring == "softmax":
        scores = (x @ router.astype(x.dtype)).astype(jnp.float32)
        weight, chosen = jax.lax.top_k(jax.nn.softmax(scores, axis=-1), config.top_k)
    else:
        wide, exact = (x.astype(jnp.float32), router.astype(jnp.float32)), jax.lax.Precision.HIGHEST
        scores = jax.nn.sigmoid(jnp.matmul(*wide, precision=exact))
        _, chosen = jax.lax.top_k(_in_best_groups(scores + bias, config), config.top_k)
        weight = jnp.take_along_axis(scores, chosen, axis=-1)
    if config.normalize:
        weight = weight / (weight.sum(axis=-1, keepdims=True) + 1e-20)  # sigmoids can all be 0
    return config.scale * weight, chosen


def _in_best_groups(score: jax.Array, config: MoeConfig) -> jax.Array:
    """score [N, E], -inf outside the `top_groups` groups whose two best experts sum highest."""
    if config.top_groups == config.groups:
        return score
    grouped = score.reshape(score.shape[0], config.groups, -1)
    _, best = jax.lax.top_k(jax.lax.top_k(grouped, 2)[0].sum(axis=-1), config.top_groups)
    inside = (best[..., None] == jnp.arange(config.groups)).any(axis=-2)
    return jnp.where(inside[..., None], grouped, -jnp.inf).reshape(score.shape)
