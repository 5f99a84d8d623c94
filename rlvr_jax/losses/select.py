"""Choosing tokens by what the whole minibatch looks like.

Ranks and means over a minibatch do not add up over micro-batches, so the choice is made once,
before the split, from quantities that are constants by then: the log-probs and entropies at the
start of the update phase.  For the first update they are the current ones.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rlvr_jax.masking import masked_mean


def covariance(adv_BT: jax.Array, logp_BT: jax.Array, mask_BT: jax.Array) -> jax.Array:
    """(A - mean A)(log pi - mean log pi) of each unmasked token; 0 elsewhere.

    arXiv 2505.22617: the token's share of the fall of the entropy under one step.
    """
    adv_BT = adv_BT - masked_mean(adv_BT, mask_BT)
    logp_BT = logp_BT - masked_mean(logp_BT, mask_BT)
    return jnp.where(mask_BT, adv_BT * logp_BT, 0.0)


def top(score_BT: jax.Array, candidate_BT: jax.Array, share: float, mask_BT) -> jax.Array:
    """True at the candidates with the highest scores; max(1, share * unmasked tokens) of them.

    Ties at the threshold are all taken, so that the order of rows does not matter.
    """
    number = jnp.floor(share * jnp.sum(mask_BT) + 1e-4).astype(jnp.int32)
    ranked = jnp.sort(jnp.where(candidate_BT, score_BT, -jnp.inf).reshape(-1))[::-1]
    threshold = ranked[jnp.clip(number, 1, ranked.size) - 1]
    return candidate_BT & (score_BT >= threshold)


def scatter(logp_BT: jax.Array) -> jax.Array:
    """A number in [0, 1) for each token that looks random and is a function of its log-prob.

    A loss holds no random key, and the choice may depend neither on the split of the batch nor on
    the order of its rows; so the bits of the float and the column are mixed (murmur3's finaliser).
    """
    bits = jax.lax.bitcast_convert_type(logp_BT.astype(jnp.float32), jnp.uint32)
    column = jnp.arange(logp_BT.shape[1], dtype=jnp.uint32) + jnp.uint32(1)
    h = bits ^ (column * jnp.uint32(0x9E3779B9))
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h = (h ^ (h >> jnp.uint32(shift))) * jnp.uint32(factor)
    h = h ^ (h >> jnp.uint32(16))
    return (h >> jnp.uint32(8)).astype(jnp.float32) / jnp.float32(2**24)
