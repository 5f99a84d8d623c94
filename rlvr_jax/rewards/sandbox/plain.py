"""Plain data as type-tagged JSON: the only thing that passes between a sandbox and its caller.

None, booleans, text and small integers are themselves; everything else is [tag, payload].  A
subclass is written as its base, so that what arrives never carries code: an object that claims to
equal everything arrives as the number or list it also is, or not at all.

Both sides use this file; in the sandbox it is imported on its own, so it imports the standard
library alone.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

MAX_DEPTH = 200
_SMALL = 2**53

_VIEWS = {"K": type({}.keys()), "V": type({}.values()), "I": type({}.items())}
_SEQUENCES = {"l": list, "t": tuple, "s": set, "z": frozenset, "q": deque}


class NotPlain(TypeError):
    """A value that has no plain form."""


def dumps(value: object, opaque: Callable[[object], object] | None = None) -> bytes:
    """The value as bytes.  opaque: gives the node for a value that is not plain (else NotPlain)."""
    return json.dumps(encode(value, opaque), separators=(",", ":")).encode()


def loads(data: bytes, opaque: Callable[[object], object] | None = None) -> object:
    """The value.  ValueError, TypeError or RecursionError for anything that `dumps` never writes.

    opaque: makes something of an opaque node's payload; without it such a node is NotPlain.
    """
    return decode(json.loads(data), opaque)


def encode(value: object, opaque=None, depth: int = 0) -> object:
    """The node of a value."""
    if depth > MAX_DEPTH:
        raise NotPlain("nested too deeply")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        number = int.__index__(value)
        return number if -_SMALL < number < _SMALL else ["i", hex(number)]
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, float):
        return ["f", float.__float__(value).hex()]
    for tag, kind in _SEQUENCES.items():
        if isinstance(value, kind):
            return [tag, [encode(item, opaque, depth + 1) for item in value]]
    if isinstance(value, dict):
        pairs = value.items()
        return [
            "d",
            [[encode(k, opaque, depth + 1), encode(v, opaque, depth + 1)] for k, v in pairs],
        ]
    return _rare(value, opaque, depth)


def _rare(value: object, opaque, depth: int) -> object:
    if isinstance(value, bytes | bytearray):
        return ["b", bytes(value).hex()]
    if isinstance(value, complex):
        return ["c", [value.real.hex(), value.imag.hex()]]
    if isinstance(value, Fraction):
        return ["F", [hex(value.numerator), hex(value.denominator)]]
    if isinstance(value, Decimal):
        return ["D", str(value)]
    if isinstance(value, range):
        return ["r", [hex(value.start), hex(value.stop), hex(value.step)]]
    for tag, kind in _VIEWS.items():
        if isinstance(value, kind):
            return [tag, encode(list(value), opaque, depth)]
    if hasattr(type(value), "tolist"):  # arrays and scalars of numerical libraries
        return encode(value.tolist(), opaque, depth + 1)
    if opaque is None:
        raise NotPlain(f"{type(value).__name__} is not plain data")
    return ["h", opaque(value)]


def decode(node: object, opaque=None, depth: int = 0) -> object:
    """The value of a node."""
    if depth > MAX_DEPTH:  # no deeper than `encode`: what arrived can be passed on
        raise NotPlain("nested too deeply")
    if node is None or isinstance(node, bool | int | str):
        return node
    if not isinstance(node, list) or len(node) != 2 or not isinstance(node[0], str):
        raise NotPlain("not a node")
    tag, load = node
    if tag in _SEQUENCES:
        return _SEQUENCES[tag](decode(item, opaque, depth + 1) for item in load)
    if tag == "d":
        return {decode(k, opaque, depth + 1): decode(v, opaque, depth + 1) for k, v in load}
    if tag in _VIEWS:
        return _view(tag, decode(load, opaque, depth))
    if tag == "h" and opaque is not None:
        return opaque(load)
    if tag not in _ATOMS:
        raise NotPlain(f"no tag {tag!r:.20}")
    return _ATOMS[tag](load)


def _view(tag: str, items: object) -> object:
    if not isinstance(items, list):
        raise NotPlain("not a view")
    if tag == "V":
        return dict(enumerate(items)).values()
    return dict.fromkeys(items).keys() if tag == "K" else dict(items).items()


_ATOMS = {
    "i": lambda load: int(load, 16),
    "f": float.fromhex,
    "b": bytes.fromhex,
    "c": lambda load: complex(*map(float.fromhex, load)),
    "F": lambda load: Fraction(*(int(part, 16) for part in load)),
    "D": Decimal,
    "r": lambda load: range(*(int(part, 16) for part in load)),
}
