"""The far side of pool.py: a template process that forks grading processes on request.

The template is a fresh interpreter (never a fork of the caller, which may hold jax threads): it
imports what the reward needs once and stays single-threaded, so each worker is a fork of a few
milliseconds.  It alone reaps and kills workers, on request, so a process id is never reused while
the pool still holds it.  Each worker leads its own process group and is killed with it.

Neither side imports jax.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import math
import os
import pickle
import resource
import select
import signal
import socket
import subprocess
import sys
import traceback
from multiprocessing.connection import Connection

from rlvr_jax.rewards.base import Reward

_FRAME = 16  # bytes of one control message in either direction
_PARENT_CHECK_S = 5.0
_PR_SET_PDEATHSIG = 1


class Template:
    """The caller's handle on the template process."""

    def __init__(self, reward: Reward, deadline_s: float, memory_mb: int):
        ours, theirs = socket.socketpair()
        self._control = ours
        setup = {"path": sys.path, "fd": theirs.fileno(), "deadline_s": deadline_s}
        setup |= {"memory_mb": memory_mb, "preload": list(reward.preload), "parent": os.getpid()}
        code = (
            f"import json, sys; setup = json.loads({json.dumps(json.dumps(setup))}); "
            "sys.path[:] = setup['path']; "
            "from rlvr_jax.rewards import worker; worker.template(setup)"
        )
        # One thread for the numeric libraries (the template forks), one hash seed for all workers
        # (set order must not differ between runs).
        quiet = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.DEVNULL,
            stdout=2,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
            env=os.environ | quiet,
        )
        theirs.close()
        blob = pickle.dumps(reward)
        self._control.sendall(len(blob).to_bytes(_FRAME, "big") + blob)

    def fork(self, timeout_s: float) -> tuple[Connection, int]:
        """A new worker: its connection and process id.  OSError if the template does not answer."""
        ours, theirs = socket.socketpair()
        with theirs:
            self._control.settimeout(timeout_s)
            socket.send_fds(self._control, [b"fork".ljust(_FRAME)], [theirs.fileno()])
            pid = int(_receive(self._control, _FRAME))
        return Connection(ours.detach()), pid

    def end(self, pid: int, timeout_s: float) -> int:
        """Kill the worker's process group and reap it; minus the signal or the exit code."""
        self._control.settimeout(timeout_s)
        self._control.sendall(f"end {pid}".encode().ljust(_FRAME))
        return int(_receive(self._control, _FRAME))

    def close(self) -> None:
        """End the template and all its workers."""
        self._control.close()
        try:
            self._process.wait(timeout=3.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _receive(control: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = control.recv(size - len(data))
        if not piece:
            raise ConnectionError("the other side of the grading pool has gone")
        data += piece
    return data


def template(setup: dict) -> None:
    """Main of the template process."""
    control = socket.socket(fileno=setup["fd"])
    for name in setup["preload"]:
        importlib.import_module(name)
    reward = pickle.loads(_receive(control, int.from_bytes(_receive(control, _FRAME), "big")))
    alive: set[int] = set()
    try:
        while True:
            while not select.select([control], [], [], _PARENT_CHECK_S)[0]:
                if os.getppid() != setup["parent"]:
                    return
            message, fds, _, _ = socket.recv_fds(control, _FRAME, 1)
            if not message:
                return
            message += _receive(control, _FRAME - len(message))
            if message.startswith(b"fork"):
                reply = _fork(control, fds[0], reward, setup)
                alive.add(reply)
            else:
                pid = int(message.split()[1])
                reply = _end(pid)
                alive.discard(pid)
            control.sendall(str(reply).encode().ljust(_FRAME))
    except (ConnectionError, KeyboardInterrupt):
        return
    finally:
        for pid in alive:
            _end(pid)


def _fork(control: socket.socket, fd: int, reward: Reward, setup: dict) -> int:
    pid = os.fork()
    if pid:
        os.close(fd)
        return pid
    code = 1
    try:
        control.close()
        _limit(setup["memory_mb"])
        serve(Connection(fd), reward, setup["deadline_s"])
        code = 0
    except (EOFError, OSError):
        code = 0  # the pool has gone
    finally:
        os._exit(code)


def _end(pid: int) -> int:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _limit(memory_mb: int) -> None:
    os.setsid()
    with contextlib.suppress(
        OSError, AttributeError
    ):  # Linux only; elsewhere the CPU limit ends it
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory_mb and hasattr(resource, "RLIMIT_AS"):
        size = memory_mb * 2**20
        with contextlib.suppress(ValueError, OSError):  # macOS refuses some values
            resource.setrlimit(resource.RLIMIT_AS, (size, size))


def _allow_cpu(seconds: float) -> None:
    """Let this process use `seconds` more of CPU time; then SIGXCPU ends it."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = math.ceil(used.ru_utime + used.ru_stime + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))


def serve(conn: Connection, reward: Reward, deadline_s: float) -> None:
    """Answer jobs until the connection closes: one reply ("verdicts" | "memory" | "error", what) a
    job, at once, so that the pool knows which job is running."""
    try:
        reward.warm_up()
    except BaseException as error:  # reported to the caller, who decides (reward.errors_stop)
        conn.send(("error", one_line(error)))
        return
    conn.send(("ready", None))
    while True:
        for completions, problems in conn.recv():
            _allow_cpu(deadline_s)
            kind, what = _grade(reward, completions, problems)
            conn.send((kind, what))
            if kind == "memory":
                return  # a heap that has been full is not used again


def _grade(reward: Reward, completions: list, problems: list) -> tuple[str, object]:
    try:
        return "verdicts", reward.grade_batch(completions, problems)
    except (MemoryError, RecursionError):
        return "memory", None
    except BaseException as error:  # also SystemExit of a user function; the pool counts it
        return "error", one_line(error)


def one_line(error: BaseException) -> str:
    """The error and the innermost place it came from, on one line."""
    if isinstance(error, ValueError) and str(error).startswith("reward "):
        return str(error).replace("\n", " ")
    frames = traceback.extract_tb(error.__traceback__)
    where = (
        f" ({os.path.basename(frames[-1].filename)}, line {frames[-1].lineno})" if frames else ""
    )
    try:
        text = str(error)
    except Exception:  # a user's own class may fail here as well
        text = "(its text cannot be had)"
    return f"{type(error).__name__}: {text}{where}".replace("\n", " ")
