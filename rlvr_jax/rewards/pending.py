"""Verdicts that are on their way, and the counts of a pool."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence

from rlvr_jax.types import Verdict


@dataclasses.dataclass
class PoolStats:
    """Counts since the pool began.  busy_s: how long the longest running job has run."""

    jobs: int = 0
    timeouts: int = 0
    memory: int = 0
    crashes: int = 0
    errors: int = 0
    restarts: int = 0
    busy_s: float = 0.0
    last_error: str = ""


class Pending:
    """Verdicts that are on their way."""

    def __init__(self, count: int):
        self._verdicts: list[Verdict | None] = [None] * count
        self._left = count
        self._error = ""
        self._done = threading.Event()
        if not count:
            self._done.set()

    def set(self, places: Sequence[int], verdicts: Sequence[Verdict]) -> None:
        """Fill places; the pool's thread and the submitting thread write different ones."""
        for place, verdict in zip(places, verdicts, strict=True):
            self._verdicts[place] = verdict
        self._left -= len(places)
        if self._left <= 0:
            self._done.set()

    def fail(self, error: str) -> None:
        self._error = self._error or error
        self._done.set()

    def done(self) -> bool:
        return self._done.is_set()

    def result(self, timeout: float | None = None) -> list[Verdict]:
        """The verdicts in order.  ValueError if a user's function failed, TimeoutError if not done
        within `timeout` seconds (None: each job's own deadline bounds the wait)."""
        if not self._done.wait(timeout):
            raise TimeoutError(f"{self._left} verdicts are not there after {timeout} s")
        if self._error:
            raise ValueError(self._error)
        return list(self._verdicts)
