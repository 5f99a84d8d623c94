"""The files of a run folder that grow line by line: JSON lines and TensorBoard events.

A line is written by one system call, so a killed process leaves at most one half line at the end;
opening a file for writing removes it and reading ignores it.
"""

from __future__ import annotations

import contextlib
import json
import math
import numbers
import os
import pathlib
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

TIMING = ("time/", "perf/")


def strip_timing(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row without what depends on the machine and the moment: names in time/ and perf/.

    What is left is equal, bit for bit, between a resumed and an uninterrupted run.
    """
    return {name: value for name, value in row.items() if not name.startswith(TIMING)}


def plain_number(name: str, value: Any) -> int | float | None:
    """A Python number of any scalar (numpy and device arrays too); what is not finite is None."""
    item = value.item() if hasattr(value, "item") and getattr(value, "size", 1) == 1 else value
    if isinstance(item, bool | numbers.Integral):
        return int(item)
    if item is None or isinstance(item, numbers.Real):
        return None if item is None or not math.isfinite(item) else float(item)
    raise ValueError(f'metric "{name}" must be one number, not {type(value).__name__}')


def read_rows(path: str | os.PathLike) -> list[dict[str, Any]]:
    """The objects of a JSON-lines file; [] if it is missing.  A half last line is left out.

    ValueError with file and line number where a complete line is not a JSON object.
    """
    path = pathlib.Path(path)
    if not path.exists():
        return []
    rows = []
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], 1):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ValueError(f"{path}:{number}: not JSON ({error})") from None
        if not isinstance(row, dict):
            raise ValueError(f"{path}:{number}: expected an object, found {type(row).__name__}")
        rows.append(row)
    return rows


class JsonLines:
    """One growing JSON-lines file; it is created on construction."""

    def __init__(self, path: str | os.PathLike):
        self.path = pathlib.Path(path)
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self._drop_half_line()

    def append(self, row: Mapping[str, Any]) -> None:
        """Write one object as one line."""
        line = json.dumps(row, ensure_ascii=False, allow_nan=False).encode(errors="replace")
        os.write(self._fd, line + b"\n")

    def keep(self, wanted: Callable[[Mapping[str, Any]], bool]) -> int:
        """Rewrite the file with the wanted rows only, atomically; returns how many were removed."""
        rows = read_rows(self.path)
        kept = [row for row in rows if wanted(row)]
        if len(kept) == len(rows):
            return 0
        self.close()
        fresh = self.path.with_name(f".{self.path.name}.new")
        with open(fresh, "wb") as file:
            for row in kept:
                file.write(json.dumps(row, ensure_ascii=False).encode(errors="replace") + b"\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, self.path)
        self._fd = os.open(self.path, os.O_RDWR | os.O_APPEND)
        return len(rows) - len(kept)

    def close(self) -> None:
        os.close(self._fd)

    def _drop_half_line(self) -> None:
        end = os.fstat(self._fd).st_size
        tail = b""
        while end > 0 and b"\n" not in tail:
            start = max(0, end - 65536)
            tail = os.pread(self._fd, end - start, start)
            cut = tail.rfind(b"\n")
            if cut >= 0 or start == 0:
                os.ftruncate(self._fd, start + cut + 1)
            end = start


class EventFile:
    """Scalars for TensorBoard, in one folder for each stage (`tensorboard/<stage>/`).

    Records are framed by TensorBoard's own writer and flushed at once, in the calling thread;
    TensorFlow is never imported, even where it is installed.  purge_step: TensorBoard forgets
    what earlier files of the folder say of this and later steps (a resumed run).
    """

    def __init__(self, folder: str | os.PathLike, purge_step: int | None = None):
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{time.time_ns():020d}.{socket.gethostname()}.{os.getpid()}"
        self._records = RecordWriter(open(folder / name, "wb"))  # noqa: SIM115 (closed by close)
        self._write(Event(wall_time=time.time(), file_version="brain.Event:2"))
        if purge_step is not None:
            start = SessionLog(status=SessionLog.START)
            self._write(Event(wall_time=time.time(), step=purge_step, session_log=start))

    def add(self, step: int, values: Mapping[str, int | float | None]) -> None:
        """One event with every number of `values`; None is left out."""
        scalars = [
            Summary.Value(tag=name, simple_value=value)
            for name, value in values.items()
            if value is not None
        ]
        if scalars:
            event = Event(wall_time=time.time(), step=step, summary=Summary(value=scalars))
            self._write(event)

    def close(self) -> None:
        self._records.close()

    def _write(self, event: Event) -> None:
        self._records.write(event.SerializeToString())
        self._records.flush()


@contextlib.contextmanager
def replacing(path: str | os.PathLike):
    """A text file that appears at `path` complete or not at all."""
    path = pathlib.Path(path)
    fresh = path.with_name(f".{path.name}.new")
    with open(fresh, "w", encoding="utf-8", errors="replace") as file:
        yield file
    os.replace(fresh, path)
