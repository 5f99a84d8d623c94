"""A reward from the words of a command line: its name and "field=value" settings."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Sequence
from typing import Any

from rlvr_jax.registry import nearest
from rlvr_jax.rewards.base import REWARDS, Reward


def make_reward(name: str, settings: Sequence[str] = ()) -> Reward:
    """A reward by name, or "module:function", with "field=value" settings; ValueError for what does
    not fit."""
    fields: dict[str, Any] = {"path": name} if ":" in name else {}
    name = "function" if ":" in name else name
    kinds = {field.name: str(field.type) for field in dataclasses.fields(REWARDS[name])}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or key not in kinds:
            raise ValueError(
                f'"{setting}" is no field=value of reward "{name}"{nearest(key, list(kinds))} '
                f"(it has: {', '.join(kinds)})"
            )
        if key in fields:
            raise ValueError(f'"{setting}": {key} is already set to {fields[key]!r}')
        fields[key] = _parsed(text, kinds[key])
    return REWARDS.make(name, **fields)


def _parsed(text: str, kind: str) -> Any:
    if kind.startswith("str"):
        return text
    try:
        if kind.startswith("tuple"):
            items = [item for item in text.split(",") if item]
            return tuple(float(item) for item in items) if "float" in kind else tuple(items)
        value = ast.literal_eval(text.capitalize() if kind == "bool" else text)
    except (ValueError, SyntaxError):
        raise ValueError(f'"{text}" is no {kind}') from None
    allowed = {"bool": ("bool",), "int": ("int",), "float": ("int", "float")}.get(kind)
    if allowed and type(value).__name__ not in allowed:
        raise ValueError(f'"{text}" is no {kind}')
    return value
