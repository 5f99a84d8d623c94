"""Where in a completion the program stands: fenced blocks, as CommonMark has them.

A fence is a line of three or more backquotes or tildes; it may stand in a list and right inside an
``<answer>`` tag.  A block ends at a bare fence of the same character that is no shorter.  One thing
is added: a fence line inside a triple-quoted string of the program belongs to the string.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

TAGS = ("python", "py", "python3")

_FENCE = re.compile(r"(`{3,}|~{3,})[ \t]*(.*)")
_MARKER = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])?[ \t]*")
_CLOSE = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*(?:</answer>.*)?")
_QUOTES = re.compile(r"\\.|\"\"\"|'''|[\"'#]")


@dataclasses.dataclass(frozen=True)
class Block:
    """tag: the first word behind the fence in lower case, "" where none is.  code: its lines."""

    tag: str
    code: str


def last_code(text: str) -> str | None:
    """The last closed block fenced as Python, else the last fenced without a language, else None.

    Lines end at "\\n" alone.  A block that never closes is none.
    """
    tagged = plain = None
    for block in blocks(text):
        if block.tag in TAGS:
            tagged = block.code
        elif not block.tag:
            plain = block.code
    return plain if tagged is None else tagged


def blocks(text: str) -> Iterator[Block]:
    """The closed blocks in order."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    place, strings = 0, True
    while place < len(lines):
        opening = _opening(lines[place])
        place += 1
        if not opening:
            continue
        fence, tag, indent = opening
        end, strings = _end(lines, place, fence, strings and tag in ("", *TAGS))
        if end is None:
            return
        yield Block(tag, _dedented(lines[place:end], indent))
        place = end + 1


def _opening(line: str) -> tuple[str, str, int] | None:
    """(fence, tag, depth) of a line that opens a block."""
    found = _FENCE.search(line)
    if not found or (found[1][0] == "`" and "`" in found[2]):
        return None
    before = line[: found.start()]
    in_tag = before.rstrip(" \t").endswith("<answer>")
    if not in_tag and not _MARKER.fullmatch(before):
        return None
    tag = re.split(r"[\s:,;{}.]+", found[2].strip().lower().lstrip("{."))[0]
    return found[1], tag, 0 if in_tag else len(before)


def _end(lines: list[str], start: int, fence: str, strings: bool) -> tuple[int | None, bool]:
    """(The line that closes the block, whether strings are still to be heeded).

    A string that never ends hides no fence, here and from here on: the search stays linear.
    """
    first, quote = None, ""
    for place in range(start, len(lines)):
        closing = _CLOSE.fullmatch(lines[place])
        if closing and closing[1][0] == fence[0] and len(closing[1]) >= len(fence):
            if not quote:
                return place, strings
            first = place if first is None else first
        if strings:
            quote = _open_quote(lines[place], quote)
    return first, False


def _open_quote(line: str, quote: str) -> str:
    """The triple quotes that are open behind the line, given those open before it."""
    for match in _QUOTES.finditer(line):
        word = match[0]
        if quote:
            quote = "" if word == quote else quote
        elif word == "#":
            return ""
        elif word in "\"'" or len(word) == 3:
            quote = word
    return quote if len(quote) == 3 else ""


def _dedented(lines: list[str], width: int) -> str:
    """Without up to `width` leading blanks, as deep as the fence stands."""
    cut = [len(line) - len(line.lstrip(" \t")) for line in lines]
    return "".join(line[min(width, n) :] + "\n" for line, n in zip(lines, cut, strict=True))
