"""How the processes inside talk: a message is its length and plain data (programs.py's protocol).

Standard library only; see child.py.
"""

from __future__ import annotations

import os
import socket
from collections import deque

import plain

HEAD = 8  # bytes of a message's length


def read(data: socket.socket, opaque=None) -> object:
    """One message."""
    size = int.from_bytes(_exactly(data, HEAD), "big")
    return plain.loads(_exactly(data, size), opaque)


def write(data: socket.socket, message: object, opaque=None) -> None:
    """Send one message."""
    body = plain.dumps(message, opaque)
    data.sendall(len(body).to_bytes(HEAD, "big") + body)


def _exactly(data: socket.socket, size: int) -> bytes:
    pieces = []
    while size:
        piece = data.recv(min(size, 1 << 20))
        if not piece:
            os._exit(0)  # the caller has gone
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def containers(values: list) -> list:
    """What of the values can be changed in place, in the order in which both sides find it."""
    found = []
    for value in values:
        if isinstance(value, list | deque | dict | set):
            found.append(value)
        if isinstance(value, list | tuple | deque | dict):
            found += containers(list(value.values() if isinstance(value, dict) else value))
    return found


def text_of(error: BaseException) -> str:
    """What an exception says, bounded; "" if it cannot say."""
    try:
        return str(error)[:200]
    except BaseException:  # its own __str__ may do anything
        return ""
