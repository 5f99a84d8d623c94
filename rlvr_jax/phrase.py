"""The phrase of a forced interruption as people write it: settings, token ids, and whether it
fits."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

from rlvr_jax.interruption import Interruption
from rlvr_jax.text import unknown_id


@dataclasses.dataclass(frozen=True)
class InterruptionConfig:
    """Training, evaluation and `rlvr sample` alike; see interruption.py."""

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
