"""What a run's own numbers say about its health: a few checks a reader should not have to hunt."""

from __future__ import annotations

import dataclasses

from rlvr_jax.analysis.run_folder import Run


@dataclasses.dataclass(frozen=True)
class Check:
    """found: what the run shows, as text.  meaning: what would be bad, and why."""

    name: str
    good: bool
    found: str
    meaning: str


def _last_tenth(run: Run, stage: str, name: str) -> float | None:
    values = run.series(stage, name)[1]
    return float(values[-max(1, len(values) // 10) :].mean()) if len(values) else None


def checks(run: Run, stage: str) -> list[Check]:
    """The checks for which the stage logged the numbers."""
    found: list[Check] = []
    refused = run.total(stage, "health/nonfinite")
    meaning = "any update refused because a number was not finite"
    found.append(Check("finite updates", refused == 0, f"{refused:.0f} refused", meaning))
    gaps = run.series(stage, "mismatch/abs_max")[1]
    if len(gaps):
        meaning = "above 0.05: sampler and trainer do not compute one model"
        text = f"{gaps.max():.1e} at most"
        found.append(Check("sampler/trainer log-prob gap", gaps.max() <= 0.05, text, meaning))
    limits = (
        ("answers the checker could not judge", "verifier/unknown_frac", 0.05, "faults"),
        ("completions cut off at the limit", "len/truncated_frac", 0.05, "the limit is too small"),
        ("prompts without signal", "group/zero_std_frac", 0.95, "nothing left to learn from"),
        ("tokens clipped above", "policy/clip_frac_high", 0.2, "steps too large"),
    )
    for name, metric, limit, why in limits:
        value = _last_tenth(run, stage, metric)
        if value is not None:
            text = f"{value:.1%} in the last tenth"
            found.append(Check(name, value <= limit, text, f"above {limit:.0%}: {why}"))
    return found
