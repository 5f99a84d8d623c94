"""Where in a completion the answer stands.

Only text after the thoughts counts: after the last ``</think>``; an opened ``<think>`` that never
closes leaves no answer.  Every function is linear in the length of the text.
"""

from __future__ import annotations

import re

PLACES = ("answer_tag", "boxed", "hashes")

_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")


def final_text(text: str) -> str:
    """The text after the thoughts; "" if the thoughts never end."""
    end = text.rfind("</think>")
    if end >= 0:
        text = text[end + len("</think>") :]
    return "" if "<think>" in text else text


def last_tag(text: str, tag: str = "answer") -> str | None:
    """Content of the last closed ``<tag>...</tag>``, or None."""
    end = text.rfind(f"</{tag}>")
    start = text.rfind(f"<{tag}>", 0, end) if end >= 0 else -1
    return text[start + len(tag) + 2 : end].strip() if start >= 0 else None


def closing_brace(text: str, start: int) -> int:
    """Index of the brace that closes the one before `start`, or -1; `\\{` does not count."""
    depth, i = 1, start
    while i < len(text):
        char = text[i]
        if char == "\\":
            i += 2
            continue
        depth += (char == "{") - (char == "}")
        if depth == 0:
            return i
        i += 1
    return -1


def last_boxed(text: str) -> str | None:
    r"""Content of the last ``\boxed{...}`` or ``\fbox{...}``; None if there is none or the last one
    never closes (an earlier box is not the final answer)."""
    start = None
    for match in _BOX.finditer(text):
        start = match.end()
    if start is None:
        return None
    end = closing_brace(text, start)
    return text[start:end].strip() if end >= 0 else None


def after_hashes(text: str) -> str | None:
    """The rest of the line after the last ``####`` (GSM8K's mark), or None."""
    start = text.rfind("####")
    if start < 0:
        return None
    rest = text[start + 4 :].split("\n", 1)[0].strip()
    return rest or None


_EXTRACTORS = {"answer_tag": last_tag, "boxed": last_boxed, "hashes": after_hashes}


def check_places(places: tuple[str, ...], allowed: tuple[str, ...] = PLACES) -> None:
    """ValueError for an unknown place."""
    for place in places:
        if place not in allowed:
            raise ValueError(f'extract: no place "{place}" (there are: {", ".join(allowed)})')
    if not places:
        raise ValueError(f"extract: at least one place of {', '.join(allowed)}")


def extract(text: str, places: tuple[str, ...]) -> str | None:
    """The answer at the first of `places` that the text after the thoughts has, or None."""
    text = final_text(text)
    for place in places:
        found = _EXTRACTORS[place](text)
        if found is not None:
            return found
    return None
