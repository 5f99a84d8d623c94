"""What can be done in a sandbox: run a script, load functions and call them, run tests.

    with open_sandbox(Limits()) as box:
        output, code = run(box, "print(input())", stdin="7", timeout_s=2.0)
        with functions(box, "def f(x): return x + 1", timeout_s=2.0) as program:
            program.call("f", [1], timeout_s=2.0)      # ["value", 2, [1]] or ["error", type, text]

Everything a program says is data to be judged on this side; a `Fault` says why there is none.
"""

from __future__ import annotations

import dataclasses
import os
import select
import socket
import time

from rlvr_jax.rewards.sandbox import plain
from rlvr_jax.rewards.sandbox.host import Sandbox

GRACE_S = 0.5  # for a program that has closed its output to exit
_HEAD = 8  # channel.HEAD
_REPLIES = {  # by the types of what follows the word
    "value": lambda shapes: len(shapes) == 2 and shapes[1] == "list",
    "error": lambda shapes: len(shapes) == 4 and shapes[:2] == ["str", "str"],
    "callback": lambda shapes: len(shapes) == 3 and shapes[1:] == ["list", "dict"],
}


class Fault(Exception):
    """A program did not do its job; `reason` is "timeout", "crash", "output" or "error"."""

    def __init__(self, reason: str, detail: str = ""):
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail


@dataclasses.dataclass(frozen=True)
class Handle:
    """An object that stayed in the sandbox; equal to nothing but itself."""

    number: int | str

    def __post_init__(self):
        if not isinstance(self.number, int | str):
            raise plain.NotPlain("not a handle")


class Program:
    """One running program that answers messages; a context manager that ends it."""

    def __init__(self, box: Sandbox):
        self._box = box
        self._data = box.start()

    def send(self, message: list, timeout_s: float) -> None:
        """Send a list of plain data.  Fault: timeout, crash."""
        body = plain.dumps(message, _handle_number)
        try:
            self._data.settimeout(max(0.001, timeout_s))
            self._data.sendall(len(body).to_bytes(_HEAD, "big") + body)
        except TimeoutError:
            raise Fault("timeout") from None
        except OSError as error:
            raise Fault("crash", str(error)) from None

    def receive(self, timeout_s: float) -> list:
        """The next message, a list that starts with a word.  Fault: any reason."""
        until = time.monotonic() + timeout_s
        size = int.from_bytes(self._exactly(_HEAD, until), "big")
        if size > self._box.limits.output_kb * 1024:
            raise Fault("output", f"a message of {size} bytes")
        try:
            message = plain.loads(self._exactly(size, until), Handle)
        except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
            raise Fault("output", f"not plain data: {error}") from None
        if not isinstance(message, list) or not message or not isinstance(message[0], str):
            raise Fault("output", "not a message")
        return message

    def call(
        self, target: str | int, arguments: list, timeout_s: float, keywords: dict | None = None
    ) -> list:
        """["value", value, containers among the arguments afterwards] of one call, or
        ["error", type, text, class, arguments of the exception]."""
        return self.forward(["call", target, [], arguments, keywords or {}], timeout_s)

    def forward(self, message: list, timeout_s: float) -> list:
        """The same for a ready-made message; a referee's may be answered by ["callback", ...]."""
        until = time.monotonic() + timeout_s
        self.send(message, timeout_s)
        reply = self.receive(until - time.monotonic())
        shapes = [type(part).__name__ for part in reply[1:]]
        if not _REPLIES.get(reply[0], lambda shapes: False)(shapes):
            raise Fault("output", "not a reply")
        return reply

    def _exactly(self, size: int, until: float) -> bytes:
        pieces = []
        while size:
            left = until - time.monotonic()
            if left <= 0:
                raise Fault("timeout")
            self._data.settimeout(left)
            try:
                piece = self._data.recv(min(size, 1 << 16))
            except TimeoutError:
                raise Fault("timeout") from None
            except OSError as error:
                raise Fault("crash", str(error)) from None
            if not piece:
                raise Fault("crash", "the program ended")
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *exc: object) -> None:
        self._data.close()
        self._box.end()


def _handle_number(value: object) -> object:
    if isinstance(value, Handle):
        return value.number
    raise plain.NotPlain(f"{type(value).__name__} is not plain data")


def pass_on(program: Program, message: list, timeout_s: float) -> None:
    """Send the program what another one said.  Fault: timeout, crash, output."""
    try:
        program.send(message, timeout_s)
    except (ValueError, TypeError, RecursionError) as error:
        raise Fault("output", f"not plain data: {error}") from None


def functions(box: Sandbox, code: str, timeout_s: float) -> Program:
    """The code loaded as a module whose functions can be called.  Fault if it does not load."""
    program = Program(box)
    try:
        program.send(["functions", code], timeout_s)
        loaded = program.receive(timeout_s)
        if loaded[0] != "loaded":
            raise Fault("error", ": ".join(str(part) for part in loaded[1:]))
    except BaseException:  # whatever it is, the program must not stay
        program.__exit__()
        raise
    return program


def referee(box: Sandbox, names: list[str], timeout_s: float) -> Program:
    """Test code runs here, in one scope whose `names` are asked for by ["call", ...] messages."""
    program = Program(box)
    try:
        program.send(["referee", names], timeout_s)
    except Fault:
        program.__exit__()
        raise
    return program


def run(box: Sandbox, code: str, stdin: str, timeout_s: float) -> tuple[bytes, int]:
    """(standard output, exit code) of the code as a script.  Fault: timeout, crash, output."""
    until = time.monotonic() + timeout_s
    out_r, out_w = os.pipe()
    try:
        try:
            data = box.start(out_w)
        finally:
            os.close(out_w)
        with data:
            try:
                _give(data, ["program", code, stdin], until)
                output = _read_all(out_r, until, box.limits.output_kb)
            except Fault:
                box.end()
                raise
            status = box.end(min(GRACE_S, max(0.0, until - time.monotonic())))
    finally:
        os.close(out_r)
    if status == "killed":
        raise Fault("timeout")
    return output, int(status)


def _give(data: socket.socket, job: list, until: float) -> None:
    body = plain.dumps(job)
    data.settimeout(max(0.001, until - time.monotonic()))
    try:
        data.sendall(len(body).to_bytes(_HEAD, "big") + body)
    except TimeoutError:
        raise Fault("timeout") from None
    except OSError as error:
        raise Fault("crash", str(error)) from None


def _read_all(fd: int, until: float, limit_kb: int) -> bytes:
    """What comes until the end of the file."""
    pieces, size = [], 0
    while True:
        left = until - time.monotonic()
        if left <= 0 or not select.select([fd], [], [], left)[0]:
            raise Fault("timeout")
        piece = os.read(fd, 1 << 16)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
        size += len(piece)
        if size > limit_kb * 1024:
            raise Fault("output", f"more than {limit_kb} kB")
