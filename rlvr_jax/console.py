"""What a person sees while a run goes on: a live view on a terminal, plain lines elsewhere."""

from __future__ import annotations

import collections
import dataclasses
import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

from rich.console import Console as RichConsole
from rich.console import Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

BARS = "▁▂▃▄▅▆▇█"
HEADLINES = ("reward/mean", "sft/loss", "policy/loss")  # the first one a row has is its curve
SHOWN = {  # short names of the numbers on the view and on plain lines, in this order
    "reward/mean": "reward",
    "sft/loss": "loss",
    "policy/entropy": "entropy",
    "policy/kl_ref_k3": "kl",
    "len/mean": "length",
    "group/zero_std_frac": "even groups",
    "perf/gen_tok_s": "gen tok/s",
    "perf/train_tok_s": "train tok/s",
}


@dataclasses.dataclass(frozen=True)
class StagePlan:
    """A stage of the pipeline: its name (unique in the run) and its number of steps."""

    name: str
    steps: int


def sparkline(values: Sequence[float], width: int = 40) -> str:
    """The curve of `values` in one line of block characters; buckets are averaged to fit."""
    finite = [float(v) for v in values if v is not None and math.isfinite(v)]
    if not finite:
        return ""
    count = min(width, len(finite))
    edges = [i * len(finite) // count for i in range(count + 1)]
    means = [sum(finite[a:b]) / (b - a) for a, b in zip(edges, edges[1:], strict=False)]
    lo, span = min(means), max(means) - min(means)
    top = len(BARS) - 1
    return "".join(BARS[round((m - lo) / span * top) if span > 0 else top // 2] for m in means)


def duration(seconds: float) -> str:
    """Seconds as people write them: 8s, 2m05s, 1h07m."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


class TimeLeft:
    """The time to the end of the current stage, from the last steps; later stages are named.

    A step of another stage costs another time, so no number is invented for it.
    """

    def __init__(self, stages: Sequence[StagePlan], clock: Callable[[], float] = time.monotonic):
        self._stages, self._clock = tuple(stages), clock
        self._stage, self._marks = "", collections.deque(maxlen=20)

    def step(self, stage: str, step: int) -> None:
        """Say that `step` of `stage` has just ended."""
        if stage != self._stage:
            self._stage = stage
            self._marks.clear()
        self._marks.append((step, self._clock()))

    def text(self) -> str:
        """For example "1m20s left, then rl (150 steps)"; "" before two steps are done."""
        index = next((i for i, s in enumerate(self._stages) if s.name == self._stage), None)
        if index is None or len(self._marks) < 2:
            return ""
        (first, start), (last, now) = self._marks[0], self._marks[-1]
        pace = (now - start) / max(1, last - first)
        left = duration(pace * max(0, self._stages[index].steps - last))
        later = ", ".join(f"{s.name} ({s.steps} steps)" for s in self._stages[index + 1 :])
        return f"{left} left" + (f", then {later}" if later else "")


def short(value: Any) -> str:
    """A number in at most seven characters or so."""
    if value is None:
        return "n/a"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def silence(file: TextIO) -> None:
    """Whatever is still written to the file, the rest of its buffer too, goes nowhere."""
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), file.fileno())


class _Screen(RichConsole):
    """A console whose reader may go away."""

    def on_broken_pipe(self) -> None:
        """`| head` has read enough: hours of training go on, and write their files."""
        self.quiet = True
        silence(self.file)


class Console:
    """Live view if `file` is a terminal; else at most one line every `interval` seconds, and
    always a line for each evaluation, each note and the last step of a stage."""

    def __init__(
        self,
        stages: Sequence[StagePlan],
        file: TextIO | None = None,
        *,
        interval: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._rich = _Screen(file=file or sys.stdout, highlight=False, soft_wrap=True)
        self._plans = {s.name: s for s in stages}
        self._interval, self._clock, self._last_line = interval, clock, -math.inf
        self._left = TimeLeft(stages, clock)
        self._state: dict[str, Any] = {}
        self._curve: list[float] = []
        self._evals: collections.deque[str] = collections.deque(maxlen=4)
        self._live: Live | None = None

    def step(self, stage: str, step: int, values: Mapping[str, Any]) -> None:
        """Show the numbers of one finished step."""
        self._left.step(stage, step)
        if self._state.get("stage") != stage:
            self._curve = []
        head = next((name for name in HEADLINES if values.get(name) is not None), None)
        if head is not None:
            self._curve.append(values[head])
        shown = {SHOWN[n]: short(values[n]) for n in SHOWN if values.get(n) is not None}
        self._state |= {"stage": stage, "step": step, "values": shown, "head": head}
        if self._rich.is_terminal:
            self._refresh()
            return
        now, last = self._clock(), self._plans.get(stage, StagePlan(stage, -1)).steps
        if step == last or now - self._last_line >= self._interval:
            self._last_line = now
            numbers = "  ".join(f"{name} {value}" for name, value in shown.items())
            parts = (f"{stage} {step}/{last}" if last >= 0 else f"{stage} {step}", numbers)
            self._print("  ".join((*parts, self._left.text())).rstrip())

    def evaluation(self, line: str) -> None:
        """A line for an evaluation; the live view keeps the last four."""
        self._evals.append(line)
        self._print(line)

    def sample(self, row: Mapping[str, Any]) -> None:
        """A recent completion for the live view."""
        self._state["sample"] = row

    def note(self, text: str) -> None:
        """One line that stays."""
        self._print(text)

    def close(self) -> None:
        """Give the terminal back; calling it twice is harmless."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _print(self, line: str) -> None:
        self._rich.print(Text(line))
        self._rich.file.flush()

    def _refresh(self) -> None:
        if self._live is None:
            self._live = Live(console=self._rich, refresh_per_second=4, transient=True)
            self._live.start()
        plan = self._plans.get(self._state["stage"])
        self._live.update(
            _view(self._state, plan, self._curve, self._left.text(), tuple(self._evals))
        )


def _view(state, plan: StagePlan | None, curve: list[float], left: str, evals: tuple) -> Panel:
    """The live view: progress, numbers, the curve, the last evaluations and one sample."""
    total = plan.steps if plan else None
    top = Table.grid(padding=(0, 2))
    top.add_row(
        Text(f"{state['stage']}  step {state['step']}/{total or '?'}", style="bold"),
        ProgressBar(total=total, completed=state["step"], width=30),
        Text(left, style="dim"),
    )
    numbers = Table.grid(padding=(0, 3))
    numbers.add_row(*(Text(name, style="dim") for name in state["values"]))
    numbers.add_row(*(Text(value, style="bold") for value in state["values"].values()))
    parts: list[Any] = [top, Text(""), numbers]
    if curve:
        curve_text = Text(f"{SHOWN[state['head']] if state['head'] else 'curve'} ", style="dim")
        parts += [Text(""), curve_text.append(sparkline(curve), style="cyan")]
    parts += [Text(line, style="green", no_wrap=True, overflow="ellipsis") for line in evals]
    if "sample" in state:
        parts += [Text(""), _sample_text(state["sample"])]
    return Panel(Group(*parts), border_style="dim")


def _sample_text(row: Mapping[str, Any], limit: int = 300) -> Text:
    """Prompt and completion of one sample; control characters are shown, never obeyed."""

    def tidy(text: str) -> str:
        flat = " ".join(text.split())
        visible = "".join(c if c.isprintable() else "�" for c in flat)
        return visible if len(visible) <= limit else visible[: limit - 1] + "…"

    mark = Text("✓ ", style="bold green") if row["correct"] else Text("✗ ", style="bold red")
    body = mark.append(tidy(str(row["prompt"])), style="dim")
    return body.append("  " + tidy(str(row["completion"])), style="default")
