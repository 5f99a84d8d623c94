"""Reading and writing safetensors files piece by piece, in bounded memory.

A file is 8 bytes of header length, a JSON header (name -> dtype, shape, byte range), then the bytes
of the tensors.  The `safetensors` package hands out whole arrays and, without torch, no bfloat16;
here a tensor is read by blocks of rows straight into the place where it is wanted.
"""

from __future__ import annotations

import json
import math
import os
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

DTYPES = {"F32": np.dtype(np.float32), "F16": np.dtype(np.float16)}
DTYPES["BF16"] = np.dtype(ml_dtypes.bfloat16)
NAMES = {dtype: name for name, dtype in DTYPES.items()}
BLOCK = 1 << 21  # bytes read at a time: long runs to write when transposed, and still in the cache
INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
WIDE = ("e_score_correction_bias",)  # ends of names: written in float32 beside any other type


class Stored(NamedTuple):
    """Where a tensor lies."""

    path: pathlib.Path
    dtype: np.dtype
    shape: tuple[int, ...]
    offset: int


def read_header(path: pathlib.Path) -> dict[str, Stored]:
    """Name -> place of every tensor of one file; ValueError if it is cut short or not one, or if
    its tensors do not fill it one after the other."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > size - 8:
            raise ValueError(f"{path} is truncated or no safetensors file ({size} bytes)")
        try:
            header = json.loads(file.read(length))
        except ValueError:
            raise ValueError(f"{path} is no safetensors file: its header is not JSON") from None
    if not isinstance(header, dict):
        raise ValueError(f"{path} is no safetensors file: its header is not a JSON object")
    header.pop("__metadata__", None)
    start = 8 + length
    spans = {name: _span(path, name, entry) for name, entry in header.items()}
    end = 0
    for name, (first, last) in sorted(spans.items(), key=lambda item: item[1]):
        if start + last > size:
            raise ValueError(
                f'{path} is truncated: tensor "{name}" ends at byte {start + last}, '
                f"the file has {size}"
            )
        if first != end:
            raise ValueError(
                f'{path} is damaged: tensor "{name}" begins at byte {start + first}, '
                f"the one before it ends at {start + end}"
            )
        end = last
    if start + end != size:
        raise ValueError(
            f"{path} is damaged: its tensors end at byte {start + end}, the file has {size}"
        )
    return {
        name: Stored(path, DTYPES[entry["dtype"]], tuple(entry["shape"]), start + spans[name][0])
        for name, entry in header.items()
    }


def _span(path: pathlib.Path, name: str, entry: Any) -> tuple[int, int]:
    """First byte of a tensor and the one after its last, after the header; ValueError unless its
    entry in the header is whole."""
    entry = entry if isinstance(entry, dict) else {}
    dtype, shape, offsets = (entry.get(key) for key in ("dtype", "shape", "data_offsets"))
    if not (isinstance(dtype, str) and _sizes(shape) and _sizes(offsets) and len(offsets) == 2):
        raise ValueError(
            f'{path}: tensor "{name}" needs dtype, shape (sizes) and data_offsets (two bytes); '
            f"its header has dtype={dtype!r}, shape={shape!r}, data_offsets={offsets!r}"
        )
    if dtype not in DTYPES:
        raise ValueError(
            f'{path}: tensor "{name}" has dtype {dtype}; {", ".join(DTYPES)} can be read'
        )
    first, last = offsets
    if math.prod(shape) * DTYPES[dtype].itemsize != last - first:
        raise ValueError(
            f'{path}: tensor "{name}" has {last - first} bytes for shape {tuple(shape)}'
        )
    return first, last


def _sizes(value: Any) -> bool:
    """A list of whole numbers, none below 0."""
    return isinstance(value, list) and all(type(n) is int and n >= 0 for n in value)


def read_headers(folder: pathlib.Path) -> dict[str, Stored]:
    """Name -> place of every tensor of a checkpoint folder, of one file or of sharded ones."""
    index = folder / INDEX
    if index.is_file():
        try:
            where = json.loads(index.read_text())["weight_map"]
            files = sorted(set(where.values()))
            missing = [f for f in files if not (folder / f).is_file()]
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ValueError(
                f"{index} is malformed: it has no weight_map from tensors to files"
            ) from None
    elif (folder / SINGLE).is_file():
        where, files, missing = None, [SINGLE], []
    else:
        raise ValueError(f"{folder} holds no {SINGLE} and no {INDEX} (other formats are not read)")
    if missing:
        raise ValueError(f"{folder} lacks {len(missing)} of {len(files)} shards: {_some(missing)}")
    out: dict[str, Stored] = {}
    for file in files:
        for name, stored in read_header(folder / file).items():
            if name in out:
                raise ValueError(f'tensor "{name}" is in {out[name].path.name} and in {file}')
            out[name] = stored
    lost = sorted(set(where or ()) - set(out))
    if lost:
        raise ValueError(f"{index} names {len(lost)} tensors that no shard holds: {_some(lost)}")
    return out


def _some(names: list[str], shown: int = 4) -> str:
    rest = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + rest


def read_into(out: np.ndarray, stored: Stored, rows: slice, columns: slice, transpose: bool):
    """out[...] = tensor[rows, columns], transposed where asked, in out's dtype.

    A vector has no columns.  At most one block of the file is in memory at a time.
    """
    width = math.prod(stored.shape[1:])
    line = width * stored.dtype.itemsize
    step = max(1, BLOCK // max(line, 1))
    if transpose:
        step = max(step // 64 * 64, 64)  # single rows would write single columns
    # One buffer for all blocks: fresh pages cost as much as reading them.
    buffer = np.empty(min(step, rows.stop - rows.start) * width, stored.dtype)
    with open(stored.path, "rb", buffering=0) as file:
        for first in range(rows.start, rows.stop, step):
            last = min(first + step, rows.stop)
            block = buffer[: (last - first) * width]
            _read_exactly(file, block, stored.offset + first * line)
            block = block.reshape(last - first, *stored.shape[1:])
            if block.ndim > 1:
                block = block[:, columns]
            at = slice(first - rows.start, last - rows.start)
            if transpose:
                out[:, at] = _widen(block, out.dtype).T
            else:
                out[at] = _widen(block, out.dtype)


def _widen(block: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """bfloat16 to float32 by shifting bits, ten times faster than the cast; others unchanged."""
    if block.dtype != ml_dtypes.bfloat16 or dtype != np.float32:
        return block
    bits = np.ascontiguousarray(block).view(np.uint16).astype(np.uint32)
    bits <<= 16
    return bits.view(np.float32)


def _read_exactly(file, block: np.ndarray, offset: int) -> None:
    view = memoryview(block.view(np.uint8)).cast("B")
    while len(view):
        count = os.preadv(file.fileno(), [view], offset)
        if not count:
            raise ValueError(f"{file.name} ended while it was read")
        view, offset = view[count:], offset + count


def write_file(
    path: pathlib.Path,
    tensors: Mapping[str, tuple[tuple[int, ...], Callable[[], np.ndarray]]],
    dtype: np.dtype,
) -> int:
    """One file of tensors, name -> (shape, function that gives the array), one in memory at a
    time; those of `WIDE` come first, so that each begins at a multiple of its item's size.  Returns
    the bytes of all tensors."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    types = {n: DTYPES["F32"] if n.endswith(WIDE) else dtype for n in tensors}
    tensors = dict(sorted(tensors.items(), key=lambda item: not item[0].endswith(WIDE)))
    end = 0
    for name, (shape, _) in tensors.items():
        first, end = end, end + math.prod(shape) * types[name].itemsize
        entry = {"dtype": NAMES[types[name]], "shape": list(shape), "data_offsets": [first, end]}
        header[name] = entry
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, (shape, make) in tensors.items():
            array = np.ascontiguousarray(make(), dtype=types[name])
            if array.shape != shape:
                raise ValueError(f'tensor "{name}" has shape {array.shape}, not {shape}')
            file.write(array.reshape(-1).view(np.uint8).data)
    return end


