"""Every algorithm on one config, several seeds each: a table with intervals.

    python benchmarks/sweep.py                                   all presets, seeds 0 to 2
    python benchmarks/sweep.py --algorithms=grpo,ppo --seeds=2   some of them
    python benchmarks/sweep.py --algorithms=grpo --set=rl.steps=2 --set=sft.steps=9

The algorithms of one seed share their cold start: the first one trains it, the others are handed
its checkpoint.  A run that is finished is not repeated, an unfinished one is resumed; so the sweep
can be stopped and started again.  The table goes to docs/sweep.md.  --jobs runs so many at a time,
each on a core of its own.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys

from rlvr_jax.presets import PRESETS
from rlvr_jax.runfiles import read_rows
from rlvr_jax.statistics import Estimate, mean_ci

ROOT = pathlib.Path(__file__).resolve().parents[1]
BAR = 0.9  # held-out pass@1 that the quickstart promises


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", default=str(ROOT / "configs" / "quickstart.py"))
    parser.add_argument("--algorithms", default=",".join(PRESETS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--runs", type=pathlib.Path, default=ROOT / "runs" / "sweep")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs" / "sweep.md")
    return parser.parse_args()


def run(workdir: pathlib.Path, config: str, overrides: list[str]) -> str | None:
    """Train in `workdir`; None, or the last line of what went wrong."""
    if (workdir / "summary.json").exists():
        return None
    workdir.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "rlvr_jax.cli", "run", f"--config={config}"]
    command += [f"--workdir={workdir}", *(f"--config.{pair}" for pair in overrides)]
    with open(workdir / "console.txt", "w") as out:
        done = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, check=False)
    if done.returncode == 0:
        return None
    return (workdir / "console.txt").read_text().strip().splitlines()[-1]


def hand_over(first: pathlib.Path, workdir: pathlib.Path) -> None:
    """Begin `workdir` with the cold start of the run in `first`: nothing in it depends on the
    algorithm, so a run that resumes from its checkpoint is the run that trained it itself."""
    if workdir == first or (workdir / "checkpoints").exists():
        return
    cold = min((first / "checkpoints").iterdir(), key=lambda folder: int(folder.name))
    shutil.copytree(cold, workdir / "checkpoints" / cold.name)


def train(place: tuple[str, int], options: argparse.Namespace) -> str | None:
    """One algorithm and seed; what went wrong, or None."""
    algorithm, seed = place
    first = options.runs / f"{options.algorithms.split(',')[0]}-{seed}"
    workdir = options.runs / f"{algorithm}-{seed}"
    hand_over(first, workdir)
    whole_stages = "checkpoint.every=1000000"  # the cold start's last state, and the end
    overrides = [f"algorithm={algorithm}", f"seed={seed}", whole_stages, *options.set]
    return run(workdir, options.config, overrides)


def own_core(jobs: int) -> None:
    """Bind a worker of the pool, and the runs it starts, to one of the cores."""
    if jobs > 1 and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[os.getpid() % len(cores)]})


def curve(workdirs: list[pathlib.Path]) -> str:
    """Mean reward of the rollouts in five parts of the RL stage, over the seeds."""
    parts: list[list[float]] = [[] for _ in range(5)]
    for workdir in workdirs:
        rows = [r for r in read_rows(workdir / "metrics.jsonl") if "reward/mean" in r]
        for i, row in enumerate(rows):
            parts[5 * i // len(rows)].append(row["reward/mean"])
    return " ".join(f"{sum(p) / len(p):.2f}" for p in parts if p)


def row(algorithm: str, workdirs: list[pathlib.Path], failed: list[str]) -> str:
    """One line of the table."""
    if failed:
        return f"| `{algorithm}` | failed: {failed[0]} | | | | |"
    summaries = [json.loads((w / "summary.json").read_text())["stages"][-1] for w in workdirs]
    before, after = (
        over_seeds([s[key] for s in summaries]) for key in ("pass1_before", "pass1_after")
    )
    minutes = sum(s["minutes"] for s in summaries) / len(summaries)
    reached = sum(s["pass1_after"]["value"] >= BAR for s in summaries)
    return (
        f"| `{algorithm}` | {before} | {after} | {reached}/{len(summaries)} | "
        f"{curve(workdirs)} | {minutes:.1f} |"
    )


def over_seeds(entries: list[dict]) -> Estimate:
    """Mean over seeds with Student's interval of that mean, cut at 0 and 1; of one seed its own
    interval, which is over problems."""
    if len(entries) == 1:
        return Estimate.from_json(entries[0])
    e = mean_ci([e["value"] for e in entries], proportion=False)
    return dataclasses.replace(e, lo=max(0.0, e.lo), hi=min(1.0, e.hi))


def replaced(workdir: pathlib.Path, algorithm: str) -> str:
    """What the config says in place of the algorithm's row: "`opo` learner.minibatches 4 (1)"."""
    used = json.loads((workdir / "config.json").read_text())
    found = [
        f"{section}.{key} {used[section][key]} ({value})"
        for section, fields in PRESETS[algorithm].overrides.items()
        for key, value in fields.items()
        if isinstance(value, int | float) and used[section][key] != value
    ]
    return f"`{algorithm}` {', '.join(found)}" if found else ""


def document(rows: list[str], options: argparse.Namespace) -> str:
    config = pathlib.Path(options.config).name
    algorithms = options.algorithms.split(",")
    done = algorithms[: len(rows)]
    own = [replaced(options.runs / f"{algorithm}-0", algorithm) for algorithm in done]
    changed = ", ".join(options.set) or "nothing"
    head = [
        "# Sweep over the algorithms",
        "",
        f"Written by `make sweep` (benchmarks/sweep.py): `{config}`, {options.seeds} seeds a row, "
        f"changed: {changed}.",
        "Pass@1 on the held-out problems before and after RL, mean over seeds with the 95 % "
        "interval of that mean (Student's t; of a single seed: its interval over problems); how "
        f"many seeds reach {BAR}; the mean reward of the "
        "rollouts in five parts of the stage; minutes of the stage.",
        "",
        f"Values that `{config}` sets itself stand in place of the row's (in brackets): "
        + ("; ".join(filter(None, own)) or "none")
        + ".",
        "",
        "| algorithm | before | after | seeds at the bar | reward by fifths | minutes |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    return "\n".join(head + rows) + "\n"


def main() -> None:
    options = arguments()
    algorithms, seeds = options.algorithms.split(","), range(options.seeds)
    rows = []
    with concurrent.futures.ProcessPoolExecutor(
        options.jobs, initializer=own_core, initargs=(options.jobs,)
    ) as pool:
        one = functools.partial(train, options=options)
        list(pool.map(one, [(algorithms[0], seed) for seed in seeds]))  # cold starts come first
        runs = {(a, s): pool.submit(one, (a, s)) for a in algorithms for s in seeds}
        for algorithm in algorithms:
            failed = [t for s in seeds if (t := runs[algorithm, s].result())]
            rows.append(row(algorithm, [options.runs / f"{algorithm}-{s}" for s in seeds], failed))
            print(rows[-1], flush=True)
            options.out.write_text(document(rows, options))


if __name__ == "__main__":
    main()
