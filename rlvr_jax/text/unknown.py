"""Text that the tokenizer cannot spell: it becomes the unknown token without a word."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def unknown_id(tokenizer: PreTrainedTokenizerBase) -> int | None:
    """The id of text the tokenizer lacks; None where it has none, or one that means something else
    besides (GPT-2's is its end token)."""
    unknown = tokenizer.unk_token_id
    return None if unknown in (tokenizer.bos_token_id, tokenizer.eos_token_id) else unknown


def unknown_characters(tokenizer: PreTrainedTokenizerBase, text: str) -> str:
    """The characters of `text` that the tokenizer lacks, in order of code point."""
    unknown, characters = unknown_id(tokenizer), sorted(set(text))
    if unknown is None or not characters:
        return ""
    rows = tokenizer(characters, add_special_tokens=False)["input_ids"]
    return "".join(c for c, ids in zip(characters, rows, strict=True) if unknown in ids)


def name_characters(characters: str, most: int = 4) -> str:
    """Characters for a message, by code point, since some of them cannot be seen."""
    named = [f"U+{ord(c):04X}" + (f' "{c}"' if c.isprintable() else "") for c in characters[:most]]
    return ", ".join(named) + (", ..." if len(characters) > most else "")
