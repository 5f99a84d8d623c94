"""The far side of host.py: a small process tree that runs programs for one caller.

    outer   unshares the namespaces, starts `first` and waits for it
    first   process 1 inside: builds the root, then starts one process for each program and ends
            it with everything it left behind; it never sees a program, its input or its output
    runner  takes away its own privileges, reads one job from its own socket and runs it

Started as ``python -S -s -P -``, its script on standard input, with this folder as the only
addition to the path, so that it holds nothing of the caller's memory.  Standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import time

import isolate
import runner

FRAME = 64  # bytes of one control message in either direction


def main(fd: int, setup: dict) -> None:
    """outer: `setup` is what host.py's `_setup` made."""
    isolate.die_with_parent()
    control = socket.socket(fileno=fd)
    spaces, nobody = _unshare(control) if setup["spaces"] else _alone(control)
    setup["change_user"] = setup["root"] and (nobody if spaces else setup["reachable"])
    pid = os.fork()
    if pid:
        control.close()
        os.waitpid(pid, 0)
        os._exit(0)
    try:
        _first(control, setup, spaces)
    finally:
        os._exit(0)


def _unshare(control: socket.socket) -> tuple[bool, bool]:
    """Enter new namespaces; the caller writes the id maps.  (Are we in, is nobody mapped)"""
    try:
        isolate.unshare(isolate.ALL_SPACES)
    except OSError:
        return _alone(control)
    _say(control, "unshared")
    return True, control.recv(FRAME, socket.MSG_WAITALL).strip() == b"mapped nobody"


def _alone(control: socket.socket) -> tuple[bool, bool]:
    _say(control, "alone")
    return False, False


def _first(control: socket.socket, setup: dict, spaces: bool) -> None:
    isolate.die_with_parent()
    try:
        has_proc = not spaces or isolate.build_root(setup["base"], setup["readable"])
    except OSError as error:
        _say(control, f"failed {error}"[:FRAME])
        return
    isolate.set_dumpable(False)
    has = ["proc"] * has_proc + ["filter"] * isolate.can_filter()
    _say(control, " ".join(["ready", *has]))
    running = 0
    while True:
        message, fds, _, _ = socket.recv_fds(control, FRAME, 2)
        if not message:
            return
        verb, _, rest = message.decode().strip().partition(" ")
        if verb == "start":
            running = _start(control, fds, setup, spaces)
            _say(control, "started")
        elif verb == "end":
            _say(control, _end(running, float(rest), spaces))


def _start(control: socket.socket, fds: list[int], setup: dict, spaces: bool) -> int:
    pid = os.fork()
    if pid:
        for fd in fds:
            os.close(fd)
        return pid
    try:
        control.close()
        runner.main(fds[0], fds[1] if len(fds) > 1 else None, setup, spaces)
    finally:
        os._exit(70)


def _end(pid: int, wait_s: float, spaces: bool) -> str:
    """Wait for the program's own end, then kill what is left.  Its exit code, or "killed"."""
    until = time.monotonic() + wait_s
    done, status = os.waitpid(pid, os.WNOHANG)
    while not done and time.monotonic() < until:
        time.sleep(0.001)
        done, status = os.waitpid(pid, os.WNOHANG)
    with contextlib.suppress(OSError):
        os.kill(-1 if spaces else pid, signal.SIGKILL)
    if not spaces:
        with contextlib.suppress(OSError):
            os.killpg(pid, signal.SIGKILL)
    if not done:
        os.waitpid(pid, 0)
    with contextlib.suppress(ChildProcessError):  # orphans of the program, if any
        while os.waitpid(-1, 0 if spaces else os.WNOHANG)[0]:
            pass
    return str(os.waitstatus_to_exitcode(status)) if done else "killed"


def _say(control: socket.socket, text: str) -> None:
    control.sendall(text.encode().ljust(FRAME))


def start(fd: int, setup_json: str) -> None:
    """Entry of the script that host.py runs."""
    main(fd, json.loads(setup_json))
