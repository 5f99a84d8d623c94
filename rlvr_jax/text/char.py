"""A character tokenizer that is a real Hugging Face tokenizer object.

Every printable ASCII character is one token, and so are the four tags of the answer form, which
keeps a worked sum of three numbers at about 25 tokens.  The 128 ids are full, on purpose: a
power of two keeps the embedding and the head evenly divisible over devices.
"""

from __future__ import annotations

import logging
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

SPECIAL = ("<pad>", "<eos>", "<bos>", "<unk>")
TAGS = ("<think>", "</think>", "<answer>", "</answer>")
# Printable ASCII, then every other character that ordinary English maths text uses; the selection
# is what occurs in the GSM8K files, and the degree sign.
CHARACTERS = (
    "\n\t"
    + "".join(map(chr, range(32, 127)))
    + "\u2019\u2018\u201c\u201d\u2013\u2014\u2212\u00a0"  # quotes, dashes, minus, fixed space
    + "\u00d7\u00f7\u221a\u00b0\u00b3\u00bd\u00bc\u00be"  # times, divide, root, degree, cube, parts
    + "\u20ac\u00a3\u00a2\u00e9\u00e8\u00f1\u00e7"  # euro, pound, cent; e acute, e grave, n, c
)
VOCABULARY = SPECIAL + TAGS + tuple(CHARACTERS)


def load_transformers() -> ModuleType:
    """transformers, imported on first use (two seconds) and without its remark that torch is
    missing: only its tokenizers are used here."""

    def keep(record: logging.LogRecord) -> bool:
        return "PyTorch was not found" not in record.getMessage()

    logger = logging.getLogger("transformers")
    logger.addFilter(keep)
    try:
        import transformers
    finally:
        logger.removeFilter(keep)
    return transformers


def char_tokenizer() -> PreTrainedTokenizerFast:
    """The built-in tokenizer: 128 ids, one a character; unknown characters become ``<unk>``.

    Ids: 0 ``<pad>``, 1 ``<eos>``, 2 ``<bos>``, 3 ``<unk>``, 4-7 the think and answer tags, then
    `CHARACTERS`.  ``decode(encode(text)) == text`` for text over `VOCABULARY`.  No BOS is added;
    the tags are ordinary tokens, so ``skip_special_tokens`` keeps them.
    """
    hf = load_transformers()
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

    ids = {token: i for i, token in enumerate(VOCABULARY)}
    backend = Tokenizer(models.WordLevel(ids, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    backend.decoder = decoders.Fuse()
    backend.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in SPECIAL])
    backend.add_tokens([AddedToken(t, normalized=False, special=False) for t in TAGS])
    return hf.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="<pad>",
        eos_token="<eos>",
        bos_token="<bos>",
        unk_token="<unk>",
        clean_up_tokenization_spaces=False,
    )
