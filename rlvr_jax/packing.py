"""Sequences into rows of fixed length, on the host.  Only `scoring` looks inside a packed row.

A row holds one or more units: a prompt followed by several of its completions.  A completion token
sees its prompt and its own completion, nothing else, so a prompt is computed once for as many
completions as fit into the row beside it.  Rows are cut into micro-batches of equal shape.

Two layouts, the same numbers.  Lines: one prompt a row, every completion in a slot of its own of
one width; attention is then a few dense products without a wasted pair.  Rows: units end to end,
for completions of uneven length, where slots would be mostly padding.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

import jax
import numpy as np

from rlvr_jax.slots import bucket

LINE_COST = 1.1  # tokens of lines against tokens of rows up to which lines are faster


@dataclasses.dataclass(frozen=True)
class PackConfig:
    """Sizes in tokens."""

    row_tokens: int = 512  # aimed length of a packed row; longer where one sequence needs it
    micro_tokens: int = 16384  # most tokens (padding included) of one forward and backward pass
    layout: str = "auto"  # lines | rows | auto: lines unless they take more than LINE_COST times

    def __post_init__(self):
        if self.layout not in ("auto", "lines", "rows"):
            raise ValueError(f'pack.layout is auto, lines or rows, got "{self.layout}"')
        if not 1 <= self.row_tokens <= self.micro_tokens:
            raise ValueError(
                "pack needs 1 <= row_tokens <= micro_tokens, got "
                f"{self.row_tokens} and {self.micro_tokens}"
            )


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["tokens_RS", "position_RS", "group_RS", "segment_RS"]
    + ["source_RM", "target_RM", "slot_RM"],
    meta_fields=["line"],
)
@dataclasses.dataclass(frozen=True, kw_only=True)
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
    line: tuple[int, int] | None = None  # lines: (prompt width, completion width); None = rows


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
    line, rows, row_tokens = _layout(s, config)
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
    return [_fill(s, part, shape, width, line) for part in parts]


def _layout(s: Sequences, config: PackConfig):
    """(line, rows of units, row length) of the chosen layout."""
    sizes = [len(p) for p in s.prompts]
    longest = max(sizes[n] + int(t) for n, t in zip(s.prompt_of_B, s.length_B, strict=True))
    row_tokens = config.row_tokens if longest <= config.row_tokens else bucket(longest, 8)
    line = bucket(max(sizes[n] for n in s.prompt_of_B), 8), bucket(int(s.length_B.max()), 8)
    slots = max(1, (config.micro_tokens - line[0]) // line[1])
    slots = min(slots, int(np.bincount(s.prompt_of_B).max()))
    lines = [[unit] for unit in _units(s, line[0] + slots * line[1], slots)]
    length = line[0] + slots * line[1]
    if config.layout == "lines":
        return line, lines, length
    rows = _first_fit(_units(s, row_tokens, len(s.length_B)), row_tokens)
    if config.layout == "auto" and len(lines) * length <= LINE_COST * len(rows) * row_tokens:
        return line, lines, length
    return None, rows, row_tokens


def _units(s: Sequences, row_tokens: int, slots: int) -> list[_Unit]:
    """Each prompt with as many of its completions (at most `slots`) as fit into a row,
    repeatedly."""
    order = np.argsort(s.prompt_of_B, kind="stable")
    units, rows, size = [], [], 0

    def close():
        if rows:
            units.append(_Unit(int(s.prompt_of_B[rows[0]]), tuple(rows), size))

    for b in map(int, order):
        length, prompt = int(s.length_B[b]), int(s.prompt_of_B[b])
        full = len(rows) == slots or size + length > row_tokens
        if rows and (full or prompt != s.prompt_of_B[rows[0]]):
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


def _fill(s: Sequences, part, shape: tuple[int, int, int, int], width: int, line):
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
            column += p if line is None else line[0]
            for k, b in enumerate(unit.rows, start=1):
                n = int(s.length_B[b])
                tokens = s.tokens_BT[b, :n]
                _write(out, r, column, tokens, range(p, p + n), g, k)
                out["source"][r, m : m + n] = [last, *range(column, column + n - 1)]
                out["target"][r, m : m + n] = tokens
                out["slot"][r, m : m + n] = at * width + np.arange(n)
                index[at] = b
                at, column, m = at + 1, column + (n if line is None else line[1]), m + n
    by_slot = ("source", "target", "slot")
    named = {f"{k}_RM" if k in by_slot else f"{k}_RS": v for k, v in out.items()}
    return PackedRows(**named, line=line), index


def _write(out, row: int, start: int, tokens, positions, group: int, segment: int) -> None:
    where = slice(start, start + len(tokens))
    out["tokens"][row, where], out["position"][row, where] = tokens, positions
    out["group"][row, where], out["segment"][row, where] = group, segment
