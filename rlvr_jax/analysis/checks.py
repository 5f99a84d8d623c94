"""What a run's own numbers say about its health: a few checks a reader should not have to hunt."""

from __future__ import annotations

import dataclasses

import numpy as np

from rlvr_jax.analysis.run_folder import Run


@dataclasses.dataclass(frozen=True)
class Check:
    """good: None where the run does not tell.  found: what the run shows, as text.  meaning: what
    would be bad, and why."""

    name: str
    good: bool | None
    found: str
    meaning: str


def _last_tenth(run: Run, stage: str, name: str) -> float | None:
    values = run.series(stage, name)[1]
    return float(values[-max(1, len(values) // 10) :].mean()) if len(values) else None


def _refused(run: Run, stage: str) -> Check:
    """No update was refused: the one check that every stage owes, so its absence is told too."""
    name, meaning = "finite updates", "any update refused because a number was not finite"
    shares = run.series(stage, "health/nonfinite")[1]
    if not len(shares):
        return Check(name, None, "not known", meaning)
    return Check(name, not shares.any(), f"refused in {np.count_nonzero(shares)} steps", meaning)


def _gap(run: Run, stage: str) -> Check | None:
    """Sampler and trainer compute one model; a step whose gap was not finite (null) is none."""
    name, meaning = "sampler/trainer log-prob gap", "above 0.05: they do not compute one model"
    rows = [r for r in run.metrics if r["stage"] == stage and "mismatch/abs_max" in r]
    gaps = [r["mismatch/abs_max"] for r in rows]
    if None in gaps:
        return Check(name, False, f"not finite in {gaps.count(None)} steps", meaning)
    if not gaps:
        return None
    return Check(name, max(gaps) <= 0.05, f"{max(gaps):.1e} at most", meaning)


def checks(run: Run, stage: str) -> list[Check]:
    """Whether updates were finite, and the checks for which the stage logged the numbers."""
    gap = _gap(run, stage)
    found = [_refused(run, stage)] + ([gap] if gap else [])
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
