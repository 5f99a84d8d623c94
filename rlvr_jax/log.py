"""The log of a run.  RunLog writes, into the run folder,

    metrics.jsonl   {"step": int, "stage": str, "<name>": number or null, ...}     docs/metrics.md
    evals.jsonl     {"step", "stage", "set", "phase", **EvalReport.to_json()}
    samples.jsonl   the rows of `sample_row`, for the same prompts every time
    tensorboard/<stage>/   the numbers of metrics.jsonl

and shows them on the console.  An evaluation also puts its numbers, as a row of their own, into
metrics.jsonl.  `step` counts the finished updates of the stage, so 0 is "before".

The order within a step that makes resuming exact: update, metrics, evaluation and samples, and only
then the checkpoint.  A checkpoint of (stage, step) thus implies every row up to it, and a resumed
run calls `truncate(stage, step)` before its first row.

Host code: nothing here imports jax, and TensorFlow is never imported.
"""

from __future__ import annotations

import contextlib
import pathlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from rlvr_jax.console import Console, StagePlan
from rlvr_jax.evalreport import EvalReport
from rlvr_jax.registry import nearest
from rlvr_jax.runfiles import EventFile, JsonLines, plain_number, read_rows, strip_timing
from rlvr_jax.types import Completion, Problem, Verdict

__all__ = ["Clock", "Console", "RunLog", "StagePlan", "read_rows", "sample_row", "strip_timing"]

Phase = Literal["before", "during", "after"]
PARTS = ("generate", "verify", "logprob", "update", "eval", "ckpt")
OUTSIDE = ("eval", "ckpt")  # not part of a training step


