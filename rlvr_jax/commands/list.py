"""rlvr list: what there is to choose from.

rlvr list                 everything, a line each
rlvr list algorithms      one kind: algorithms, losses, advantages, rewards, tasks,
                          families
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from rlvr_jax.registry import Registry, nearest


def main(args: Sequence[str]) -> int:
    if any(a in ("-h", "--help") for a in args):
        print(__doc__.strip())
        return 0
    from rlvr_jax.advantages import ADVANTAGES
    from rlvr_jax.losses import LOSSES
    from rlvr_jax.models.families import FAMILIES
    from rlvr_jax.rewards import REWARDS
    from rlvr_jax.tasks import TASKS

    kinds = {"losses": LOSSES, "advantages": ADVANTAGES, "rewards": REWARDS, "tasks": TASKS}
    kinds["families"] = FAMILIES
    wanted = list(args) or ["algorithms", *kinds]
    for name in wanted:
        if name == "algorithms":
            print(_algorithms())
        elif name in kinds:
            print(_entries(name, kinds[name]))
        else:
            hint = nearest(name, ["algorithms", *kinds])
            raise ValueError(f'nothing called "{name}" to list{hint}')
    return 0


def _entries(title: str, registry: Registry) -> str:
    lines = [title]
    for name in registry:
        cls = registry[name]
        about = cls.__doc__.strip().splitlines()[0]
        fields = ", ".join(f"{f.name}={f.default!r}" for f in dataclasses.fields(cls))
        lines.append(f"  {name:<22} {about}")
        if fields:
            lines.append(f"  {'':<22}   {fields}")
    return "\n".join(lines) + "\n"


def _algorithms() -> str:
    from rlvr_jax.presets import PRESETS

    lines = ["algorithms (config.algorithm)"]
    for row in PRESETS.values():
        lines.append(f"  {row.name:<22} {row.paper}")
        for section, values in row.overrides.items():
            text = ", ".join(f"{k}={v}" for k, v in values.items())
            lines.append(f"  {'':<22}   {section}: {text}")
    return "\n".join(lines) + "\n"
