"""Published methods as rows over orthogonal choices.

A row overrides plain nested values by section; what it leaves out keeps the run's default.

    advantage    name of an entry of ADVANTAGES, and its fields
    loss         name of an entry of LOSSES, and its fields
    aggregation  mode: one of masking.AGGREGATIONS
    objective    nll_coef, positive_scale, negative_scale, top_entropy (losses.Objective)
    kl           fields of losses.KL;  kl_control: target, horizon (controllers)
    entropy      coef, or target, step, low, high (controllers.EntropyConfig)
    correction   fields of losses.Correction
    rollout      group, dynamic_sampling (drop unanimous groups and refill), drop_unanimous (drop
                 without refill), mask_truncated
    sampling     temperature
    shaping      soft_overlong: the last share of the length limit in which the punishment grows,
                 soft_overlong_scale
    curriculum   retire_at: the pass rate from which a prompt is left out
    reference    mode "none", "frozen", "every_n" (with every, reset_optimizer) or "ema" (decay)
    critic       enabled, value_clip, warmup_steps, minibatches
    learner      minibatches of one rollout, old_logp "recompute" or "sampler"
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlvr_jax.choices import validate
from rlvr_jax.preset_rows import ROWS, Preset
from rlvr_jax.registry import nearest

__all__ = ["PRESETS", "Preset", "preset", "table", "validate"]

PRESETS: dict[str, Preset] = {row.name: row for row in ROWS}


def preset(name: str) -> Preset:
    """The row of that name; ValueError with the nearest name if there is none."""
    if name not in PRESETS:
        raise ValueError(
            f'no algorithm "{name}"{nearest(name, list(PRESETS))} (there are: {", ".join(PRESETS)})'
        )
    return PRESETS[name]


def table() -> str:
    """What each preset chooses, as a Markdown table."""
    lines = [
        "| preset | advantage | loss | aggregation | KL | other |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in PRESETS.values():
        sections = dict(row.overrides)
        cells = [_cell(sections.pop(key)) for key in ("advantage", "loss", "aggregation")]
        cells.append(_cell(sections.pop("kl", {})) or "none")
        if sections.get("reference") == {
            "mode": "frozen"
        }:  # goes without saying where there is a KL
            del sections["reference"]
        cells.append("; ".join(f"{key}: {_cell(value)}" for key, value in sections.items()))
        lines.append(f"| `{row.name}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(section: Mapping[str, Any]) -> str:
    """name (field value, ...), without the fields that say nothing."""
    fields = dict(section)
    head = fields.pop("name", None) or fields.pop("mode", None) or ""
    if "place" in fields:
        head = f"{fields.pop('estimator')} in the {fields.pop('place')}"
    rest = ", ".join(
        key
        if value is True
        else f"{key} {value:g}"
        if isinstance(value, float)
        else f"{key} {value}"
        for key, value in fields.items()
    )
    return f"{head} ({rest})" if head and rest else head or rest
