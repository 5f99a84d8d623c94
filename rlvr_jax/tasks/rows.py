"""Reading JSON lines: every fault is a ValueError that names the file and the line."""

from __future__ import annotations

import dataclasses
import functools
import gzip
import hashlib
import json
import os
import sys
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rlvr_jax.registry import nearest
from rlvr_jax.types import Message

GZIP_MAGIC = b"\x1f\x8b"


@dataclasses.dataclass(frozen=True)
class Row:
    """One record and where it stands, "file:line", for error messages."""

    where: str
    columns: Mapping[str, Any]

    def column(self, name: str) -> Any:
        """The value of column `name`; ValueError with the nearest name if there is none."""
        if name not in self.columns:
            have = list(self.columns)
            raise ValueError(
                f'{self.where}: no column "{name}"{nearest(name, have)} '
                f"(there are: {', '.join(have) or 'none'})"
            )
        return self.columns[name]

    def text(self, name: str) -> str:
        """Column `name`, which must be text or a number, as stripped text."""
        value = self.column(name)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError(
                f'{self.where}: column "{name}" must be text or a number, {came(value)}'
            )
        return str(value).strip()

    def prompt(self, name: str) -> str | tuple[Message, ...]:
        """Column `name`: non-empty text, or messages with a role and a content each."""
        value = self.column(name)
        if isinstance(value, str) and value.strip():
            return value
        if isinstance(value, list) and value:
            return tuple(self._message(name, i, m) for i, m in enumerate(value))
        raise ValueError(
            f'{self.where}: column "{name}" must be non-empty text or a list of messages, '
            f"{came(value)}"
        )

    def _message(self, name: str, i: int, message: Any) -> Message:
        keys = ("role", "content")
        if isinstance(message, dict) and all(isinstance(message.get(k), str) for k in keys):
            return {k: message[k] for k in keys}
        raise ValueError(
            f'{self.where}: column "{name}", message {i} must be an object with "role" and '
            f'"content" as text, {came(message)}'
        )


def came(value: Any) -> str:
    """'got <type>: <start of the value>'."""
    shown = repr(value)
    return f"got {type(value).__name__}: {shown if len(shown) <= 60 else shown[:57] + '...'}"


def read_rows(path: str) -> tuple[Row, ...]:
    """All records of a JSON-lines file, gzip or plain, read once a process while unchanged.

    Blank lines are skipped.  ValueError: missing or empty file, a line that is not UTF-8, not
    JSON, or not an object.
    """
    path = os.path.expanduser(path)
    return _read(path, _stamp(path))


def write_rows(path: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write records as JSON lines, UTF-8."""
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def output_path(path: str, inputs: Sequence[str]) -> str:
    """`path` (~ expanded), where a file can be written that is none of `inputs`; else ValueError.

    To be called before long work; nothing is created or emptied yet.
    """
    path = os.path.expanduser(path)
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise ValueError(f'"{path}" cannot be written: there is no folder "{folder}"')
    if not path or os.path.isdir(path):
        raise ValueError(f'"{path}" cannot be written: the name of a file is needed')
    for name in map(os.path.expanduser, inputs):
        if os.path.exists(name) and os.path.exists(path) and os.path.samefile(name, path):
            raise ValueError(f'"{path}" is the file that is read; it would be overwritten')
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise ValueError(f'"{path}" cannot be written: permission denied')
    return path


def file_sha256(path: str) -> str:
    """sha256 (hex) of the file's uncompressed content."""
    path = os.path.expanduser(path)
    _stamp(path)
    return hashlib.sha256(_content(path)).hexdigest()


def _stamp(path: str) -> tuple[int, int]:
    if os.path.exists(path) and not os.path.isfile(path):
        what = "folder" if os.path.isdir(path) else "device or a pipe"
        raise ValueError(f"{path}: is a {what}, not a file")
    if not os.path.isfile(path):
        folder, name = os.path.split(path)
        beside = sorted(os.listdir(folder or ".")) if os.path.isdir(folder or ".") else []
        raise ValueError(f"{path}: no such file{nearest(name, beside)}")
    status = os.stat(path)
    return status.st_mtime_ns, status.st_size


@functools.lru_cache(maxsize=8)
def _read(path: str, stamp: tuple[int, int]) -> tuple[Row, ...]:
    # `stamp` is part of the key alone: a changed file is read again.
    # Split at \n only: str.splitlines would cut JSON strings at U+2028 and its like.
    lines = _content(path).split(b"\n")
    rows = tuple(_parse(path, n, line) for n, line in enumerate(lines, 1) if line.strip())
    if not rows:
        raise ValueError(f"{path}: the file holds no records")
    return rows


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read()
        data = gzip.decompress(data) if data.startswith(GZIP_MAGIC) else data
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: cannot be read: {error}") from error
    return data.removeprefix(b"\xef\xbb\xbf")


def _parse(path: str, number: int, line: bytes) -> Row:
    where = f"{path}:{number}"
    try:
        value = json.loads(line.decode("utf-8"), object_pairs_hook=_object)
        if b"\\ud" in line.lower():
            json.dumps(value, ensure_ascii=False).encode("utf-8")  # half a surrogate pair raises
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where}: {_fault(error, line)}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{where}: a line must be a JSON object, {came(value)}")
    return Row(where, value)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; ValueError for a key that it has twice, of which one would be lost."""
    out = dict(pairs)
    if len(out) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f'has the key "{twice}" twice')
    return out


def _fault(error: Exception, line: bytes) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8 at byte {error.start + 1} of the line"
    if isinstance(error, UnicodeEncodeError):
        return "holds half of a surrogate pair (\\ud800 to \\udfff), which is not text"
    if isinstance(error, RecursionError):
        return "JSON nested too deeply"
    if not isinstance(error, json.JSONDecodeError):  # `_object`, or an int beyond Python's limit
        digits = f"holds a number of more than {sys.get_int_max_str_digits()} digits"
        return digits if str(error).startswith("Exceeds") else str(error)
    text = line.decode("utf-8").strip()
    shown = text if len(text) <= 60 else text[:57] + "..."
    return f"not JSON: {error.msg} at column {error.colno}, in {shown}"