def write_files(
    folder: pathlib.Path,
    tensors: Mapping[str, tuple[tuple[int, ...], Callable[[], np.ndarray]]],
    dtype: np.dtype,
    shard_bytes: int,
) -> None:
    """All tensors under the names that Hugging Face gives: one file, or shards and their index."""
    shards = _split(tensors, dtype.itemsize, shard_bytes)
    if len(shards) == 1:
        write_file(folder / SINGLE, tensors, dtype)
        return
    total, where = 0, {}
    for i, names in enumerate(shards, 1):
        file = f"model-{i:05d}-of-{len(shards):05d}.safetensors"
        total += write_file(folder / file, {name: tensors[name] for name in names}, dtype)
        where |= dict.fromkeys(names, file)
    index = {"metadata": {"total_size": total}, "weight_map": where}
    (folder / INDEX).write_text(json.dumps(index, indent=1) + "\n")


def _split(tensors: Mapping[str, tuple], itemsize: int, limit: int) -> list[list[str]]:
    shards: list[list[str]] = [[]]
    size = 0
    for name, (shape, _) in tensors.items():
        own = math.prod(shape) * itemsize
        if shards[-1] and size + own > limit:
            shards.append([])
            size = 0
        shards[-1].append(name)
        size += own
    return shards


def names_of(tensors: Iterable[str], shown: int = 4) -> str:
    """Some names and how many more there are, for an error message."""
    return _some(sorted(tensors), shown)
