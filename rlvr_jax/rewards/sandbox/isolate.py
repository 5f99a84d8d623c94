"""What shuts a process in: namespaces, a root of its own, limits, no capabilities, a call filter.

Standard library only; imported on its own inside the sandbox.  Linux; elsewhere only the limits
that the system knows apply, and `Sandbox.lacks` says so.

    CLONE_NEWUSER, NEWPID, NEWNET, NEWNS, NEWIPC, NEWUTS   unshare(2), namespaces(7)
    a read-only root of the Python installation alone      pivot_root(2)
    no capability, no new privileges                       capabilities(7), prctl(2)
    a deny list of system calls                            seccomp(2)
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import resource
import struct

NOBODY = 65534
NEW_NS, NEW_UTS, NEW_IPC = 0x00020000, 0x04000000, 0x08000000
NEW_USER, NEW_PID, NEW_NET = 0x10000000, 0x20000000, 0x40000000
ALL_SPACES = NEW_NS | NEW_UTS | NEW_IPC | NEW_USER | NEW_PID | NEW_NET

_RDONLY, _NOSUID, _NODEV, _NOEXEC, _REMOUNT, _BIND, _REC = 1, 2, 4, 8, 32, 4096, 16384
_PRIVATE, _DETACH = 1 << 18, 2
_KEEP_FLAGS = _NOSUID | _NODEV | _NOEXEC | 1024 | 2048  # locked flags a remount must repeat
_PDEATHSIG, _DUMPABLE, _GET_SECCOMP, _SECCOMP, _CAPBSET_DROP, _NO_NEW_PRIVS = 1, 4, 21, 22, 24, 38
_SIGKILL = 9

_LIBC = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments) -> None:
    kinds = {str: str.encode, int: ctypes.c_ulong}  # variadic: an int must fill its register
    given = [kinds.get(type(a), lambda a: a)(a) for a in arguments]
    if getattr(_LIBC, name)(*given) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{name}: {os.strerror(error)}")


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None) -> None:
    """mount(2)."""
    _call("mount", source, target, kind, flags, data)


def unshare(flags: int) -> None:
    """unshare(2); OSError where the system does not allow it."""
    if not hasattr(_LIBC, "unshare"):
        raise OSError("this system has no namespaces")
    _call("unshare", flags)


def die_with_parent() -> None:
    """SIGKILL for this process when the thread that started it ends (Linux)."""
    with contextlib.suppress(OSError, AttributeError):
        _call("prctl", _PDEATHSIG, _SIGKILL, 0, 0, 0)


def set_dumpable(on: bool) -> None:
    """Whether processes of the same user may look into this one."""
    with contextlib.suppress(OSError, AttributeError):
        _call("prctl", _DUMPABLE, int(on), 0, 0, 0)


def build_root(base: str, readable: list[str]) -> bool:
    """Make the empty folder `base` the root: `readable` paths read-only, /tmp, a few devices.

    Called as the first process of a new process namespace.  Returns whether /proc could be mounted
    (it shows only the processes inside).
    """
    mount(None, "/", None, _REC | _PRIVATE, None)
    mount("tmpfs", base, "tmpfs", _NOSUID | _NODEV, "size=1m,mode=755")
    for path in readable:
        _show(path, base + path)
    for name in ("tmp", "dev", "proc"):
        os.makedirs(f"{base}/{name}", exist_ok=True)
    for name in ("null", "zero", "full", "random", "urandom"):
        open(f"{base}/dev/{name}", "w").close()
        mount(f"/dev/{name}", f"{base}/dev/{name}", None, _BIND, None)
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        os.symlink(f"/proc/self/fd/{fd}", f"{base}/dev/{name}")
    has_proc = _mount_proc(f"{base}/proc")
    os.chdir(base)
    _call("pivot_root", ".", ".")
    _call("umount2", ".", _DETACH)
    os.chdir("/")
    mount(None, "/", None, _REMOUNT | _RDONLY | _NOSUID | _NODEV, "size=1m,mode=755")
    return has_proc


def _show(path: str, target: str) -> None:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.islink(path):
        os.symlink(os.readlink(path), target)
        return
    if os.path.isdir(path):
        os.makedirs(target, exist_ok=True)
    else:
        open(target, "w").close()
    try:
        mount(path, target, None, _BIND, None)
    except OSError:  # with locked mounts below it, only the whole tree may be bound
        mount(path, target, None, _BIND | _REC, None)
    flags = os.statvfs(path).f_flag & _KEEP_FLAGS
    mount(None, target, None, _REMOUNT | _BIND | _RDONLY | _NOSUID | _NODEV | flags, None)


def _mount_proc(target: str) -> bool:
    for options in ("subset=pid,hidepid=2", "hidepid=2"):
        with contextlib.suppress(OSError):  # containers that mask parts of /proc forbid it
            mount("proc", target, "proc", _NOSUID | _NODEV | _NOEXEC, options)
            return True
    return False


def fresh_scratch(size_mb: int) -> None:
    """An empty, writable /tmp that only this process and its children see."""
    unshare(NEW_NS | NEW_IPC)
    mount("tmpfs", "/tmp", "tmpfs", _NOSUID | _NODEV | _NOEXEC, f"size={size_mb}m,mode=1777")


def limit(cpu_s: int, memory_mb: int, scratch_mb: int, processes: int) -> None:
    """Resource limits of this process and its children."""
    wanted = {
        "RLIMIT_CPU": cpu_s,
        "RLIMIT_AS": memory_mb * 2**20,
        "RLIMIT_FSIZE": scratch_mb * 2**20,
        "RLIMIT_NPROC": processes,
        "RLIMIT_NOFILE": 64,
        "RLIMIT_CORE": 0,
    }
    for name, value in wanted.items():
        with contextlib.suppress(ValueError, OSError, AttributeError):  # macOS refuses some
            resource.setrlimit(getattr(resource, name), (value, value))


def drop_privileges(change_user: bool) -> None:
    """No capability, no way to gain one, another user where `change_user`."""
    for capability in range(64):
        with contextlib.suppress(OSError, AttributeError):  # past the last one
            _call("prctl", _CAPBSET_DROP, capability, 0, 0, 0)
    if change_user:
        with contextlib.suppress(OSError):
            os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    with contextlib.suppress(OSError, AttributeError):
        header, empty = struct.pack("Ii", 0x20080522, 0), struct.pack("6I", *[0] * 6)
        _call("capset", header, empty)
    with contextlib.suppress(OSError, AttributeError):
        _call("prctl", _NO_NEW_PRIVS, 1, 0, 0, 0)
    set_dumpable(True)  # changing the user clears it; /dev/stdin needs it


# Numbers of the calls that are refused.  "alone": also those that make or signal processes, for
# systems without a process namespace.
_NUMBERS = {
    "x86_64": {
        "arch": 0xC000003E,
        "deny": (41, 42, 101, 310, 311, 129, 297, 272, 308, 165, 166, 155, 161, 250, 248, 249, 321)
        + (298, 323, 59, 322, 175, 313, 246, 320, 304, 303, 169),
        "alone": (62, 200, 234, 57, 58),
        "clone": 56,
    },
    "aarch64": {
        "arch": 0xC00000B7,
        "deny": (198, 203, 117, 270, 271, 138, 240, 97, 268, 40, 39, 41, 51, 219, 217, 218, 280)
        + (241, 282, 221, 281, 105, 273, 104, 294, 265, 264, 142),
        "alone": (129, 130, 131),
        "clone": 220,
    },
}
# pidfd_send_signal, io_uring_*, open_tree, move_mount, fsopen..fspick, pidfd_open, pidfd_getfd,
# mount_setattr: the same numbers everywhere.
_COMMON = (424, 425, 426, 427, 428, 429, 430, 431, 432, 433, 434, 438, 442)
_CLONE3, _CLONE_THREAD, _X32 = 435, 0x00010000, 0x40000000
_LOAD, _EQUAL, _AT_LEAST, _BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _EPERM, _ENOSYS = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026


def filter_program(machine: str, alone: bool) -> bytes | None:
    """The BPF program for this machine, or None where the numbers are not known."""
    table = _NUMBERS.get(machine)
    if table is None:
        return None
    code = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, table["arch"]), (_RETURN, 0, 0, _KILL)]
    code += [(_LOAD, 0, 0, 0), (_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _EPERM)]
    code += [(_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _ENOSYS)]  # libc falls back to clone
    for number in table["deny"] + _COMMON + (table["alone"] if alone else ()):
        code += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _EPERM)]
    if alone:  # threads only
        code += [(_EQUAL, 0, 3, table["clone"]), (_LOAD, 0, 0, 16)]
        code += [(_BITS, 1, 0, _CLONE_THREAD), (_RETURN, 0, 0, _EPERM)]
    code += [(_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("HBBI", *line) for line in code)


def can_filter() -> bool:
    """Whether the system and the machine have the filter."""
    try:
        _call("prctl", _GET_SECCOMP, 0, 0, 0, 0)
    except (OSError, AttributeError):
        return False
    return filter_program(platform.machine(), False) is not None


def filter_calls(alone: bool) -> bool:
    """Install the filter for good; False where the system or the machine has none."""
    program = filter_program(platform.machine(), alone)
    if program is None:
        return False
    buffer = ctypes.create_string_buffer(program, len(program))
    head = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
    try:
        _call("prctl", _SECCOMP, 2, head, 0, 0)
    except (OSError, AttributeError):
        return False
    return True
