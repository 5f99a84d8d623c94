"""A run's claim on its folder, files that survive a power cut, and the wish to stop."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import pathlib
import signal
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def write_durably(path: pathlib.Path, text: str) -> None:
    """The file has the text, also after a power cut, or is as it was before."""
    fresh = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    with open(fresh, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


@contextlib.contextmanager
def lock_workdir(workdir: str | os.PathLike):
    """Keep the folder, made if need be, from every other process for the time of the `with`.

    ValueError naming the process that holds it.  The system gives the lock back when a process
    ends, however it ends.
    """
    folder = _usable(workdir)
    try:
        file = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise ValueError(f"workdir {workdir} cannot be used: {error.strerror}") from None
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                holder = os.pread(file, 20, 0).decode(errors="replace").strip()
                raise ValueError(
                    f"workdir {workdir} is in use by process {holder or 'unknown'}; wait for it, "
                    "or choose another --workdir"
                ) from None
            # A file system without locks: there is nothing to ask, and nothing to keep.
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(file)


def _usable(workdir: str | os.PathLike) -> pathlib.Path:
    """The folder, made if need be; ValueError where it cannot be one."""
    if not str(workdir):
        raise ValueError("workdir is empty: name a folder")
    if "://" in str(workdir):
        raise ValueError(f"workdir must be a folder of this machine, got {workdir}; mount it first")
    folder = pathlib.Path(workdir)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"workdir {workdir} cannot be used: {error.strerror}") from None
    return folder


def claim_workdir(
    workdir: str | os.PathLike,
    config: Mapping[str, Any],
    data: Mapping[str, str] | None = None,
    free: tuple[str, ...] = (),
    complete: Callable[[Any], Any] = lambda old: old,
) -> bool:
    """Bind a folder to one configuration and its data; True if steps of that run lie there already.
    A folder in which no step was taken is bound anew.

    config: what JSON can hold.  data: hashes of what the run reads, by "file <path>" or the name
    of a split; they are kept in data.json.
    free: dotted keys ("log", "eval.every") of the configuration that may differ on resume.
    complete: fills a configuration that was saved before some keys existed.
    ValueError if the folder belongs to another run or cannot be written.
    """
    folder = _usable(workdir)
    config, data = json.loads(json.dumps(config)), dict(data or {})
    try:
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, "Permission denied")
        old = _read(folder / "config.json")
        if old is not None and _begun(folder):
            _compare(workdir, json.loads(json.dumps(complete(old))), config, free)
            known = _read(folder / "data.json")
            if known is None:  # of a run that was started before data had a place here
                _write(folder / "data.json", data)
            else:
                _compare_data(workdir, known, data)
            return True
        # The configuration last: with it the folder counts as bound.
        _write(folder / "data.json", data)
        if old != config:
            _write(folder / "config.json", config)
        return False
    except OSError as error:
        raise ValueError(f"workdir {workdir} cannot be used: {error.strerror}") from None


def _read(path: pathlib.Path) -> Any:
    """The JSON of a file, None where there is no file."""
    try:
        return json.loads(path.read_text("utf-8")) if path.exists() else None
    except ValueError as error:
        raise ValueError(f"{path} is not JSON ({error}); choose another --workdir") from None


def _write(path: pathlib.Path, value: Any) -> None:
    write_durably(path, json.dumps(value, indent=1) + "\n")


def _begun(folder: pathlib.Path) -> bool:
    """Whether a step was taken: there is a checkpoint, or a whole row of metrics after step 0."""
    saved = folder / "checkpoints"
    if saved.is_dir() and any(name.isdigit() for name in os.listdir(saved)):
        return True
    rows = folder / "metrics.jsonl"
    if not rows.is_file():
        return False
    with open(rows, "rb") as file:
        return any(b"\n" in line and not line.startswith(b'{"step": 0,') for line in file)


def _compare_data(workdir: str | os.PathLike, known: Any, data: Mapping[str, str]) -> None:
    """ValueError naming what changed since the folder was claimed."""
    changed = [name for name in data if name in known and known[name] != data[name]]
    files = [name for name in changed if name.startswith("file ")]
    if changed:
        what = some(files or [f"the {name} problems" for name in changed], 3)
        raise ValueError(
            f"workdir {workdir} holds a run on other data: {what} changed since it began; bring "
            "the old content back, or choose another --workdir"
        )


def _compare(
    workdir: str | os.PathLike, old: Any, config: Mapping[str, Any], free: tuple[str, ...]
) -> None:
    """ValueError naming the keys in which a configuration differs from the folder's."""
    was, now = dict(_flat(old)), dict(_flat(config))
    changed = [
        f"{key} was {was.get(key, 'absent')}, is {now.get(key, 'absent')}"
        for key in was | now
        if was.get(key) != now.get(key)
        and not any(f"{key}.".startswith(f"{name}.") for name in free)
    ]
    if changed:
        raise ValueError(
            f"workdir {workdir} holds a run of another configuration: {some(changed, 5)}; "
            "choose another --workdir, or remove this one to begin anew"
        )


def _flat(value: Any, name: str = "") -> Iterable[tuple[str, str]]:
    """("loss.eps_high", "0.2"), ... of nested dicts, values as JSON: 1, 1.0 and true differ."""
    if not isinstance(value, dict) or not value:
        yield name, json.dumps(value)
        return
    for key, inner in value.items():
        yield from _flat(inner, f"{name}.{key}" if name else key)


class Stop:
    """`with Stop() as stop:` SIGTERM, and the first SIGINT, ask the run to end at a safe place.

    A second SIGINT interrupts at once.  The handlers of before are back afterwards.  Outside the
    main thread nothing is installed.  jax.distributed installs a SIGTERM handler of its own, which
    this one must replace: enter after jax.distributed.initialize.  A signal may reach one process
    of several: they agree with store.everywhere(stop.requested).any().
    """

    def __init__(self):
        self.requested = False
        self._interrupted = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stop:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *_) -> None:
        for number, handler in self._before.items():
            # None: a handler that was not installed from Python cannot be put back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _ask(self, number, _frame) -> None:
        if number == signal.SIGINT:
            if self._interrupted:
                raise KeyboardInterrupt
            self._interrupted = True
        self.requested = True


def some(items: list[str], most: int = 8) -> str:
    """The first items in one line, and how many more there are."""
    more = f" (and {len(items) - most} more)" if len(items) > most else ""
    return ", ".join(items[:most]) + more
