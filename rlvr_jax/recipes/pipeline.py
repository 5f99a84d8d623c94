"""A run: its stages in order, resumed where an earlier one stopped."""

from __future__ import annotations

import dataclasses
import functools
import shlex
import sys

from rlvr_jax.config import RunConfig, to_json
from rlvr_jax.recipes.rl import rl
from rlvr_jax.recipes.sft import sft
from rlvr_jax.report import final_lines, write_report, write_summary
from rlvr_jax.setup import Place, Run, first_state, open_run, stage_steps, state_shapes

STAGES = {"sft": sft, "rl": rl}


def run_pipeline(config: RunConfig, workdir: str) -> None:
    """Train through all stages, then write the summary and the report."""
    with open_run(config, workdir) as run:
        state, place = begin(run)
        while place.stage < len(config.stages):
            name = config.stages[place.stage]
            if place.step < stage_steps(config, name):
                state = STAGES[name](run, state, place)
            run.reference = None
            place.next_stage()
        finish(run, workdir)


def begin(run: Run):
    """(state, place): from the newest whole checkpoint, or from the start."""
    shapes = functools.partial(state_shapes, run.config, run.model, run.mesh)
    found = run.checkpoints.restore(lambda host: dataclasses.replace(shapes(host), frozen=None))
    if found is None:
        run.log.truncate(run.config.stages[0], -1)
        return first_state(run), Place()
    state, place = found.state, Place(**found.host)
    base = shapes(found.host).frozen
    if base is not None:
        base = run.checkpoints.restore_reference(found.reference, base)
        state = dataclasses.replace(state, frozen=base)
    stage = run.config.stages[place.stage]
    run.log.truncate(stage, place.step)
    run.log.note(f"resuming after step {place.step} of stage {stage}")
    return state, place


def finish(run: Run, workdir: str) -> None:
    """summary.json, report.html, and the closing lines."""
    run.checkpoints.wait()
    write_summary(
        workdir,
        config=to_json(run.config),
        command=shlex.join(sys.argv),
        seeds={"run": run.config.seed},
        data_hashes=run.data,
    )
    write_report(workdir)
    for line in final_lines(workdir):
        run.log.note(line)
