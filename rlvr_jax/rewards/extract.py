"""Where in a completion the answer stands.

Only text after the thoughts counts: after the last ``</think>``; an opened ``<think>`` that never
closes leaves no answer.  Every function is linear in the length of the text.
"""

from __future__ import annotations

import functools
import re

PLACES = ("answer_tag", "boxed", "hashes", "phrase", "last_number")

_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{|\\(?:boxed|fbox)\s+(\d+|[A-Za-z])(?![\w.])", re.ASCII)
_PHRASE = re.compile(
    r"\b(?:final\s+)?answer\b\s*(?:\*\*)?\s*(?:is|are|be|[:=])\s*:?|^\s*\**A\s*:"
    r"|\bfinal answer\b\W{0,4}\n",
    re.IGNORECASE | re.MULTILINE,
)
_SENTENCE = re.compile(r"\.(?=\s|$)|\n")
_REASON = re.compile(r"\s*[,;(]?\s+\(?(?:because|since)\b", re.IGNORECASE)
_LEAD = re.compile(
    r"\s*(?P<text>\\text\w*\s*\{)?\s*(?:(?:so|thus|hence|therefore),?\s+)?(?:the\s+)?"
    r"(?:final\s+|correct\s+)?answer\b(?:\s*:|\s+is\b\s*:?|\s*=)\s*(?P<closed>\})?",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"[-+]?\$?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:/\d+)?%?", re.ASCII)


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
    depth = 1
    for match in _BRACE.finditer(text, start):
        if match[0] == "{":
            depth += 1
        elif match[0] == "}":
            depth -= 1
            if depth == 0:
                return match.start()
    return -1


def _closers(text: str) -> dict[int, int]:
    """For each brace that is closed: the place behind it -> the place of its closing brace."""
    found, stack = {}, []
    for match in _BRACE.finditer(text):
        if match[0] == "{":
            stack.append(match.end())
        elif match[0] == "}" and stack:
            found[stack.pop()] = match.start()
    return found


def last_boxed(text: str) -> str | None:
    r"""Content of the last balanced ``\boxed{...}`` or ``\fbox{...}``, or None.

    Of nested boxes the outermost counts; a box that never closes does not count.  ``\boxed 5`` (one
    number or letter) is legal TeX and read too.
    """
    boxes = list(_BOX.finditer(text))
    if not boxes:
        return None
    closers = _closers(text[boxes[0].start() :])
    found, at, shift = None, 0, boxes[0].start()
    for box in boxes:
        if box.start() < at:
            continue  # inside the box before
        if box[1]:
            found, at = box[1], box.end()
        elif box.end() - shift in closers:
            at = closers[box.end() - shift] + shift
            found = text[box.end() : at].strip()
    return found


def after_hashes(text: str) -> str | None:
    """The rest of the line after the last ``####`` (GSM8K's mark), or None; no heading of words."""
    start = text.rfind("####")
    if start < 0:
        return None
    rest = text[start + 4 :].split("\n", 1)[0].strip(" \t*#")
    heading = re.match(r"[A-Za-z]{2,}\s+\S", rest)
    return None if heading else rest or None


def _last(pattern: re.Pattern, text: str) -> re.Match | None:
    return functools.reduce(lambda _, match: match, pattern.finditer(text), None)


def after_phrase(text: str) -> str | None:
    """What follows the last "answer is", "Answer:" or a line's "A:", to the end of the sentence."""
    match = _last(_PHRASE, text)
    if match is None:
        return None
    rest = text[match.end() :].lstrip(" \t\n*:")
    end = _SENTENCE.search(rest)
    rest = rest[: end.start()] if end else rest
    reason = _REASON.search(rest)
    return (rest[: reason.start()] if reason else rest).strip(" \t*") or None


def without_lead(found: str) -> str:
    r"""The answer without a lead such as "The answer is" or ``\text{Answer: }`` inside its mark."""
    match = _LEAD.match(found)
    if not match:
        return found
    rest = found[match.end() :]
    if match["text"] and not match["closed"]:
        return match["text"].lstrip() + rest
    return rest.strip()


def last_number(text: str) -> str | None:
    """The last number of the text: a last resort that pays for any closing number."""
    match = _last(_NUMBER, text)
    return match[0] if match else None


_EXTRACTORS = {
    "answer_tag": last_tag,
    "boxed": last_boxed,
    "hashes": after_hashes,
    "phrase": after_phrase,
    "last_number": last_number,
}


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
            return without_lead(found)
    return None
