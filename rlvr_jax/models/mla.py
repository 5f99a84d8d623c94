"""Multi-head latent attention; DeepSeek-AI 2024, arXiv 2405.04434, section 2.1.

A token's keys and values are made of one short latent, and all heads share one rotated key:

    q_h = [q_h^nope; R q_h^rope]                 of x, or of norm(x W_qa) where queries have a rank
    c   = norm((x W_kva)[:kv_rank])              k^rope = R (x W_kva)[kv_rank:]
    k_h = [(c W_kvb)_h^nope; k^rope]             v_h = (c W_kvb)_h^value

Expanded keys and values are those of any other model, of two sizes.  Absorbed, the heads attend to
the latents as to one shared head of keys [c; k^rope] and values c:

    q_h . k_h = [W_h^nope q_h^nope; q_h^rope] . [c; k^rope]
    sum_s p_s v_hs = W_h^value sum_s p_s c_s     with W_kvb = [W_h^nope; W_h^value] of every head

The numbers are the same.  A token then takes 2 kv_rank + rotary_dim entries of the sampler's cache,
however many heads there are; its pairs take more arithmetic, which is why scoring expands.
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
    up: jax.Array | None,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """q, k [..., heads, head_dim] and v [..., heads, value_dim] of x [..., D].

    linear, norm: the block's, by name.  rotate: of [..., heads, rotated], in halves.  Absorbed (up
    is W_kvb) they are q [..., heads, kv_rank + rotated], k and v of one head.
    """
    plain, heads = a.head_dim - a.rotated, (*x.shape[:-1], a.heads, -1)

    def turn(y):
        if a.mla.interleave:  # the same order for queries and keys: no product changes
            y = jnp.concatenate([y[..., 0::2], y[..., 1::2]], axis=-1)
        return rotate(y)

    q = linear("q_b", norm("q_a_norm", linear("q_a", x))) if a.mla.q_rank else linear("q", x)
    q = q.reshape(heads)
    q, q_turned = q[..., :plain], turn(q[..., plain:])
    down = linear("kv_a", x)
    latent, shared = norm("kv_a_norm", down[..., : a.mla.kv_rank]), down[..., a.mla.kv_rank :]
    shared = turn(shared[..., None, :])
    if a.mla.absorb:
        q = jnp.einsum("...hd,rhd->...hr", q, _heads(a, up, x)[..., :plain])
        k = v = latent[..., None, :]
    else:
        kv = linear("kv_b", latent).reshape(heads)
        k, v = kv[..., :plain], kv[..., plain:]
        shared = jnp.broadcast_to(shared, (*k.shape[:-1], a.rotated))
    return (*(jnp.concatenate(p, axis=-1) for p in ((q, q_turned), (k, shared))), v)


def values_of(a: AttentionConfig, out: jax.Array, up: jax.Array) -> jax.Array:
    """[..., heads, value_dim] of what absorbed attention gives, [..., heads, kv_rank]."""
    weight = _heads(a, up, out)[..., a.head_dim - a.rotated :]
    return jnp.einsum("...hr,rhd->...hd", out, weight)


def _heads(a: AttentionConfig, up: jax.Array, like: jax.Array) -> jax.Array:
    return up.astype(like.dtype).reshape(a.mla.kv_rank, a.heads, -1)
