"""Sampled ids to text while they are being sampled."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from rlvr_jax.text.encode import decode

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

UNFINISHED = "\ufffd"  # what the bytes of half a character decode to


class TextStream:
    """The text of a growing completion, in pieces that never have to be taken back.

    The whole completion is decoded each time: what a token reads as can depend on the one before.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, stop_ids: Collection[int]):
        self._tokenizer, self._stop_ids = tokenizer, stop_ids
        self.text = ""  # what was given out

    def feed(self, ids: Sequence[int]) -> str:
        """What the completion `ids`, from its start, adds to the text given out so far.  Half a
        character waits for its other half."""
        text = decode(self._tokenizer, ids, self._stop_ids)
        return "" if text.endswith(UNFINISHED) else self._give(text)

    def finish(self, ids: Sequence[int]) -> str:
        """The rest, whatever it is."""
        return self._give(decode(self._tokenizer, ids, self._stop_ids))

    def _give(self, text: str) -> str:
        if not text.startswith(self.text):
            return ""  # an earlier piece reads differently now; it stands as it was given
        new, self.text = text[len(self.text) :], text
        return new
