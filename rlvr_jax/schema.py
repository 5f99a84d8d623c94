"""A dataclass as the schema of a section: its keys, their types, and plain values checked against
them."""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Mapping
from typing import Any

from ml_collections import config_dict

from rlvr_jax.registry import nearest


@functools.cache
def hints_of(cls: type) -> dict[str, Any]:
    """key -> type of the fields of a dataclass."""
    hints = typing.get_type_hints(cls)
    return {f.name: hints[f.name] for f in dataclasses.fields(cls)}


def blank(hints: Mapping[str, Any]) -> config_dict.ConfigDict:
    """A ConfigDict with these keys, all unset, which takes values of these types."""
    config = config_dict.ConfigDict()
    for key, hint in hints.items():
        if dataclasses.is_dataclass(hint):
            config[key] = blank(hints_of(hint))
        else:
            config[key] = config_dict.placeholder(plain_type(hint))
    return config


def plain_type(hint: Any) -> type:
    """The class behind a hint: `float` of `float | None`, `tuple` of `tuple[int, ...]`."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        (hint,) = [a for a in typing.get_args(hint) if a is not type(None)]
    return typing.get_origin(hint) or hint


def typed(where: str, value: Any, hint: Any, default: Any = None) -> Any:
    """`value` as the type the field asks for, or a ValueError.  Every number is finite; of a
    section in the section, keys that are not given are `default`'s."""
    plain = plain_type(hint)
    if dataclasses.is_dataclass(plain) and isinstance(value, Mapping):
        hints = hints_of(plain)
        bad = [k for k in value if k not in hints]
        if bad:
            raise ValueError(f'no config key "{where}.{bad[0]}"{nearest(bad[0], list(hints))}')
        own = {k: typed(f"{where}.{k}", v, hints[k]) for k, v in value.items()}
        return plain(**own) if default is None else dataclasses.replace(default, **own)
    if plain is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if plain is tuple and isinstance(value, list | tuple):
        args = typing.get_args(hint)
        value = tuple(typed(where, v, args[0]) for v in value) if args else tuple(value)
    if not isinstance(value, plain) or (plain is not bool and isinstance(value, bool)):
        raise ValueError(
            f"config.{where} must be {plain.__name__}, got {type(value).__name__} {value!r}"
            + (f"; write ({value!r},)" if plain is tuple else "")
        )
    if plain is str and any("\ud800" <= c <= "\udfff" for c in value):
        raise ValueError(f"config.{where} is not UTF-8 text: {value!r}")  # bytes of a command line
    if plain is float and not math.isfinite(value):
        raise ValueError(f"config.{where} must be a finite number, got {value}")
    return value
