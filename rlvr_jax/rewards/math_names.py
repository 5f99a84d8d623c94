r"""Names of quantities before "=": ``p(x)``, ``P(A|B)``, ``\mathbb{E}[X]``, ``(f \circ g)(x)``.

Such a name is one symbol where it stands alone on the left of an equation; anywhere else a letter
before a bracket is a factor.
"""

from __future__ import annotations

from rlvr_jax.rewards.math_stream import APPLIED, GREEK, Node, Stream
from rlvr_jax.rewards.math_units import word_set

_EQUALS = word_set("= := approx equiv")
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_MEASURES = word_set("P E Pr Var")  # anything may stand in their brackets: P(X = 2)
_MAX_TOKENS = 24


def quantity(s: Stream) -> Node | None:
    """The name that begins here, consumed, if it has a bracket and an equals sign follows."""
    at, head = _head(s, s.at)
    if not head:
        return None
    at, decorated = _decorations(s, at)
    end = _group_end(s, at, "([")
    if end < 0 or s.tokens[end : end + 1] == [] or s.tokens[end][1] not in _EQUALS:
        return None
    if head in APPLIED and not decorated:
        return None  # a function of the grammar
    inside = s.tokens[at + 1 : end - 1]
    if head not in _MEASURES and not head.startswith('"') and not _simple(inside, head):
        return None
    name = "".join(str(value) for _, value in s.tokens[s.at : end])
    s.at = end
    return ("sym", name)


def _head(s: Stream, at: int) -> tuple[int, str]:
    """The place behind the name and the name; "" if nothing of the kind begins here."""
    kind, value = s.tokens[at] if at < len(s.tokens) else ("", "")
    if kind == "name" and value not in "ei":
        return at + 1, value
    if kind == "text" and not value[:1].isdigit():
        return at + 1, f'"{value}'
    if kind == "cmd" and (value in GREEK or value == "Pr"):
        return at + 1, value
    if (kind, value) == ("cmd", "mathbb"):
        braced = s.tokens[at + 1 : at + 4]
        if [v for _, v in braced[::2]] == ["{", "}"]:
            return at + 4, str(braced[1][1])
        return at + 2, str(braced[0][1]) if braced else ""
    end = _group_end(s, at, "(")
    inside = s.tokens[at + 1 : end - 1]  # (f o g), (f + g)
    letters = [v for k, v in inside if k == "name"]
    composed = len(inside) in (2, 3) and len(letters) == 2 and letters[0] in APPLIED
    return (end, "(") if end > 0 and composed and letters[1] in APPLIED else (at, "")


def _decorations(s: Stream, at: int) -> tuple[int, bool]:
    """The place behind primes, subscripts and superscripts, and whether there are super- or
    subscripts."""
    decorated = False
    while at + 1 < len(s.tokens) and s.tokens[at][1] in ("_", "^", "'"):
        if s.tokens[at][1] == "'":
            at += 1
            continue
        decorated = True
        end = _group_end(s, at + 1, "{")
        at = end if end > 0 else at + 2
    return at, decorated


def _group_end(s: Stream, at: int, openers: str) -> int:
    """The place behind the bracket that begins here, or -1."""
    if at >= len(s.tokens) or s.tokens[at][0] != "op" or str(s.tokens[at][1]) not in openers:
        return -1
    opener, depth = s.tokens[at][1], 0
    for place in range(at, min(len(s.tokens), at + _MAX_TOKENS)):
        value = s.tokens[place][1] if s.tokens[place][0] == "op" else ""
        depth += (value == opener) - (value == _CLOSING[opener])
        if not depth:
            return place + 1
    return -1


def _simple(inside: list, head: str) -> bool:
    """Whether the bracket holds bare arguments, so that it is no factor: p(x), a(2), f(x, y)."""
    if head in ("x", "y", "z"):
        return len(inside) == 1 and inside[0] in (("name", "t"), ("name", "s"))
    values = [token for token in inside if token != ("op", ",")]
    bare = all(k in ("name", "num") or (k == "cmd" and v in GREEK) for k, v in values)
    return bool(values) and bare and len(values) == len(inside) // 2 + 1
