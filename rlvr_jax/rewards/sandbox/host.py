"""The caller's side of the sandbox: starting it, starting and ending programs in it.

A sandbox serves one program after the other (programs.py).  Programs share nothing: each gets an
empty scratch folder, and everything it leaves behind is killed.  Where the system has no namespaces
a sandbox serves a single program, and `lacks` names what is missing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import weakref

from rlvr_jax.rewards.sandbox.isolate import NOBODY

START_S = 30.0  # for the interpreter to start on a busy machine
_PREFIX = "rlvr-sandbox-"
_FRAME = 64  # child.FRAME
_HERE = os.path.dirname(os.path.abspath(__file__))
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache", "/usr/share/zoneinfo")


@dataclasses.dataclass(frozen=True)
class Limits:
    """Bounds of one program.

    cpu_s: processor seconds of one process.  memory_mb: address space of one process.
    scratch_mb: the scratch folder, and one file.  output_kb: its output, or one returned value.
    processes: processes and threads together.  site_packages: installed packages can be imported.
    """

    cpu_s: float = 10.0
    memory_mb: int = 512
    scratch_mb: int = 16
    output_kb: int = 1024
    processes: int = 8
    site_packages: bool = False

    def __post_init__(self):
        for name in ("cpu_s", "memory_mb", "scratch_mb", "output_kb", "processes"):
            if not getattr(self, name) > 0:
                raise ValueError(f"sandbox: {name} must be positive, got {getattr(self, name)!r}")


class Sandbox:
    """A process tree that runs programs; a context manager that ends it.

    spaces: try to use namespaces.  lacks: protections that this system does not give, in words;
    empty where all are in force.  OSError where it does not start.
    """

    def __init__(self, limits: Limits, spaces: bool = True):
        self.limits = limits
        _sweep()
        base = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-")
        os.chmod(base, 0o777)
        self._link, theirs = _Link.pair()
        setup = _setup(limits, base, spaces)
        code = f"import sys; sys.path.insert(0, {_HERE!r}); import child; sys.path.pop(0); "
        code += f"child.start({theirs.fileno()}, {json.dumps(setup)!r})"
        process = subprocess.Popen(
            [os.path.realpath(sys.executable), "-S", "-s", "-P", "-"],  # a program can read this
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            cwd="/",
            env=_environment(),
        )
        theirs.close()
        with contextlib.suppress(OSError), process.stdin:  # `_greet` says if it died
            process.stdin.write(code.encode())
        self._close = weakref.finalize(self, _close, self._link, process, base)
        self._alive, self._used = True, False
        try:
            self.spaces, self.lacks = _greet(self._link, process.pid)
        except OSError as error:
            self.close()
            raise OSError(f"the sandbox does not start: {error}") from None
        if self.spaces:  # it has a root of its own by now; nothing is left if we are killed
            shutil.rmtree(base, ignore_errors=True)

    @property
    def usable(self) -> bool:
        """Whether another program can be started."""
        return self._alive and (self.spaces or not self._used)

    def start(self, out_fd: int | None = None) -> socket.socket:
        """The data socket of a new runner, whose standard output is `out_fd` (None: nowhere).

        OSError if the sandbox has died.
        """
        if not self.usable:
            raise OSError("the sandbox has ended (without namespaces it serves one program)")
        self._used = True
        ours, theirs = socket.socketpair()
        with theirs:
            fds = [theirs.fileno()] + ([] if out_fd is None else [out_fd])
            try:
                self._link.say("start", fds)
                if self._link.hear() != "started":
                    raise OSError("no answer")
            except OSError as error:
                ours.close()
                self.close()
                raise OSError(f"the sandbox has died: {error}") from None
        return ours

    def end(self, wait_s: float = 0.0) -> str:
        """End the program and all it left; its exit code if it ended in time, or "killed"."""
        try:
            self._link.say(f"end {wait_s:.3f}")
            status = self._link.hear()
        except OSError:
            self.close()
            return "killed"
        if not self.spaces:
            self.close()
        return status

    def close(self) -> None:
        """End it with all its processes.  Safe to call twice."""
        self._alive = False
        self._close()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def open_sandbox(limits: Limits) -> Sandbox:
    """A sandbox with namespaces if they work here, else without."""
    try:
        return Sandbox(limits)
    except OSError:  # namespaces exist, but mounts in them are forbidden (some containers)
        return Sandbox(limits, spaces=False)


class _Link:
    """The control socket: words in frames of a fixed size."""

    def __init__(self, end: socket.socket):
        self.end = end
        end.settimeout(START_S)

    @classmethod
    def pair(cls) -> tuple[_Link, socket.socket]:
        ours, theirs = socket.socketpair()
        return cls(ours), theirs

    def say(self, text: str, fds: list[int] | None = None) -> None:
        frame = text.encode().ljust(_FRAME)
        if fds:
            socket.send_fds(self.end, [frame], fds)
        else:
            self.end.sendall(frame)

    def hear(self) -> str:
        data = b""
        while len(data) < _FRAME:
            piece = self.end.recv(_FRAME - len(data))
            if not piece:
                raise OSError("the sandbox has gone")
            data += piece
        return data.decode().strip()


def _greet(link: _Link, pid: int) -> tuple[bool, tuple[str, ...]]:
    """(namespaces are in force, what is lacking) of a sandbox that is starting."""
    spaces = link.hear() == "unshared"
    if spaces:
        link.say(_write_maps(pid))
    word, _, has = link.hear().partition(" ")
    if word != "ready":
        raise OSError(has or "no answer")
    lacks = {
        "namespaces (own users, processes, network, files)": spaces,
        "/proc": "proc" in has,
        "a filter of system calls": "filter" in has,
    }
    return spaces, tuple(name for name, there in lacks.items() if not there)


def _write_maps(pid: int) -> str:
    """Map the user inside, as root also nobody, whom programs become.  What to tell the child."""
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0:
        with contextlib.suppress(OSError):
            for name in ("uid_map", "gid_map"):
                _write(f"/proc/{pid}/{name}", f"0 0 1\n{NOBODY} {NOBODY} 1")
            return "mapped nobody"
    with contextlib.suppress(OSError):  # older systems have no such file
        _write(f"/proc/{pid}/setgroups", "deny")
    _write(f"/proc/{pid}/uid_map", f"{NOBODY} {uid} 1")
    _write(f"/proc/{pid}/gid_map", f"{NOBODY} {gid} 1")
    return "mapped"


def _sweep() -> None:
    """Remove the folders of callers that were killed before they could."""
    for name in os.listdir(tempfile.gettempdir()):
        owner = name.removeprefix(_PREFIX).partition("-")[0] if name.startswith(_PREFIX) else ""
        if owner.isdigit():
            try:
                os.kill(int(owner), 0)
            except ProcessLookupError:
                shutil.rmtree(os.path.join(tempfile.gettempdir(), name), ignore_errors=True)
            except PermissionError:  # it lives, and is another user's
                continue


def _write(path: str, text: str) -> None:
    with open(path, "wb", buffering=0) as file:
        file.write(text.encode())


def _setup(limits: Limits, base: str, spaces: bool) -> dict:
    stdlib = os.path.dirname(os.path.realpath(os.__file__))
    packages = sysconfig.get_paths()["purelib"] if limits.site_packages else ""
    return dataclasses.asdict(limits) | {
        "base": base,
        "spaces": spaces,
        "root": os.geteuid() == 0,
        "reachable": _open_to_all(stdlib),
        "packages": packages,
        "readable": _readable(stdlib, packages),
    }


def _readable(stdlib: str, packages: str) -> list[str]:
    """What of the system a program may read: Python's library and shared libraries."""
    wanted = [*_LIBRARIES, sysconfig.get_config_var("LIBDIR") or "", stdlib, packages]
    found: list[str] = []
    for path in wanted:
        inside = any((os.path.realpath(path) + "/").startswith(f + "/") for f in found)
        if path and os.path.exists(path) and not inside:
            found.append(path)
    return found


def _open_to_all(path: str) -> bool:
    """Whether another user may enter every folder down to `path`."""
    while path != "/":
        if not os.stat(path).st_mode & 0o001:
            return False
        path = os.path.dirname(path)
    return True


def _environment() -> dict[str, str]:
    fixed = {"HOME": "/tmp", "LANG": "C.UTF-8", "PATH": "", "PYTHONHASHSEED": "0"}
    fixed |= {"PYTHONUTF8": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    fixed |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    kept = {k: os.environ[k] for k in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH") if k in os.environ}
    return fixed | kept


def _close(link: _Link, process: subprocess.Popen, base: str) -> None:
    link.end.close()
    try:
        process.wait(timeout=2.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    shutil.rmtree(base, ignore_errors=True)
