"""What a finished (or half finished) run leaves for people: summary.json, plots and report.html.

    write_summary(workdir, config=..., command=..., seeds=..., data_hashes=...) -> summary dict
    write_report(workdir) -> path of report.html;  also plots/*.png
    final_lines(workdir)  -> the last lines a run prints

Everything is computed from the run folder, so a resumed run reports on all of its parts, and
`rlvr report` can be repeated at any time.  summary.json:

    {"stages": [{"stage", "set", "pass1_before", "pass1_after", "pass1_change", "steps", "minutes",
                 "tokens_per_s", "reward_first", "reward_last"}, ...],   one entry a stage
     "pass1_before", "pass1_after", "steps", "minutes", "tokens_per_s":   of the leading stage
     "command", "seeds", "config_sha256", "data_sha256", "versions", "hardware", "finished"}

where the three pass1 entries are {"value", "ci95": [lo, hi], "n"} or null if not measured.
"""

from __future__ import annotations

import datetime
import hashlib
import io
import json
import os
import pathlib
import platform
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from rlvr_jax.analysis import page
from rlvr_jax.analysis.checks import checks
from rlvr_jax.analysis.plots import PLOTS
from rlvr_jax.analysis.run_folder import Run, change, leading_stage, read_run
from rlvr_jax.console import sparkline
from rlvr_jax.runfiles import replacing
from rlvr_jax.statistics import Estimate

PACKAGES = (
    "rlvr-jax",
    "jax",
    "jaxlib",
    "flax",
    "optax",
    "orbax-checkpoint",
    "grain",
    "transformers",
    "numpy",
)
LEADING = ("pass1_before", "pass1_after", "steps", "minutes", "tokens_per_s")


