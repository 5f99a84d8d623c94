"""Grading in killable worker processes, overlapped with whatever the caller does meanwhile.

    with RewardPool(reward, workers=2, deadline_s=2.0) as pool:
        pending = pool.submit(completions, problems)   # returns at once
        ...                                            # the next rollout
        verdicts = pending.result()                    # in order

One thread owns the workers (worker.py).  It hands each a few jobs at a time; a worker answers every
job as it ends, so the job that is running is always known.  A worker that overruns the deadline is
killed with its process group; the jobs behind it go to another.  A worker that crashed gets a fresh
one for the same job once; the second crash is the answer's own.  Order is kept, nothing is lost.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import multiprocessing.connection
import os
import pickle
import signal
import threading
import time
import weakref
from collections.abc import Sequence

from rlvr_jax.rewards.base import Reward
from rlvr_jax.rewards.pending import Pending, PoolStats
from rlvr_jax.rewards.worker import Template
from rlvr_jax.types import Completion, Problem, Verdict

__all__ = ["Pending", "PoolStats", "RewardPool"]

START_S = 60.0  # for imports in the template and a user function's own module
CHUNK = 8  # jobs handed to a worker at a time
SETTLE = 0.98  # share of the deadline after which a job is given up: its verdict is there in time
RECYCLE = 5000  # jobs after which a worker is replaced (caches of symbolic libraries grow)


@dataclasses.dataclass(eq=False)
class _Job:
    completions: list[Completion]
    problems: list[Problem]
    places: list[int]
    pending: Pending
    tries: int = 0


@dataclasses.dataclass(eq=False)
class _Worker:
    conn: multiprocessing.connection.Connection
    pid: int
    since: float  # when the current job, or the start, began
    ready: bool = False
    jobs: collections.deque = dataclasses.field(default_factory=collections.deque)
    served: int = 0

    def left(self, deadline_s: float) -> float:
        """Seconds until the worker is overdue."""
        return self.since + (SETTLE * deadline_s if self.ready else START_S) - time.monotonic()


def _wanted(workers: list[_Worker], queued: int, size: int) -> int:
    """How many workers there should be: one a waiting job, the idle ones counted in."""
    return min(size, sum(bool(w.jobs) for w in workers) + queued)


def _fail(loop: _Loop, job: _Job, reason: str, detail: str) -> None:
    """Settle a job that has no verdicts: the run stops, the answer is wrong, or nobody can tell."""
    stats, reward = loop.stats, loop.reward
    field = {"timeout": "timeouts", "crash": "crashes", "error": "errors"}.get(reason, reason)
    setattr(stats, field, getattr(stats, field) + 1)
    if reason == "error":
        stats.last_error = detail
    if reward.errors_stop:
        say = {
            "timeout": f"did not return within {loop.limits[0]:g} s",
            "memory": f"used more than {loop.limits[1]} MB of memory"
            if loop.limits[1]
            else "ran out of memory, or of stack",
            "crash": f"crashed ({detail})",
        }.get(reason, f"failed: {detail}")
        job.pending.fail(detail if detail.startswith("reward ") else f"{reward.label} {say}")
        return
    status = "unknown" if reason == "error" else "wrong"
    reason = "checker_error" if reason == "error" else reason
    verdict = Verdict(status=status, reason=reason, stage="worker", gold=job.problems[0].answer)
    loop.settle(job.pending, job.places, [verdict] * len(job.places))


class RewardPool:
    """Persistent workers for one reward.

    workers: processes.  deadline_s, memory_mb: limits of one job; None = the reward's own.
    max_pending: `submit` waits while so many jobs are queued (back-pressure).
    """

    def __init__(
        self,
        reward: Reward,
        workers: int = 2,
        deadline_s: float | None = None,
        memory_mb: int | None = None,
        max_pending: int = 16384,
    ):
        if workers < 1 or max_pending < 1:
            raise ValueError(f"workers and max_pending must be positive: {workers}, {max_pending}")
        deadline_s = reward.deadline_s if deadline_s is None else deadline_s
        if not deadline_s > 0:
            raise ValueError(f"deadline_s must be positive, got {deadline_s}")
        if type(reward).__module__ == "__main__":
            raise ValueError(
                f"{reward.label}: a reward that runs in a worker must be defined in a module file"
            )
        memory_mb = reward.memory_mb if memory_mb is None else memory_mb
        self.reward = reward
        pickle.dumps(reward)  # raises here, not in the pool's thread
        self._loop = _Loop(reward, workers, (deadline_s, memory_mb), max_pending)
        # Not a method: the finaliser (also at interpreter exit) must not hold the pool itself.
        self._finalizer = weakref.finalize(self, _Loop.close, self._loop)

    @property
    def stats(self) -> PoolStats:
        """A copy of the counts."""
        now = time.monotonic()
        busy = [now - w.since for w in list(self._loop.crew.workers) if w.jobs]
        return dataclasses.replace(self._loop.stats, busy_s=max(busy, default=0.0))

    def submit(self, completions: Sequence[Completion], problems: Sequence[Problem]) -> Pending:
        """Begin to grade; the verdicts come from `.result()`."""
        completions, problems = list(completions), list(problems)
        if len(completions) != len(problems):
            raise ValueError(f"{len(completions)} completions for {len(problems)} problems")
        pending = Pending(len(completions))
        if self.reward.whole_batch:
            jobs = [_Job(completions, problems, list(range(len(problems))), pending)]
            self._loop.add(jobs if problems else [])
            return pending
        for place, (completion, problem) in enumerate(zip(completions, problems, strict=True)):
            verdict = self.reward.quick(completion, problem)
            if verdict is None:
                self._loop.add([_Job([completion], [problem], [place], pending)])
            else:
                self._loop.settle(pending, [place], [verdict])
        return pending

    def grade(
        self, completions: Sequence[Completion], problems: Sequence[Problem]
    ) -> list[Verdict]:
        """Grade and wait."""
        return self.submit(completions, problems).result()

    def close(self) -> None:
        """End the workers; pending verdicts fail.  Safe to call twice."""
        self._finalizer()

    def __enter__(self) -> RewardPool:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class _Loop:
    """The pool's thread: queue in, workers out."""

    def __init__(self, reward: Reward, workers: int, limits: tuple[float, int], max_pending: int):
        self.reward, self.size, self.limits = reward, workers, limits
        self.stats = PoolStats()
        self.max_pending = max_pending
        self.queue: collections.deque[_Job] = collections.deque()
        self.lock = threading.Condition()
        self.closed = ""
        self.wake_r, self.wake_w = os.pipe()
        os.set_blocking(self.wake_w, False)
        self.crew = _Crew(self)
        self.thread = threading.Thread(target=self.run, name="reward-pool", daemon=True)
        self.thread.start()

    def add(self, jobs: list[_Job]) -> None:
        with self.lock:
            while len(self.queue) >= self.max_pending and not self.closed:
                self.lock.wait()
            if self.closed:
                raise ValueError(self.closed)
            news = jobs and len(self.queue) < 2 * self.size
            self.queue.extend(jobs)
            if news:
                self.wake()

    def wake(self) -> None:
        """Call under the lock: `close` closes the pipe under it."""
        with contextlib.suppress(BlockingIOError):  # full: the thread has news enough
            os.write(self.wake_w, b"x")

    def settle(self, pending: Pending, places: Sequence[int], verdicts: Sequence[Verdict]) -> None:
        """All verdicts pass here: two threads count down the same pending."""
        with self.lock:
            pending.set(places, verdicts)

    def take(self, limit: int) -> list[_Job]:
        with self.lock:
            chunk = min(limit, max(1, len(self.queue) // (2 * self.size)))
            jobs = []
            while self.queue and len(jobs) < chunk:
                jobs.append(self.queue.popleft())
            self.lock.notify_all()
            return jobs

    def run(self) -> None:
        try:
            # At once: its imports run while the caller does other things.
            self.crew.template = Template(self.reward, *self.limits)
            while not self.closed:
                self.crew.turn()
        except BaseException as error:  # a fault of the pool: everyone who waits must hear of it
            self.stop(f"the grading pool failed: {type(error).__name__}: {error}")
        finally:
            self.crew.close()

    def stop(self, why: str) -> None:
        with self.lock:
            self.closed = self.closed or why
            waiting = [job for worker in self.crew.workers for job in worker.jobs]
            for job in [*self.queue, *waiting]:
                job.pending.fail(self.closed)
            self.queue.clear()
            self.lock.notify_all()

    def close(self) -> None:
        self.stop("the grading pool is closed")
        if self.thread.is_alive() and self.thread is not threading.current_thread():
            with self.lock:
                self.wake()
            self.thread.join(timeout=10.0)
        if not self.thread.is_alive():
            with self.lock:
                os.close(self.wake_w)
                os.close(self.wake_r)


class _Crew:
    """The workers of one pool; only the pool's thread touches it."""

    def __init__(self, loop: _Loop):
        self.loop = loop
        self.deadline_s, self.memory_mb = loop.limits
        self.template: Template | None = None
        self.workers: list[_Worker] = []

    def turn(self) -> None:
        """One round: hand out jobs, wait for news, read it, end what is overdue."""
        loop = self.loop
        while len(self.workers) < _wanted(self.workers, len(loop.queue), loop.size):
            self._hire()
        for worker in list(self.workers):
            if worker.ready and not worker.jobs and loop.queue:
                self._send(worker)
        busy = [w for w in self.workers if w.jobs or not w.ready]
        conns = {w.conn: w for w in self.workers}
        wait = [w.left(self.deadline_s) for w in busy]
        news = multiprocessing.connection.wait(
            [*conns, loop.wake_r], max(0.0, min(wait)) if wait else None
        )
        if loop.wake_r in news:
            os.read(loop.wake_r, 4096)
        for conn in news:
            if conn in conns:
                self._read(conns[conn])
        for worker in [w for w in self.workers if w.jobs or not w.ready]:
            if worker.left(self.deadline_s) <= 0:
                self._dismiss(worker, "timeout")

    def _hire(self) -> None:
        for attempt in (1, 2):
            if self.template is None:
                self.template = Template(self.loop.reward, *self.loop.limits)
            try:
                conn, pid = self.template.fork(START_S)
                break
            except (OSError, ValueError) as error:
                self.template.close()
                self.template = None
                if attempt == 2:
                    raise OSError(f"cannot start a grading process: {error}") from error
        self.workers.append(_Worker(conn, pid, time.monotonic()))

    def _send(self, worker: _Worker) -> None:
        # A job that crashed once goes alone, so that a second crash is its own.
        worker.jobs.extend(self.loop.take(1 if self.loop.queue[0].tries else CHUNK))
        worker.since = time.monotonic()
        # A worker that has just died: its connection is at its end, which the next read finds.
        with contextlib.suppress(OSError):
            worker.conn.send([(job.completions, job.problems) for job in worker.jobs])

    def _read(self, worker: _Worker) -> None:
        try:
            kind, what = worker.conn.recv()
        except (EOFError, OSError):
            self._dismiss(worker, "crash")
            return
        worker.since = time.monotonic()
        if not worker.ready:
            self._started(worker, kind, what)
            return
        if kind == "memory":
            self._dismiss(worker, "memory")
            return
        job = worker.jobs.popleft()
        worker.served += 1
        if kind == "verdicts":
            self.loop.stats.jobs += 1
            self.loop.settle(job.pending, job.places, what)
        else:
            _fail(self.loop, job, "error", what)
        if worker.served >= RECYCLE and not worker.jobs:
            self._dismiss(worker, "")

    def _started(self, worker: _Worker, kind: str, what: str | None) -> None:
        worker.ready = kind == "ready"
        if not worker.ready:  # warm-up failed, and would fail again
            self._dismiss(worker, "")
            while self.loop.queue:
                for job in self.loop.take(len(self.loop.queue)):
                    _fail(self.loop, job, "error", what)

    def _dismiss(self, worker: _Worker, reason: str) -> None:
        """End a worker; the job it was at pays for the reason, the others go back."""
        self.workers.remove(worker)
        if worker.jobs and reason == "timeout":  # before the kill: nobody waits for that
            _fail(self.loop, worker.jobs.popleft(), reason, "killed")
            reason = ""
        worker.conn.close()
        try:
            code = self.template.end(worker.pid, START_S)
        except OSError:  # the template died, and its workers with it
            self.template.close()
            self.template, code = None, -signal.SIGKILL
        self.loop.stats.restarts += 1
        jobs = list(worker.jobs)
        worker.jobs.clear()
        if reason == "crash" and code == -signal.SIGXCPU:
            reason = "timeout"
        if jobs and reason == "crash" and not jobs[0].tries and not self.loop.reward.errors_stop:
            jobs[0].tries += 1
        elif jobs and reason:
            _fail(self.loop, jobs.pop(0), reason, f"process ended with {code}")
        with self.loop.lock:
            self.loop.queue.extendleft(reversed(jobs))
        if not worker.ready and reason:
            raise OSError(f"a grading process did not start ({reason}, {code})")

    def close(self) -> None:
        for worker in self.workers:
            worker.conn.close()
        self.workers.clear()
        if self.template is not None:
            self.template.close()
