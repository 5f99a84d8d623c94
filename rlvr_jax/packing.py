"""Sequences into rows of fixed length, on the host.  Only `scoring` looks inside a packed row.

A row holds one or more units: a prompt followed by several of its completions.  A completion token
sees its prompt and its own completion, nothing else, so a prompt is computed once for as many
completions as fit into the row beside it.  Rows are cut into micro-batches of equal shape.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import jax
import numpy as np

from rlvr_jax.batch import pytree
from rlvr_jax.slots import bucket


@dataclasses.dataclass(frozen=True)
class PackConfig:
    """Sizes in tokens."""

    row_tokens: int = 512  # aimed length of a packed row; longer where one sequence needs it
    micro_tokens: int = 16384  # most tokens (padding included) of one forward and backward pass

    def __post_init__(self):
        if not 1 <= self.row_tokens <= self.micro_tokens:
            raise ValueError(
                "pack needs 1 <= row_tokens <= micro_tokens, got "
                f"{self.row_tokens} and {self.micro_tokens}"
            )


@pytree
class PackedRows:
    """One micro-batch of rows.

    Two positions of a row see each other (causally) where their group is the same and the key is
    of the prompt (segment 0) or of the same segment.  Slot m of a row scores `target` from the
    hidden state at `source`, and belongs to entry `slot` of the flattened [B, T] result.
    """

    tokens_RS: jax.Array  # int32
    position_RS: jax.Array  # int32 position in its own sequence (prompt, then completion)
    group_RS: jax.Array  # int32 which unit of the row; 0 = padding
    segment_RS: jax.Array  # int32 0 = prompt, 1.. = completion within the unit
    source_RM: jax.Array  # int32 column of the token before the target
    target_RM: jax.Array  # int32 token id
    slot_RM: jax.Array  # int32 b * T + t; B * T where unused


@dataclasses.dataclass(frozen=True)
class Sequences:
    """What is to be scored: completions and the prompts they continue."""

    prompts: Sequence[Sequence[int]]  # N lists of token ids
    prompt_of_B: np.ndarray  # int index into prompts
    tokens_BT: np.ndarray  # int32
    length_B: np.ndarray  # int32 completion tokens, at least 1


@dataclasses.dataclass(frozen=True)
class _Unit:
    prompt: int
    rows: tuple[int, ...]
    size: int


def pack(s: Sequences, config: PackConfig, width: int, shards: int = 1):
    """Micro-batches [(PackedRows, row index [B'])], all of one shape.

    width: T of the result.  Row index entries of -1 are padding.  Row counts are multiples of
    `shards`; a sequence is never cut, and completions of one prompt may land in several units.
    """
    pairs = zip(s.prompt_of_B, s.length_B, strict=True)
    longest = max(len(s.prompts[n]) + int(t) for n, t in pairs)
    row_tokens = config.row_tokens if longest <= config.row_tokens else bucket(longest, 8)
    rows = _first_fit(_units(s, row_tokens), row_tokens)
    most = max(1, config.micro_tokens // row_tokens // shards) * shards
    count = math.ceil(len(rows) / most)
    per_batch = min(most, bucket(math.ceil(len(rows) / count), shards))
    parts = [rows[i : i + per_batch] for i in range(0, len(rows), per_batch)]
    held = [sum(len(unit.rows) for row in part for unit in row) for part in parts]
    scored = [sum(int(s.length_B[b]) for unit in row for b in unit.rows) for row in rows]
    shape = (
        per_batch,
        row_tokens,
        min(bucket(max(scored), 8), row_tokens),
        bucket(max(held), shards),
    )
    return [_fill(s, part, shape, width) for part in parts]


def _units(s: Sequences, row_tokens: int) -> list[_Unit]:
    """Each prompt with as many of its completions as fit into a row, over and over."""
    order = np.argsort(s.prompt_of_B, kind="stable")
    units, rows, size = [], [], 0

    def close():
        if rows:
            units.append(_Unit(int(s.prompt_of_B[rows[0]]), tuple(rows), size))

    for b in map(int, order):
        length, prompt = int(s.length_B[b]), int(s.prompt_of_B[b])
        if rows and (prompt != s.prompt_of_B[rows[0]] or size + length > row_tokens):
            close()
            rows, size = [], 0
        size += length + (0 if rows else len(s.prompts[prompt]))
        rows.append(b)
    close()
    return units


def _first_fit(units: list[_Unit], row_tokens: int) -> list[list[_Unit]]:
    """Longest units first, each into the first row with room (first-fit decreasing)."""
    rows: list[list[_Unit]] = []
    room: list[int] = []
    for unit in sorted(units, key=lambda u: -u.size):
        for i, free in enumerate(room):
            if unit.size <= free:
                rows[i].append(unit)
                room[i] -= unit.size
                break
        else:
            rows.append([unit])
            room.append(row_tokens - unit.size)
    return rows


def _fill(s: Sequences, part, shape: tuple[int, int, int, int], width: int):
    rows, length, scored, held = shape
    out = {name: np.zeros((rows, length), np.int32) for name in ("tokens", "position")}
    out |= {name: np.zeros((rows, length), np.int32) for name in ("group", "segment")}
    out |= {name: np.zeros((rows, scored), np.int32) for name in ("source", "target")}
    out["slot"] = np.full((rows, scored), held * width, np.int32)
    index, at = np.full(held, -1, np.int64), 0
    for r, units in enumerate(part):
        column = m = 0
        for g, unit in enumerate(units, start=1):
            prompt = s.prompts[unit.prompt]
            p, last = len(prompt), column + len(prompt) - 1
            _write(out, r, column, prompt, range(p), g, 0)
            column += p
            for k, b in enumerate(unit.rows, start=1):
                n = int(s.length_B[b])
                tokens = s.tokens_BT[b, :n]
                _write(out, r, column, tokens, range(p, p + n), g, k)
                out["source"][r, m : m + n] = [last, *range(column, column + n - 1)]
                out["target"][r, m : m + n] = tokens
                out["slot"][r, m : m + n] = at * width + np.arange(n)
                index[at] = b
                at, column, m = at + 1, column + n, m + n
    by_slot = ("source", "target", "slot")
    named = {f"{k}_RM" if k in by_slot else f"{k}_RS": v for k, v in out.items()}
    return PackedRows(**named), index


def _write(out, row: int, start: int, tokens, positions, group: int, segment: int) -> None:
    where = slice(start, start + len(tokens))
    out["tokens"][row, where], out["position"][row, where] = tokens, positions
    out["group"][row, where], out["segment"][row, where] = group, segment
