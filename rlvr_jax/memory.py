"""What each role of a run keeps in memory: what is planned for, and what is there."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import jax


def account(roles: Mapping[str, Any]) -> list[str]:
    """A line for each role: parameters, planned bytes, and the bytes of its arrays.

    roles: a name and what the role holds: a TrainState, bare parameters (not trained), or None.
    A trained float32 parameter takes 16 bytes: itself, its gradient and two moments of Adam.  A
    frozen one takes those of its own type; the base under adapters is a line of its own.  The
    gradient exists during an update only.  Arrays that an earlier role holds are counted there.
    """
    lines, planned, held, seen = [], 0, 0, set()
    for name, role in _with_bases(roles):
        trained = hasattr(role, "opt_state")
        leaves = jax.tree.leaves(role.params if trained else role)
        if seen.issuperset(map(id, leaves)):
            lines.append(f"memory  {name}: the same arrays again, 0 B")
            continue
        seen |= set(map(id, leaves))
        number = sum(math.prod(a.shape) for a in leaves)
        plan = sum(math.prod(a.shape) * a.dtype.itemsize * (4 if trained else 1) for a in leaves)
        real = device_bytes(role)
        planned, held = planned + plan, held + real
        each = plan / max(1, number)
        lines.append(
            f"memory  {name}: {number:,} parameters x {each:.0f} B = {size(plan)} planned, "
            f"{size(real)} allocated" + (" (without the gradient)" if trained else "")
        )
    lines.append(f"memory  in all: {size(planned)} planned, {size(held)} allocated")
    peak = [d.memory_stats() for d in jax.local_devices()]
    if all(peak):
        most = max(stats.get("bytes_in_use", 0) for stats in peak)
        lines.append(f"memory  in use on the fullest device: {size(most)}")
    return lines


def _with_bases(roles: Mapping[str, Any]):
    """(name, what it holds) of the roles there are, a frozen base after what is trained over it."""
    for name, role in roles.items():
        base = getattr(role, "frozen", None)
        if base is not None:
            role = dataclasses.replace(role, frozen=None)
        if role is not None:
            yield (name if base is None else f"{name}, adapters"), role
        if base is not None:
            yield f"{name}, frozen base", base


def device_bytes(tree) -> int:
    """Bytes of all arrays of `tree` on this process's devices, copies counted."""
    return sum(
        shard.data.nbytes for leaf in jax.tree.leaves(tree) for shard in leaf.addressable_shards
    )


def size(number: int) -> str:
    """1536 -> "1.5 KiB"."""
    value, unit = float(number), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