def config_hash(config: Mapping[str, Any]) -> str:
    """sha256 of the configuration as canonical JSON (sorted keys)."""
    text = json.dumps(config, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide a run's numbers, as installed."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def summarize(run: Run) -> list[dict[str, Any]]:
    """One entry for each stage, in order; see the module's docstring."""
    return [_stage_summary(run, stage) for stage in run.stages]


def _stage_summary(run: Run, stage: str) -> dict[str, Any]:
    found = change(run, stage)
    seconds, tokens = run.total(stage, "perf/step_s"), run.total(stage, "data/tokens")
    rewards = run.series(stage, "reward/mean")[1]
    tenth = max(1, len(rewards) // 10)

    def entry(estimate: Estimate | None) -> dict[str, Any] | None:
        return None if estimate is None else estimate.to_json()

    return {
        "stage": stage,
        "set": found.set if found else None,
        "pass1_before": entry(found.before.avg) if found and found.before else None,
        "pass1_after": entry(found.after.avg) if found and found.after else None,
        "pass1_change": entry(found.difference) if found else None,
        "steps": run.steps(stage),
        "minutes": run.total(stage, "time/") / 60,
        "tokens_per_s": tokens / seconds if seconds > 0 and tokens > 0 else None,
        "reward_first": float(rewards[:tenth].mean()) if len(rewards) else None,
        "reward_last": float(rewards[-tenth:].mean()) if len(rewards) else None,
    }


def write_summary(
    workdir: str | pathlib.Path,
    *,
    config: Mapping[str, Any],
    command: str,
    seeds: Mapping[str, int],
    data_hashes: Mapping[str, str],
    hardware: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write summary.json (atomically) and return it.

    config: as saved in config.json.  seeds, data_hashes: by name.  hardware: what the caller knows
    of its devices, for example {"platform": "cpu", "devices": 1}.
    """
    run = read_run(workdir)
    stages = summarize(run)
    lead = next(entry for entry in stages if entry["stage"] == leading_stage(run))
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    machine = {"machine": platform.machine(), "system": platform.system(), "cores": os.cpu_count()}
    summary = {
        "stages": stages,
        **{name: lead[name] for name in LEADING},
        "command": command,
        "seeds": dict(seeds),
        "config_sha256": config_hash(config),
        "data_sha256": dict(data_hashes),
        "versions": versions(),
        "hardware": machine | dict(hardware or {}),
        "finished": now,
    }
    with replacing(run.workdir / "summary.json") as file:
        json.dump(summary, file, indent=2, ensure_ascii=False)
    return summary


def verdict_of(entry: Mapping[str, Any]) -> str:
    """ "rose", "fell" or "did not measurably change" by the paired interval of a stage entry."""
    change_of = entry["pass1_change"] or {"ci95": [None, None]}
    lo, hi = change_of["ci95"]
    if lo is None or hi is None:
        before, after = entry["pass1_before"], entry["pass1_after"]
        lo = after["ci95"][0] - before["ci95"][1]
        hi = after["ci95"][1] - before["ci95"][0]
    return "rose" if lo > 0 else "fell" if hi < 0 else "did not measurably change"


def headline(entry: Mapping[str, Any], value=str) -> str:
    """The one sentence of a stage: what was learned, in how many steps and minutes.

    `value` renders an Estimate (plain text or HTML).
    """
    work = f"{entry['steps']:,} steps of {entry['stage']}, {entry['minutes']:.1f} minutes"
    before, after = entry["pass1_before"], entry["pass1_after"]
    if before is None or after is None or None in (before["value"], after["value"]):
        return f"{work}; no evaluation before and after yet"
    first, last = (value(Estimate.from_json(e)) for e in (before, after))
    how = verdict_of(entry)
    verb = f"{how}:" if how.startswith("did") else how
    return f"pass@1 on {entry['set']} {verb} from {first} to {last} in {work}"


def final_lines(workdir: str | pathlib.Path) -> list[str]:
    """What a run prints at its end: a line for each stage, the reward's curve, where to look."""
    run = read_run(workdir)
    lines = [headline(entry) for entry in summarize(run)]
    rewards = run.series(leading_stage(run), "reward/mean")[1]
    if len(rewards) > 1:
        lines.append(f"reward {rewards[0]:.2f} {sparkline(rewards)} {rewards[-1]:.2f}")
    lines.append(f"report: {run.workdir / 'report.html'}")
    lines.append(f"samples: {run.workdir / 'samples.jsonl'}")
    return lines


def _draw(run: Run) -> dict[str, bytes]:
    """Every picture for which there is data, as PNG, by name."""
    pictures = {}
    for name, plot in PLOTS.items():
        figure = plot.draw(run)
        if figure is not None:
            buffer = io.BytesIO()
            figure.savefig(buffer, format="png", dpi=160)
            pictures[name] = buffer.getvalue()
    return pictures


def _value(entry: Estimate) -> str:
    return f'<b>{entry.value:.2f}</b> <span class="ci">[{entry.lo:.2f}, {entry.hi:.2f}]</span>'


def _cards(entry: Mapping[str, Any]) -> str:
    def first(estimate: Mapping[str, Any] | None) -> str:
        missing = estimate is None or estimate["value"] is None
        return "n/a" if missing else f"{estimate['value']:.2f}"

    rate = entry["tokens_per_s"]
    found = [
        ("pass@1 before", first(entry["pass1_before"])),
        ("pass@1 after", first(entry["pass1_after"])),
        (f"steps of {entry['stage']}", f"{entry['steps']:,}"),
        ("minutes", f"{entry['minutes']:.1f}"),
        ("tokens a second", "n/a" if rate is None else f"{rate:,.0f}"),
    ]
    return page.cards([(label, page.escape(value)) for label, value in found])


def write_report(workdir: str | pathlib.Path) -> pathlib.Path:
    """Draw plots/*.png and write report.html for a run, finished or not; returns its path.

    ValueError if the folder holds no run.
    """
    run = read_run(workdir)
    lead, stages = leading_stage(run), summarize(run)
    entry = next(e for e in stages if e["stage"] == lead)
    pictures = _draw(run)
    folder = run.workdir / "plots"
    folder.mkdir(exist_ok=True)
    for name, png in pictures.items():
        (folder / f"{name}.png").write_bytes(png)
    plots = "".join(
        page.picture(name, png, PLOTS[name].caption, wide=PLOTS[name].wide)
        for name, png in pictures.items()
    )
    sections = [
        "" if run.summary else "<p>This run has not finished; the report shows it so far.</p>",
        _cards(entry),
        page.stage_table(stages),
        f'<h2>How it went</h2><div class="plots">{plots}</div>',
        f"<h2>Is it sound?</h2>{page.checks_table(checks(run, lead))}",
        page.samples_section(run, lead),
        page.record_section(run),
    ]
    text = page.page(f"{run.workdir.name}: rlvr report", _headline_html(entry), sections)
    with replacing(run.workdir / "report.html") as file:
        file.write(text)
    return run.workdir / "report.html"


def _headline_html(entry: Mapping[str, Any]) -> str:
    safe = {**entry, "stage": page.escape(entry["stage"]), "set": page.escape(entry["set"])}
    return headline(safe, _value) + "."
