"""A run's claim on its folder, files that survive a power cut, and the wish to stop."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import threading
import uuid
from collections.abc import Iterable, Mapping
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


def claim_workdir(
    workdir: str | os.PathLike, config: Mapping[str, Any], free: tuple[str, ...] = ()
) -> bool:
    """Bind a folder to one configuration; True if it was already bound (the run may resume).

    config: what JSON can hold.  free: dotted keys ("log", "eval.every") that may differ on resume.
    ValueError if the folder belongs to another configuration or cannot be written.
    """
    path = pathlib.Path(workdir) / "config.json"
    if "://" in str(workdir):
        raise ValueError(f"workdir must be a folder of this machine, got {workdir}; mount it first")
    config = json.loads(json.dumps(config))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            write_durably(path, json.dumps(config, indent=1) + "\n")
            return False
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise PermissionError(13, "Permission denied")
        old = json.loads(path.read_text())
    except OSError as error:
        raise ValueError(f"workdir {workdir} cannot be used: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"{path} is not JSON ({error}); choose another --workdir") from None
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
    return True


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
