"""The process that runs one program: it shuts itself in, reads one job, and does it.

A job is ["program", code, input], ["functions", code] or ["referee", names].  Standard library
only; see child.py for how it is started.
"""

# The modules that solutions import most are loaded once, before the fork.
from __future__ import annotations

import atexit
import bisect  # noqa: F401
import builtins
import collections  # noqa: F401
import contextlib
import functools  # noqa: F401
import heapq  # noqa: F401
import io
import itertools  # noqa: F401
import math
import operator  # noqa: F401
import os
import random  # noqa: F401
import re  # noqa: F401
import socket
import string  # noqa: F401
import sys
import threading
import typing  # noqa: F401

import channel
import isolate
from referee import referee
from serving import serve


def main(data_fd: int, out_fd: int | None, setup: dict, spaces: bool) -> None:
    """Become a shut-in process and serve one job."""
    isolate.die_with_parent()
    data = socket.socket(fileno=data_fd)
    job = channel.read(data)
    os.setsid()
    if spaces:
        isolate.fresh_scratch(setup["scratch_mb"])
    os.chdir("/tmp" if spaces else setup["base"])
    _wire(out_fd, job[2] if job[0] == "program" else "")
    isolate.limit(
        math.ceil(setup["cpu_s"]), setup["memory_mb"], setup["scratch_mb"], setup["processes"]
    )
    isolate.drop_privileges(setup["change_user"])
    isolate.filter_calls(alone=not spaces)
    builtins.exit = builtins.quit = sys.exit  # as Python's site module has it
    if setup["packages"]:
        sys.path.append(setup["packages"])
    {"program": _program, "functions": serve, "referee": referee}[job[0]](data, job[1])


def _wire(out_fd: int | None, text: str) -> None:
    """Standard input holds `text`; standard output is `out_fd` or nothing."""
    source = os.memfd_create("stdin") if hasattr(os, "memfd_create") else _unnamed_file()
    with open(source, "wb", closefd=False) as file:
        file.write(text.encode("utf-8", "surrogatepass"))
    os.lseek(source, 0, os.SEEK_SET)
    null = os.open("/dev/null", os.O_RDWR)
    for fd, place in ((source, 0), (null if out_fd is None else out_fd, 1), (null, 2)):
        os.dup2(fd, place)
    given = io.BufferedReader(io.FileIO(0, closefd=False))
    sys.stdin = io.TextIOWrapper(given, encoding="utf-8")
    for name, fd in (("stdout", 1), ("stderr", 2)):
        sink = io.BufferedWriter(io.FileIO(fd, "w", closefd=False))
        setattr(sys, name, io.TextIOWrapper(sink, encoding="utf-8", errors="replace"))
    for fd in {source, null, out_fd} - {None}:
        os.close(fd)


def _unnamed_file() -> int:
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _program(data: socket.socket, code: str) -> None:
    """Run the code as a script and end with its exit code."""
    data.close()
    status = 1
    try:
        module = type(sys)("__main__")
        sys.modules["__main__"] = module
        exec(compile(code, "solution.py", "exec", dont_inherit=True), module.__dict__)
        status = 0
    except SystemExit as stop:
        status = 0 if stop.code is None else stop.code if isinstance(stop.code, int) else 1
    except BaseException:  # what a script dies of; its exit code tells
        status = 1
    with contextlib.suppress(BaseException):
        threading._shutdown()
        atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
    except BaseException:  # output that cannot be delivered is a failed program
        status = status or 1
    os._exit(status & 0xFF)
