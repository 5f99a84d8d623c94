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

import isolate
import plain

HEAD = 8  # bytes of a message's length


def main(data_fd: int, out_fd: int | None, setup: dict, spaces: bool) -> None:
    """Become a shut-in process and serve one job."""
    isolate.die_with_parent()
    data = socket.socket(fileno=data_fd)
    job = read(data)
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
    if setup["packages"]:
        sys.path.append(setup["packages"])
    {"program": _program, "functions": _functions, "referee": _referee}[job[0]](data, job[1])


def read(data: socket.socket, opaque=None) -> object:
    """One message."""
    size = int.from_bytes(_exactly(data, HEAD), "big")
    return plain.loads(_exactly(data, size), opaque)


def write(data: socket.socket, message: object, opaque=None) -> None:
    """Send one message."""
    body = plain.dumps(message, opaque)
    data.sendall(len(body).to_bytes(HEAD, "big") + body)


def _exactly(data: socket.socket, size: int) -> bytes:
    pieces = []
    while size:
        piece = data.recv(min(size, 1 << 20))
        if not piece:
            os._exit(0)  # the caller has gone
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


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


def _module(name: str) -> dict:
    module = type(sys)(name)
    sys.modules[name] = module
    return module.__dict__


def _program(data: socket.socket, code: str) -> None:
    """Run the code as a script and end with its exit code."""
    data.close()
    status = 1
    try:
        exec(compile(code, "solution.py", "exec", dont_inherit=True), _module("__main__"))
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


def _functions(data: socket.socket, code: str) -> None:
    """Load the code, then answer ["call", target, path, arguments, keywords] until the end.

    target: a global name, or the number of an object that was returned before.  path: attributes
    to follow from there.  arguments None: the value itself is wanted, not a call.
    Replies: ["loaded"], ["value", value, arguments as they are now], ["error", type, text].
    """
    objects: list[object] = []

    def keep(value: object) -> int:
        objects.append(value)
        return len(objects) - 1

    try:
        scope = _module("solution")
        exec(compile(code, "solution.py", "exec", dont_inherit=True), scope)
    except BaseException as error:  # also SystemExit: a solution that does not load
        write(data, ["error", type(error).__name__, _text(error)])
        return
    write(data, ["loaded"])
    while True:
        _, target, path, arguments, keywords = read(data, objects.__getitem__)
        try:
            value = _find(scope, target) if isinstance(target, str) else objects[target]
            for name in path:
                value = getattr(value, name)
            if arguments is not None:
                value = value(*arguments, **keywords)
            write(data, ["value", value, arguments], keep)
        except BaseException as error:  # whatever the solution raises is its own
            write(data, ["error", type(error).__name__, _text(error)])


def _find(scope: dict, name: str) -> object:
    """A global, or where there is none a method of a fresh ``Solution()``, as some judges ask."""
    return scope[name] if name in scope else getattr(scope["Solution"](), name)


def _text(error: BaseException) -> str:
    with contextlib.suppress(BaseException):
        return str(error)[:200]
    return ""


class RemoteError(Exception):
    """The solution raised something that is no built-in exception."""


class Remote:
    """A name or an object of the solution as the tests see it: calls go out, plain data return."""

    def __init__(self, data: socket.socket, target: str | int):
        self._way = (data, target)

    def __call__(self, *arguments, **keywords):
        return self._ask([], list(arguments), keywords)

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        return self._ask([name], None, {})

    def _ask(self, path: list[str], arguments: list | None, keywords: dict):
        data, target = self._way
        write(data, ["call", target, path, arguments, keywords], _number)
        kind, *what = read(data, lambda number: Remote(data, number))
        if kind == "error":
            known = getattr(builtins, what[0], None)
            simple = isinstance(known, type) and issubclass(known, Exception)
            raise known(what[1]) if simple else RemoteError(": ".join(what))
        value, now = what
        for mine, theirs in zip(arguments or (), now or (), strict=False):
            _update(mine, theirs)
        return value


def _number(value: object) -> int:
    """How the solution knows an object of its own that the tests hand back."""
    target = value._way[1] if isinstance(value, Remote) else None
    if not isinstance(target, int):
        raise plain.NotPlain(f"{type(value).__name__} cannot be given to the solution")
    return target


def _update(mine: object, theirs: object) -> None:
    """Repeat on the tests' own list, dict or set what the solution did to its copy."""
    if type(mine) is not type(theirs):
        return
    if isinstance(mine, list):
        mine[:] = theirs
    elif isinstance(mine, dict | set):
        mine.clear()
        mine.update(theirs)


def _referee(data: socket.socket, names: list[str]) -> None:
    """Run test code, one ["test", source] after the other, in one scope where `names` are remote.

    Replies: ["passed"] or ["failed", type, text]; between them ["call", ...] goes out.
    """
    scope = _module("tests")
    scope.update({name: Remote(data, name) for name in names})
    while True:
        _, source = read(data)
        try:
            exec(compile(source, "tests.py", "exec", dont_inherit=True), scope)
            reply = ["passed"]
        except BaseException as error:  # a failed assertion, or a test that cannot run
            reply = ["failed", type(error).__name__, _text(error)]
        write(data, reply)
