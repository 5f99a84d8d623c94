"""Forced interruption: a completion that runs long is told that time is up, and may go on to its
answer.

ScaleRL (arXiv 2510.13786) bounds thinking so, in place of a penalty on length: behind 10k to 12k
tokens, at a place drawn for each completion, stands a phrase that says so and ends with "</think>".
The sampler writes the phrase into the completion as if the policy had said it; the policy reads it
and goes on.  Its tokens count for length and for the verifier, but nobody drew them: they have no
log-probability and are never trained on.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

NEVER = 2**31 - 1  # a column that no completion reaches
PLACE = 2**32 - 1  # where in a sample's randomness its place is drawn; tokens are drawn from 0 on


@dataclasses.dataclass(frozen=True)
class Interruption:
    """The same in token ids."""

    low: int
    high: int
    phrase: tuple[int, ...]
    unless: tuple[int, ...] = ()  # any of these tokens spares the completion

    @property
    def reach(self) -> int:
        """Most tokens of a completion up to the end of the phrase."""
        return self.high + len(self.phrase)


def begin(found: Interruption | None, key_NG: jax.Array) -> jax.Array | None:
    """int32 [N, G]: the column where each completion's phrase begins; None where none does."""
    if found is None:
        return None

    def one(key):
        return jax.random.randint(
            jax.random.fold_in(key, jnp.uint32(PLACE)), (), found.low, found.high + 1, jnp.int32
        )

    return jax.vmap(one)(key_NG.reshape(-1)).reshape(key_NG.shape)


def force(
    found: Interruption | None, begin_NG: jax.Array | None, time: jax.Array, token: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array | None]:
    """(the tokens [N, G] of column `time`, which of them are the phrase's, where the phrases begin
    from now on)."""
    if found is None:
        return token, jnp.zeros(token.shape, bool), None
    offset = time - begin_NG
    forced = (offset >= 0) & (offset < len(found.phrase))
    phrase = jnp.asarray(found.phrase, token.dtype)
    token = jnp.where(forced, phrase[jnp.clip(offset, 0, len(found.phrase) - 1)], token)
    if found.unless:
        spared = ~forced & jnp.isin(token, jnp.asarray(found.unless, token.dtype))
        begin_NG = jnp.where(spared, NEVER, begin_NG)
    return token, forced, begin_NG