class Clock:
    """Where the time goes: `with clock("generate"): ...`.

    A measurement inside another one belongs to the outer one, so that the rollouts of an evaluation
    count as evaluation.  Device work is asynchronous: fetch or block on the result inside the
    `with`.  Time between measurements is "other".
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter):
        self._clock, self._active = clock, False
        self._parts = dict.fromkeys(PARTS, 0.0)
        self._since, self._step = clock(), 0.0

    @contextlib.contextmanager
    def __call__(self, part: str):
        if part not in self._parts:
            raise ValueError(f'no part "{part}"{nearest(part, list(PARTS))} ({", ".join(PARTS)})')
        if self._active:
            yield
            return
        self._active, start = True, self._clock()
        try:
            yield
        finally:
            self._active = False
            self._parts[part] += self._clock() - start

    def spent(self, part: str) -> float:
        """Seconds of one part since the last `drain`; never 0, so that rates can be formed."""
        return max(self._parts[part], 1e-9)

    def drain(self) -> dict[str, float]:
        """{"time/<part>": seconds} since the last call, parts without time left out."""
        now = self._clock()
        spent = {part: seconds for part, seconds in self._parts.items() if seconds > 0}
        spent["other"] = max(0.0, now - self._since - sum(spent.values()))
        self._step += sum(seconds for part, seconds in spent.items() if part not in OUTSIDE)
        self._parts, self._since = dict.fromkeys(PARTS, 0.0), now
        return {f"time/{part}": seconds for part, seconds in spent.items()}

    def step_seconds(self) -> float:
        """Seconds drained since the last call, evaluation and checkpoints not counted."""
        seconds, self._step = self._step, 0.0
        return seconds


def sample_row(
    problem: Problem,
    completion: Completion,
    verdict: Verdict,
    *,
    split: str,
    sample: int = 0,
    reward: float | None = None,
) -> dict[str, Any]:
    """One row of samples.jsonl, without step, stage and phase, which RunLog.samples adds.

    `sample` is the index among the samples of the prompt; `reward` is what training used, if it is
    not the verdict's score (penalties included).
    """
    prompt = problem.prompt
    if not isinstance(prompt, str):
        prompt = "\n".join(f"{message['role']}: {message['content']}" for message in prompt)
    return {
        "split": split,
        "index": problem.index,
        "sample": sample,
        "prompt": prompt,
        "gold": problem.answer if verdict.gold is None else verdict.gold,
        "completion": completion.text,
        "correct": verdict.accurate,
        "status": verdict.status,
        "score": plain_number("score", verdict.score),
        "reason": verdict.reason,
        "verifier": verdict.stage,
        "extracted": verdict.extracted,
        "parts": {name: plain_number(name, part) for name, part in verdict.parts.items()},
        "reward": plain_number("reward", verdict.score if reward is None else reward),
        "num_tokens": completion.num_tokens,
        "interrupted_at": completion.interrupted_at,
        "stop_reason": completion.stop_reason,
    }


class RunLog:
    """Everything a run writes down.  Close it (`contextlib.closing`) to give the terminal back.

    stages: the whole pipeline, in order, for the time left and for `truncate`.
    console: None for the standard one.  writes: False on all but one process of a pod; the object
    then only keeps the clock.  ValueError if the folder cannot be written.
    """

    def __init__(
        self,
        workdir: str | pathlib.Path,
        stages: Sequence[StagePlan],
        *,
        console: Console | None = None,
        writes: bool = True,
    ):
        names = [stage.name for stage in stages]
        if len(set(names)) < len(names) or not names:
            raise ValueError(f"the stages of a run need different names, not {names}")
        self.workdir, self.clock, self._names = pathlib.Path(workdir), Clock(), names
        self._writes, self._purge, self._events = writes, {}, {}
        if not writes:
            return
        try:
            self.workdir.mkdir(parents=True, exist_ok=True)
            self._files = {
                kind: JsonLines(self.workdir / f"{kind}.jsonl")
                for kind in ("metrics", "evals", "samples")
            }
        except OSError as error:
            raise ValueError(
                f'cannot write to the workdir "{workdir}": {error.strerror or error}'
            ) from None
        self.console = console or Console(stages)

    def metrics(self, stage: str, step: int, values: Mapping[str, Any]) -> None:
        """The numbers of one finished step; the clock's time/* and perf/step_s are added."""
        times = self.clock.drain()
        row = self._row(stage, step, {**values, **times, "perf/step_s": self.clock.step_seconds()})
        if self._writes:
            self.console.step(stage, step, row)

    def evaluation(
        self, stage: str, step: int, name: str, phase: Phase, report: EvalReport
    ) -> None:
        """An evaluation on the set `name`: a row in evals.jsonl and one in metrics.jsonl."""
        self._row(stage, step, {**report.metrics(name), **self.clock.drain()})
        if not self._writes:
            return
        head = {"step": step, "stage": stage, "set": name, "phase": phase}
        self._files["evals"].append(head | report.to_json())
        best = max(report.pass_at)
        more = f"  pass@{best} {report.pass_at[best].value:.3f}" if best > 1 else ""
        self.console.evaluation(
            f"eval  {stage} step {step} ({phase})  {name}: pass@1 {report.avg}{more}"
            f"  on {report.problems} problems x {report.samples}"
        )

    def samples(self, stage: str, step: int, phase: Phase, rows: Iterable[Mapping]) -> None:
        """Rows of `sample_row`; give the same prompts every time."""
        for row in rows if self._writes else ():
            head = {"step": step, "stage": stage, "phase": phase}
            self._files["samples"].append(head | dict(row))
            self.console.sample(row)

    def note(self, text: str) -> None:
        """A line for people that stays on the console."""
        if self._writes:
            self.console.note(text)

    def truncate(self, stage: str, step: int) -> None:
        """Forget what came after (stage, step): later steps of the stage and all later stages.

        step = -1 forgets the whole stage, its evaluation before the first step included.
        """
        if stage not in self._names:
            raise ValueError(f'no stage "{stage}" in this run (it has: {", ".join(self._names)})')
        order = {name: i for i, name in enumerate(self._names)}
        here = order[stage]

        def wanted(row: Mapping[str, Any]) -> bool:
            place = order.get(row.get("stage"), len(order))
            return place < here or (place == here and row["step"] <= step)

        for file in self._files.values() if self._writes else ():
            file.keep(wanted)
        self._purge = {name: 0 for name in self._names[here + 1 :]} | {stage: step + 1}

    def close(self) -> None:
        """Close the files and the live view."""
        if self._writes:
            self.console.close()
            for file in (*self._files.values(), *self._events.values()):
                file.close()

    def _row(self, stage: str, step: int, values: Mapping[str, Any]) -> dict[str, Any]:
        if stage not in self._names:
            raise ValueError(f'no stage "{stage}" in this run (it has: {", ".join(self._names)})')
        numbers = {name: plain_number(name, value) for name, value in values.items()}
        if not self._writes:
            return numbers
        self._files["metrics"].append({"step": step, "stage": stage} | numbers)
        if stage not in self._events:
            folder = self.workdir / "tensorboard" / stage
            self._events[stage] = EventFile(folder, self._purge.get(stage))
        self._events[stage].add(step, numbers)
        return numbers
