"""Multi-head latent attention; DeepSeek-AI 2024, arXiv 2405.04434, section 2.1.

A token's keys and values are made of one short latent, and all heads share one rotated key:

    q_h = [q_h^nope; R q_h^rope]                 of x, or of norm(x W_qa) where queries have a rank
    c   = norm((x W_kva)[:kv_rank])              k^rope = R (x W_kva)[kv_rank:]
    k_h = [(c W_kvb)_h^nope; k^rope]             v_h = (c W_kvb)_h^value

Keys and values are expanded before they are attended to and cached, so the attention functions and
the cache are those of every other model; values may be shorter or longer than keys.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rlvr_jax.models.config import AttentionConfig

DOWN = ("q_a", "kv_a")  # projections to latents: the ones that may have a bias
LATENT_EPS = 1e-6  # of the latents' norms, whatever that of the others: so it was trained


def matrices(a: AttentionConfig, width: int) -> dict[str, tuple[int, ...]]:
    """Shapes of the projections, [in, out]."""
    m, q = a.mla, a.heads * a.head_dim
    shapes = {"q_a": (width, m.q_rank), "q_b": (m.q_rank, q)} if m.q_rank else {"q": (width, q)}
    return shapes | {
        "kv_a": (width, m.kv_rank + a.rotated),
        "kv_b": (m.kv_rank, a.heads * (a.head_dim - a.rotated + a.value_dim)),
        "o": (a.heads * a.value_dim, width),
    }


def latents(a: AttentionConfig) -> dict[str, int]:
    """Sizes of the latents, which have a norm each."""
    return ({"q_a": a.mla.q_rank} if a.mla.q_rank else {}) | {"kv_a": a.mla.kv_rank}


def queries_keys_values(
    a: AttentionConfig,
    x: jax.Array,
    linear: Callable[[str, jax.Array], jax.Array],
    norm: Callable[[str, jax.Array], jax.Array],
    rotate: Callable[[jax.Array], jax.Array],
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """q, k [..., heads, head_dim] and v [..., heads, value_dim] of x [..., D].

    linear, norm: the block's, by name.  rotate: of [..., heads, rotated], in halves.
    """
    plain, heads = a.head_dim - a.rotated, (*x.shape[:-1], a.heads, -1)

    def turn(y):
        if a.mla.interleave:  # the same order for queries and keys: no product changes
            y = jnp.concatenate([y[..., 0::2], y[..., 1::2]], axis=-1)
        return rotate(y)

    q = linear("q_b", norm("q_a_norm", linear("q_a", x))) if a.mla.q_rank else linear("q", x)
    q = q.reshape(heads)
    q = jnp.concatenate([q[..., :plain], turn(q[..., plain:])], axis=-1)
    down = linear("kv_a", x)
    shared = turn(down[..., None, a.mla.kv_rank :])
    up = linear("kv_b", norm("kv_a_norm", down[..., : a.mla.kv_rank])).reshape(heads)
    shared = jnp.broadcast_to(shared, (*up.shape[:-1], a.rotated))
    return q, jnp.concatenate([up[..., :plain], shared], axis=-1), up[..., plain:]
