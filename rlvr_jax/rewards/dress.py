r"""What may be wrapped around a whole answer without changing what it says."""

from __future__ import annotations

from rlvr_jax.rewards.extract import closing_brace

_PAIRS = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"), ("**", "**"))
_PAIRS += (("```", "```"), ("`", "`"))
_BOXES = (r"\boxed{", r"\fbox{", r"\text{", r"\mathrm{")
MAX_LAYERS = 6


def undress(text: str) -> str:
    r"""The answer without math delimiters, a box, ``\text``, bold or back quotes around all of it,
    and without one full stop at its end.

    Only what encloses the whole answer is dropped: text beside a box stays, so that several
    candidates do not become one.
    """
    text = _stopped(text)
    for _ in range(MAX_LAYERS):
        inner = _inner(text)
        if inner is None:
            break
        text = _stopped(inner)
    return text


def _stopped(text: str) -> str:
    text = text.strip()
    return text[:-1].rstrip() if text.endswith(".") and not text.endswith("..") else text


def _inner(text: str) -> str | None:
    for opening, closing in _PAIRS:
        size = len(opening)
        if len(text) > 2 * size and text.startswith(opening) and text.endswith(closing):
            inner = text[size:-size]
            return None if closing in inner else inner
    for opening in _BOXES:
        if text.startswith(opening) and closing_brace(text, len(opening)) == len(text) - 1:
            return text[len(opening) : -1]
    return None
