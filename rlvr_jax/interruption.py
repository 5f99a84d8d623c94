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
from collections.abc import Collection
from typing import Any

import jax
import jax.numpy as jnp

from rlvr_jax.text import unknown_id

NEVER = 2**31 - 1  # a column that no completion reaches
PLACE = 2**32 - 1  # where in a sample's randomness its place is drawn; tokens are drawn from 0 on


@dataclasses.dataclass(frozen=True)
class InterruptionConfig:
    """Training and evaluation alike."""

    after: tuple[int, ...] = ()  # tokens before the phrase: (n,), or (low, high) and drawn between
    text: str = ""  # the phrase
    unless: str = ""  # one token, as "</think>": a completion that has it is left alone

    def __post_init__(self):
        if len(self.after) > 2 or list(self.after) != sorted(self.after):
            raise ValueError(
                "interruption.after is a number of tokens or the lowest and the highest of a "
                f"range, got {self.after}"
            )
        if min(self.after, default=1) < 1:
            raise ValueError(f"interruption.after must be at least 1, got {self.after}")
        if self.after and not self.text:
            raise ValueError("interruption.after needs interruption.text, what is written there")
        if not self.after and (self.text or self.unless):
            raise ValueError(
                "interruption.text and unless have no effect without interruption.after"
            )


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


def resolve(
    config: InterruptionConfig, tokenizer: Any, stop_ids: Collection[int]
) -> Interruption | None:
    """None where nothing is interrupted.  ValueError: a phrase that would end the completion or
    that the tokenizer cannot spell, an `unless` that is not one token."""
    if not config.after:
        return None
    phrase, unless = (
        tuple(tokenizer(text, add_special_tokens=False)["input_ids"])
        for text in (config.text, config.unless)
    )
    unknown = unknown_id(tokenizer)
    if not phrase or (unknown is not None and unknown in phrase):
        raise ValueError(f"the tokenizer cannot spell interruption.text {config.text!r}")
    if set(phrase) & set(stop_ids):
        raise ValueError(f"interruption.text {config.text!r} holds an end token")
    if len(unless) > 1 or (unknown is not None and unknown in unless):
        raise ValueError(f"interruption.unless {config.unless!r} is not one token but {unless}")
    if set(unless) & set(stop_ids):
        raise ValueError(f"interruption.unless {config.unless!r} ends a completion anyway")
    return Interruption(config.after[0], config.after[-1], phrase, unless)


def check_limits(found: Interruption | None, limits: Collection[int]) -> None:
    """ValueError where a limit, in tokens of a completion, leaves no token after the phrase."""
    if found is not None and min(limits) <= found.reach:
        raise ValueError(
            f"interruption: {found.high} tokens and a phrase of {len(found.phrase)} leave no room "
            f"for an answer in completions of at most {min(limits)} tokens (interruption.after, "
            "decode.max_new_tokens, rollout.limits)"
        )


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
