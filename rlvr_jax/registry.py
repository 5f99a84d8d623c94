"""One registry class for losses, advantages, rewards and tasks.

An entry is a frozen dataclass; its fields are its configuration schema.  A package that owns a
registry calls `discover` at the end of its ``__init__`` so that a new file registers itself.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import pkgutil
from collections.abc import Callable, Iterator


def nearest(name: str, known: list[str]) -> str:
    """'; did you mean "x"?' for the closest known spelling, or ''."""
    close = difflib.get_close_matches(name, known, n=1)
    return f'; did you mean "{close[0]}"?' if close else ""


class Registry:
    """Names to frozen dataclasses.  A second or an unknown name is an error."""

    def __init__(self, kind: str):
        self.kind = kind
        self._entries: dict[str, type] = {}

    def register(self, name: str) -> Callable[[type], type]:
        def add(cls: type) -> type:
            if name in self._entries:
                raise ValueError(f'{self.kind} "{name}" is registered twice')
            if not dataclasses.is_dataclass(cls) or not (cls.__doc__ or "").strip():
                raise ValueError(f'{self.kind} "{name}" must be a dataclass with a docstring')
            self._entries[name] = cls
            return cls

        return add

    def __getitem__(self, name: str) -> type:
        if name not in self._entries:
            hint = nearest(name, list(self._entries))
            raise ValueError(
                f'no {self.kind} "{name}"{hint} (there are: {", ".join(sorted(self._entries))})'
            )
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._entries))

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def make(self, name: str, **fields):
        """Build entry `name`; a field it does not have is an error that lists what it has."""
        cls = self[name]
        known = [f.name for f in dataclasses.fields(cls)]
        for key in fields:
            if key not in known:
                raise ValueError(
                    f'{self.kind} "{name}" has no field "{key}"{nearest(key, known)} '
                    f"(it has: {', '.join(known) or 'none'})"
                )
        return cls(**fields)


def discover(package: str, path: list[str]) -> None:
    """Import every module of a package so that its entries register themselves."""
    for module in pkgutil.iter_modules(path):
        importlib.import_module(f"{package}.{module.name}")
