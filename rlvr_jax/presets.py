"""Published methods as rows over orthogonal choices.

A row overrides plain nested values by section; whatever it leaves out keeps the run's default.

    advantage    name of an entry of ADVANTAGES, and its fields
    loss         name of an entry of LOSSES, and its fields
    aggregation  mode (masking.AGGREGATIONS)
    kl           fields of losses.KL
    correction   fields of losses.Correction
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from rlvr_jax.advantages import ADVANTAGES
from rlvr_jax.losses import KL, LOSSES, Correction
from rlvr_jax.masking import check_aggregation
from rlvr_jax.registry import nearest

Sections = Mapping[str, Mapping[str, Any]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Preset:
    """One published method.

    paper: authors and arXiv number.  equation: where in it the objective stands.
    numbers: the settings the paper reports, as text; batch sizes and learning rates belong to its
    models, so they are told and not applied.
    overrides: section -> field -> value.
    """

    name: str
    paper: str
    equation: str
    numbers: str
    overrides: Sections


def _row(name: str, paper: str, equation: str, numbers: str, **overrides) -> Preset:
    return Preset(name=name, paper=paper, equation=equation, numbers=numbers, overrides=overrides)


def _group(std: str, ddof: int = 1) -> dict[str, Any]:
    return {"name": "group", "std": std, "ddof": ddof}


def _clip(low: float = 0.2, high: float = 0.2) -> dict[str, Any]:
    return {"name": "clipped", "eps_low": low, "eps_high": high}


_ROWS = (
    _row(
        "reinforce",
        "Williams 1992; for language models Ahmadian et al., arXiv 2402.14740",
        "eq. 3",
        "baseline: mean reward of the batch",
        advantage={"name": "batch_mean"},
        loss={"name": "policy_gradient"},
        aggregation={"mode": "seq_mean_token_sum"},
    ),
    _row(
        "rloo",
        "Ahmadian et al., arXiv 2402.14740",
        "eq. 6",
        "2 or 4 samples, lr 1e-6, beta 0.03 with k1 in the reward, batch 512, 2 updates a rollout",
        advantage={"name": "rloo"},
        loss={"name": "policy_gradient"},
        aggregation={"mode": "seq_mean_token_sum"},
        kl={"place": "reward", "estimator": "k1", "coef": 0.03},
        reference={"mode": "frozen"},
    ),
    _row(
        "grpo",
        "Shao et al. (DeepSeekMath), arXiv 2402.03300",
        "eq. 3 and 4",
        "lr 1e-6, beta 0.04, 64 samples, length 1024, batch 1024, one update an exploration",
        advantage=_group("group"),
        loss=_clip(),
        aggregation={"mode": "seq_mean_token_mean"},
        kl={"place": "loss", "estimator": "k3", "coef": 0.04},
        reference={"mode": "frozen"},
    ),
    _row(
        "dr_grpo",
        "Liu et al., arXiv 2503.20783",
        "eq. 3",
        "8 samples, batch 128, lr 1e-6 constant, T 1, length 3000, no KL",
        advantage=_group("none"),
        loss=_clip(),
        aggregation={"mode": "const"},
    ),
    _row(
        "dapo",
        "Yu et al., arXiv 2503.14476",
        "eq. 8 to 13",
        "lr 1e-6 with 20 warm-up rollouts, 512 prompts x 16, 16 updates a rollout, "
        "length 16384 + 4096 of soft punishment, no KL",
        advantage=_group("group"),
        loss=_clip(0.2, 0.28),
        aggregation={"mode": "token_mean"},
        rollout={"dynamic_sampling": True},
    ),
)

PRESETS: dict[str, Preset] = {row.name: row for row in _ROWS}


def preset(name: str) -> Preset:
    """The row of that name; ValueError with the nearest name if there is none."""
    if name not in PRESETS:
        raise ValueError(
            f'no algorithm "{name}"{nearest(name, list(PRESETS))} (there are: {", ".join(PRESETS)})'
        )
    return PRESETS[name]


def make(registry, section: Mapping[str, Any]):
    """Build the entry a section names: {"name": ..., **fields}."""
    fields = dict(section)
    if "name" not in fields:
        raise ValueError(f'a {registry.kind} section needs "name"; it has {sorted(fields)}')
    return registry.make(fields.pop("name"), **fields)


def validate(sections: Sections) -> None:
    """ValueError, with the reason, if the choices contradict each other.

    Sections that are absent keep their defaults and are taken as such.
    """
    loss = make(LOSSES, sections["loss"])
    make(ADVANTAGES, sections["advantage"])
    kl = KL(**sections.get("kl", {}))
    correction = Correction(**sections.get("correction", {}))
    mode = sections.get("aggregation", {}).get("mode", "token_mean")
    check_aggregation(mode, 1 if mode == "const" else None)
    reference = sections.get("reference", {}).get("mode", "none")
    if kl.place != "none" and reference == "none":
        raise ValueError(f'kl.place "{kl.place}" needs a reference; reference.mode is "none"')
    if loss.level != "token" and mode != "seq_mean_token_mean":
        raise ValueError(
            f'loss "{sections["loss"]["name"]}" is one number a sequence, so it is averaged over '
            f'sequences: aggregation.mode must be "seq_mean_token_mean", it is "{mode}"'
        )
    if loss.level != "token" and correction.by_token:
        raise ValueError(
            f'loss "{sections["loss"]["name"]}" has one ratio a sequence; '
            'correction.level "token" would break it apart, use "sequence" or "geometric"'
        )
