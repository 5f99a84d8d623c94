"""The host's side of a generation: which device slot holds which row, and what came back.

Read in this order: `bucket` (the sizes that shapes may have), `prompt_batch` (rows into the first
grid), `plan_grid` and `place_rows` (rows into a smaller one), `Output` (the buffers that chunks are
filed in), `Samples` (the result).  numpy only.
"""

from __future__ import annotations

import dataclasses

import numpy as np

MIN_ROWS = 8  # compacting below this saves less than its compilation costs


@dataclasses.dataclass(frozen=True, kw_only=True)
class Samples:
    """What came back; B = N * G rows, prompt-major.  Column t is completion token t."""

    tokens_BT: np.ndarray  # int32, 0 after the end
    logp_BT: np.ndarray  # float32 under the distribution sampled from, 0 after the end, 0 if forced
    forced_BT: np.ndarray  # bool: of a forced phrase (interruption.py), not drawn from the policy
    length_B: np.ndarray  # int32, end token included
    eos_B: np.ndarray  # bool: ended by an end token; False: hit the length limit
    decode_steps: int  # sequential steps taken
    decode_rows: int  # rows those steps computed, all steps together

    @property
    def drawn_BT(self) -> np.ndarray:
        """bool: tokens that the policy drew."""
        return (np.arange(self.tokens_BT.shape[1]) < self.length_B[:, None]) & ~self.forced_BT


def bucket(n: int, unit: int = 1) -> int:
    """Smallest of unit * {1, 2, 3, 4, 6, 8, 12, 16, ...} that holds n: few shapes, little
    padding."""
    size = 1
    while size * unit < n:
        size = size * 3 // 2 if size > 1 and size & (size - 1) == 0 else size * 4 // 3 + (size == 1)
    return size * unit


def prompt_batch(prompts, uids, group: int, sample_start: int, max_prompt: int, shards: int):
    """Padded arrays of the prompts and the row map [N, G] (-1 = slot without a row)."""
    longest = max(map(len, prompts))
    if longest > max_prompt:
        raise ValueError(
            f"a prompt has {longest} tokens; decode.max_prompt_tokens allows {max_prompt}"
        )
    if min(map(len, prompts)) == 0:
        raise ValueError("a prompt has no tokens; the model needs at least one to start from")
    count, size = len(prompts), bucket(len(prompts), shards)
    tokens = np.zeros((size, bucket(longest, 8)), np.int32)
    length, uid = np.ones(size, np.int32), np.zeros(size, np.uint32)
    for i, ids in enumerate(prompts):
        tokens[i, : len(ids)], length[i], uid[i] = ids, len(ids), uids[i]
    row = np.full((size, group), -1, np.int64)
    row[:count] = np.arange(count * group).reshape(count, group)
    sample = np.where(row >= 0, sample_start + np.arange(group), -1).astype(np.int32)
    return (tokens, length, uid, sample), row


def plan_grid(live_by_prompt: np.ndarray, group: int, shards: int) -> tuple[int, int]:
    """(N', G') slots for the live rows: the fewest slots, then the fewest copies of a prompt.

    live_by_prompt: live rows of each prompt that has any.  N' is a power of two times `shards`.
    """
    best = None
    width = 1 << max(0, group - 1).bit_length()
    while width >= 1:
        height = int(np.sum(-(-live_by_prompt // width)))
        height = shards * (1 << max(0, -(-height // shards) - 1).bit_length())
        while height * width < MIN_ROWS:
            height *= 2
        if best is None or height * width < best[0] * best[1]:
            best = (height, width)
        width //= 2
    return best


def place_rows(row_NG: np.ndarray, live_NG: np.ndarray, grid: tuple[int, int]):
    """Where each live row goes in a grid of N' x G': (prompt_N', slot_N'G', row_N'G')."""
    height, width = grid
    prompt = np.zeros(height, np.int32)
    slot = np.full((height, width), -1, np.int32)
    row = np.full((height, width), -1, np.int64)
    line = 0
    for n in range(row_NG.shape[0]):
        columns = np.flatnonzero(live_NG[n])
        for start in range(0, len(columns), width):
            part = columns[start : start + width]
            prompt[line] = n
            slot[line, : len(part)] = n * row_NG.shape[1] + part
            row[line, : len(part)] = row_NG[n, part]
            line += 1
    return prompt, slot, row


@dataclasses.dataclass
class Output:
    """The host's buffers while a generation is running."""

    tokens_BT: np.ndarray
    logp_BT: np.ndarray
    forced_BT: np.ndarray
    length_B: np.ndarray
    done_B: np.ndarray
    time: int = 0
    rows: int = 0

    @classmethod
    def start(cls, count: int, width: int) -> Output:
        shape = (count, width)
        return cls(
            np.zeros(shape, np.int32),
            np.zeros(shape, np.float32),
            np.zeros(shape, bool),
            np.zeros(count, np.int32),
            np.zeros(count, bool),
        )

    def take(self, row_NG, start: int, chunk) -> None:
        """File one chunk's columns under the rows that produced them."""
        tokens, logp, forced, length, done, time = chunk
        width, used = int(time) - start, row_NG >= 0
        rows = row_NG[used]
        self.tokens_BT[rows, start : start + width] = tokens[used][:, :width]
        self.logp_BT[rows, start : start + width] = logp[used][:, :width]
        self.forced_BT[rows, start : start + width] = forced[used][:, :width]
        self.length_B[rows], self.done_B[rows] = length[used], done[used]
        self.time = int(time)
        self.rows += width * row_NG.size

    def complete(self, limit: int) -> bool:
        return self.time >= limit or bool(self.done_B.all())

    def finish(self) -> Samples:
        width = int(self.length_B.max())
        inside = np.arange(width) < self.length_B[:, None]
        return Samples(
            tokens_BT=np.where(inside, self.tokens_BT[:, :width], 0),
            logp_BT=np.where(inside, self.logp_BT[:, :width], 0.0),
            forced_BT=inside & self.forced_BT[:, :width],
            length_B=self.length_B,
            eos_B=self.done_B,
            decode_steps=self.time,
            decode_rows=self.rows,
        )
