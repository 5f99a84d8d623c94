"""A run folder as it lies on disk, finished or not, read into one object."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from rlvr_jax.evalreport import EvalReport
from rlvr_jax.runfiles import read_rows
from rlvr_jax.statistics import Estimate, paired_difference

Row = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """metrics, evals, samples: the rows of the three .jsonl files.  config, summary: the two JSON
    files; {} where one is missing."""

    workdir: pathlib.Path
    metrics: tuple[Row, ...]
    evals: tuple[Row, ...]
    samples: tuple[Row, ...]
    config: Row
    summary: Row

    @property
    def stages(self) -> tuple[str, ...]:
        """Names of the stages in the order in which they ran."""
        return tuple(dict.fromkeys(row["stage"] for row in self.metrics))

    @property
    def sets(self) -> tuple[str, ...]:
        """Names of the evaluation sets, the first one leading."""
        return tuple(dict.fromkeys(row["set"] for row in self.evals))

    def steps(self, stage: str) -> int:
        """Finished steps of the stage."""
        return max((r["step"] for r in self.metrics if r["stage"] == stage), default=0)

    def series(self, stage: str, name: str) -> tuple[np.ndarray, np.ndarray]:
        """(steps, values) of one metric, rows without it or with null left out."""
        pairs = [
            (row["step"], row[name])
            for row in self.metrics
            if row["stage"] == stage and row.get(name) is not None
        ]
        steps, values = zip(*pairs, strict=True) if pairs else ((), ())
        return np.asarray(steps, int), np.asarray(values, float)

    def total(self, stage: str, prefix: str) -> float:
        """Sum over the stage's rows of every metric whose name begins with `prefix`."""
        return sum(
            value
            for row in self.metrics
            if row["stage"] == stage
            for name, value in row.items()
            if name.startswith(prefix) and value is not None
        )

    def reports(self, stage: str, name: str) -> list[tuple[Row, EvalReport]]:
        """The evaluations of one stage on one set, in order."""
        rows = [row for row in self.evals if (row["stage"], row["set"]) == (stage, name)]
        return [(row, EvalReport.from_json(row)) for row in rows]


def read_run(workdir: str | pathlib.Path) -> Run:
    """Read a run folder.  ValueError if it holds no metrics or a file is damaged."""
    workdir = pathlib.Path(workdir)
    rows = {k: tuple(read_rows(workdir / f"{k}.jsonl")) for k in ("metrics", "evals", "samples")}
    if not rows["metrics"]:
        raise ValueError(f'no run in "{workdir}": it has no metrics.jsonl, or an empty one')
    config, summary = (_read_json(workdir / f"{k}.json") for k in ("config", "summary"))
    return Run(workdir=workdir, config=config, summary=summary, **rows)


def _read_json(path: pathlib.Path) -> Row:
    if not path.exists():
        return {}
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: not JSON ({error})") from None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Change:
    """What one stage did on one set.  `after` is the newest evaluation past step 0, None if there
    is none yet; `difference` is paired by problem, None where the problems differ in number."""

    stage: str
    set: str
    before: EvalReport | None
    after: EvalReport | None
    difference: Estimate | None


def change(run: Run, stage: str) -> Change | None:
    """Before and after of a stage on the leading set; None without any evaluation.

    Before is the evaluation at step 0, or else the last one of an earlier stage.
    """
    before = after = None
    for name in run.stages[: run.stages.index(stage) + 1] if run.sets else ():
        for row, report in run.reports(name, run.sets[0]):
            if name != stage or row["step"] == 0:
                before = report
            else:
                after = report
    if before is None and after is None:
        return None
    return Change(
        stage=stage,
        set=run.sets[0],
        before=before,
        after=after,
        difference=_difference(before, after),
    )


def _difference(before: EvalReport | None, after: EvalReport | None) -> Estimate | None:
    if before is None or after is None or before.problems != after.problems:
        return None
    pairs = zip(before.solve_rate, after.solve_rate, strict=True)
    known = [(b, a) for b, a in pairs if b == b and a == a]
    return paired_difference([b for b, _ in known], [a for _, a in known])


def leading_stage(run: Run) -> str:
    """The stage the report is about: the last one that was evaluated past its first step."""
    for stage in reversed(run.stages):
        found = change(run, stage)
        if found is not None and found.after is not None:
            return stage
    return run.stages[-1]
