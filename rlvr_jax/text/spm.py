"""A Hugging Face tokenizer rebuilt from a GGUF file's SentencePiece vocabulary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rlvr_jax.text.char import load_transformers

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)  # llama.cpp's token types
SPACE = "\u2581"


def spm_tokenizer(facts: Mapping[str, Any]) -> PreTrainedTokenizerFast:
    """The tokenizer that the keys "tokenizer.ggml.*" describe; ValueError for another kind.

    SentencePiece BPE joins, again and again, the adjacent pair whose joint piece has the highest
    score; ranked by that score, all pairs of pieces that make up a piece are the merges of a BPE.
    Control tokens are special; user-defined ones are found first, in the raw text.
    """
    own = {k.removeprefix("tokenizer.ggml."): v for k, v in facts.items() if "ggml" in k}
    if own.get("model") != "llama" or "scores" not in own:
        raise ValueError(f'GGUF tokenizer "{own.get("model")}" is not supported (llama is)')
    if own.get("add_space_prefix", True):
        raise ValueError("GGUF tokenizers with add_space_prefix are not supported")
    hf = load_transformers()
    from tokenizers import AddedToken

    tokens, kinds = own["tokens"], own["token_type"]
    backend = _backend(own)
    for kind, special in ((CONTROL, True), (USER_DEFINED, False)):
        found = [t for t, k in zip(tokens, kinds, strict=True) if k == kind]
        add = backend.add_special_tokens if special else backend.add_tokens
        add([AddedToken(t, normalized=False, special=special) for t in found])
    names = {"bos": "bos_token", "eos": "eos_token", "unknown": "unk_token", "padding": "pad_token"}
    special = {
        name: tokens[own[f"{key}_token_id"]]
        for key, name in names.items()
        if f"{key}_token_id" in own
    }
    return hf.PreTrainedTokenizerFast(
        tokenizer_object=backend, clean_up_tokenization_spaces=False, **special
    )


def _backend(own: Mapping[str, Any]):
    from tokenizers import Tokenizer, decoders, models, normalizers, processors

    tokens = own["tokens"]
    vocab = {token: i for i, token in enumerate(tokens)}
    unknown = tokens[own["unknown_token_id"]]
    merges = _merges(tokens, own["scores"], own["token_type"])
    backend = Tokenizer(
        models.BPE(vocab, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True)
    )
    backend.normalizer = normalizers.Replace(" ", SPACE)
    backend.decoder = decoders.Sequence(
        [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    if own.get("add_bos_token"):
        bos = own["bos_token_id"]
        backend.post_processor = processors.TemplateProcessing(
            single=f"{tokens[bos]} $A", special_tokens=[(tokens[bos], bos)]
        )
    return backend


def _merges(tokens: Sequence[str], scores: Sequence[float], kinds: Sequence[int]):
    """Pairs of pieces, the pair whose joint piece scores highest first."""
    score = {t: s for t, s, k in zip(tokens, scores, kinds, strict=True) if k == NORMAL}
    ranked = []
    for token, value in score.items():
        for cut in range(1, len(token)):
            left, right = token[:cut], token[cut:]
            if left in score and right in score:
                ranked.append((-value, -score[left], -score[right], left, right))
    return [(left, right) for *_, left, right in sorted(ranked)]
