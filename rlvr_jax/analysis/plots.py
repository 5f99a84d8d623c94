"""The pictures of a report: one function a picture, Run -> Figure or None if there is no data.

Matplotlib's Figure is used directly, so nothing global is touched.  The background is transparent
and the ink a middle grey: a picture reads the same on a light and on a dark page.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from rlvr_jax.analysis.run_folder import Run, change, leading_stage
from rlvr_jax.statistics import Estimate

INK = "#7b838f"
BLUE, ORANGE, GREEN, RED = "#3d8bfd", "#f0932b", "#2eaa6b", "#e5544b"
VIOLET, TEAL, PINK = "#9a6bff", "#1fb5b0", "#e668a7"
PALETTE = (BLUE, ORANGE, VIOLET, TEAL, PINK, GREEN, RED)
PARTS = {  # of the time, in the order of a step
    "generate": BLUE,
    "verify": GREEN,
    "logprob": TEAL,
    "update": VIOLET,
    "eval": ORANGE,
    "ckpt": RED,
    "other": INK,
}


@dataclasses.dataclass(frozen=True)
class Curve:
    """A metric to draw: its name in metrics.jsonl, its label and colour."""

    name: str
    label: str
    color: str


def smooth(values: np.ndarray, share: float = 0.06) -> np.ndarray:
    """Moving average over `share` of the points, centred; one-sided at the two ends."""
    half = int(len(values) * share / 2)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    index = np.arange(len(values))
    first, last = np.maximum(index - half, 0), np.minimum(index + half + 1, len(values))
    return (sums[last] - sums[first]) / (last - first)


def _style(axes: Axes) -> None:
    axes.patch.set_alpha(0)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(INK)
        axes.spines[side].set_alpha(0.6)
    axes.tick_params(colors=INK, labelsize=9, length=3)
    axes.grid(axis="y", color=INK, alpha=0.18, linewidth=0.8)
    axes.set_axisbelow(True)


def _legend(axes: Axes, **options) -> None:
    legend = axes.legend(frameon=False, fontsize=9, **options)
    for text in legend.get_texts():
        text.set_color(INK)


def _figure(title: str, size: tuple[float, float] = (5.6, 3.3)) -> Figure:
    figure = Figure(figsize=size, layout="constrained")
    figure.patch.set_alpha(0)
    figure.suptitle(title, x=0.012, ha="left", fontsize=12, fontweight="bold", color=INK)
    return figure


def _panels(run: Run, title: str, stages: Sequence[str], size: tuple[float, float] = (5.6, 3.3)):
    """(figure, {stage: axes}): a panel for each stage, the leading stage the widest."""
    figure = _figure(title, size)
    lead = leading_stage(run)
    widths = [2.4 if stage == lead else 1.0 for stage in stages]
    grid = figure.subplots(1, len(stages), sharey=True, squeeze=False, width_ratios=widths)[0]
    for index, (axes, stage) in enumerate(zip(grid, stages, strict=True)):
        _style(axes)
        axes.set_xlabel(f"{stage} step", color=INK, fontsize=9)
        axes.xaxis.set_major_locator(MaxNLocator(5 if stage == lead else 3, integer=True))
        if len(stages) > 1 and stage != lead:
            axes.patch.set(facecolor=INK, alpha=0.08)
        if index:
            axes.tick_params(labelleft=False, left=False)
            axes.spines["left"].set_visible(False)
    return figure, dict(zip(stages, grid, strict=True))


def _with(run: Run, names: Sequence[str]) -> list[str]:
    return [s for s in run.stages if any(len(run.series(s, name)[0]) for name in names)]


def _curves(
    run: Run, title: str, curves: Sequence[Curve], label: str, *, log: bool = False
) -> Figure | None:
    """Raw values faint, their moving average strong."""
    stages = _with(run, [curve.name for curve in curves])
    if not stages:
        return None
    figure, panels = _panels(run, title, stages)
    for stage, axes in panels.items():
        for curve in curves:
            steps, values = run.series(stage, curve.name)
            if log:
                values = np.where(values > 0, values, math.nan)
            if len(steps) == 0:
                continue
            mark = "o" if len(steps) == 1 else None
            axes.plot(steps, values, color=curve.color, alpha=0.28, linewidth=1, marker=mark)
            trend = values if np.isnan(values).any() else smooth(values)
            axes.plot(steps, trend, color=curve.color, linewidth=2, label=curve.label)
        if log:
            axes.set_yscale("log")
    first, last = panels[stages[0]], panels[stages[-1]]
    first.set_ylabel(label, color=INK, fontsize=9)
    if len(curves) > 1 and last.get_legend_handles_labels()[0]:
        _legend(last, loc="best", handlelength=1.4)
    return figure


def _errorbars(axes: Axes, x: Sequence[float], entries: Sequence[Estimate], color, label) -> None:
    values = np.array([e.value for e in entries])
    ends = np.array([[e.value - e.lo, e.hi - e.value] for e in entries]).T
    axes.fill_between(x, values - ends[0], values + ends[1], color=color, alpha=0.16, linewidth=0)
    axes.errorbar(
        x, values, ends, color=color, linewidth=2, elinewidth=1.4, marker="o", ms=5, label=label
    )


def eval_curve(run: Run) -> Figure | None:
    """Accuracy of a sample on held-out problems over the whole pipeline, with intervals."""
    stages = [s for s in run.stages if any(row["stage"] == s for row in run.evals)]
    if not stages:
        return None
    figure, panels = _panels(run, "Held-out accuracy (pass@1), 95 % intervals", stages, (11.2, 4))
    for stage, axes in panels.items():
        for name, color in zip(run.sets, PALETTE, strict=False):
            found = run.reports(stage, name)
            found = [(row["step"], r.avg) for row, r in found if math.isfinite(r.avg.value)]
            if not found:
                continue
            steps, entries = [s for s, _ in found], [e for _, e in found]
            _errorbars(axes, steps, entries, color, name)
            for step, entry in {steps[0]: entries[0], steps[-1]: entries[-1]}.items():
                low = entry.value > 0.85
                axes.annotate(
                    f"{entry.value:.2f}",
                    (step, entry.lo if low else entry.hi),
                    xytext=(0, -5 if low else 5),
                    textcoords="offset points",
                    ha="center",
                    va="top" if low else "bottom",
                    color=color,
                    fontweight="bold",
                )
        axes.set_ylim(-0.02, 1.04)
        axes.margins(x=0.08)
    panels[stages[0]].set_ylabel("share of samples right", color=INK, fontsize=9)
    if len(run.sets) > 1:
        _legend(panels[stages[-1]], loc="lower right")
    return figure


def reward_curve(run: Run) -> Figure | None:
    """Mean reward of the training rollouts."""
    curves = [Curve("reward/mean", "mean", BLUE)]
    return _curves(run, "Reward of the training rollouts", curves, "reward")


def sft_loss(run: Run) -> Figure | None:
    """Loss of the supervised warm-up."""
    return _curves(run, "Supervised loss", [Curve("sft/loss", "loss", VIOLET)], "nats a token")


def pass_at_k(run: Run) -> Figure | None:
    """pass@k before and after the leading stage: did it widen what can be solved at all?"""
    found = change(run, leading_stage(run))
    if found is None:
        return None
    figure = _figure(f"pass@k on {found.set}, before and after {found.stage}")
    axes = figure.subplots()
    _style(axes)
    ks: set[int] = set()
    for report, color, label in ((found.before, INK, "before"), (found.after, BLUE, "after")):
        kept = {k: e for k, e in report.pass_at.items() if e.n} if report else {}
        if kept:
            _errorbars(axes, list(kept), list(kept.values()), color, label)
            ks |= set(kept)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(sorted(ks)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda k, _: f"{k:g}"))
    axes.set_xlabel("k samples", color=INK, fontsize=9)
    axes.set_ylabel("problems solved", color=INK, fontsize=9)
    axes.set_ylim(-0.02, 1.04)
    _legend(axes, loc="lower right")
    return figure


def lengths(run: Run) -> Figure | None:
    """Length of right and of wrong completions."""
    curves = (Curve("len/correct", "right", GREEN), Curve("len/incorrect", "wrong", RED))
    return _curves(run, "Length of right and wrong answers", curves, "tokens")


def groups(run: Run) -> Figure | None:
    """How the prompts of a batch split into solved by all, by some and by none of their samples."""
    names = ("group/all_right_frac", "group/all_wrong_frac")
    stages = _with(run, names)
    if not stages:
        return None
    figure, panels = _panels(run, "Prompts by what their samples did", stages)
    for stage, axes in panels.items():
        steps, right = run.series(stage, names[0])
        other, wrong = run.series(stage, names[1])
        if len(steps) == 0 or not np.array_equal(steps, other):
            continue
        right, wrong = smooth(right), smooth(wrong)
        some = 1 - right - wrong
        layers = {"all right": GREEN, "some right": BLUE, "all wrong": RED}
        axes.stackplot(
            steps, right, some, wrong, colors=layers.values(), labels=layers, alpha=0.65, lw=0
        )
        axes.set_ylim(0, 1)
        axes.margins(x=0)
    panels[stages[0]].set_ylabel("share of prompts", color=INK, fontsize=9)
    figure.legend(
        *panels[stages[-1]].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=3,
        frameon=False,
        fontsize=9,
        labelcolor=INK,
    )
    return figure


def entropy(run: Run) -> Figure | None:
    """Entropy of the policy: what is left of its freedom."""
    curves = [Curve("policy/entropy", "entropy", TEAL)]
    return _curves(run, "Entropy of the policy", curves, "nats a token")


def kl_reference(run: Run) -> Figure | None:
    """KL divergence to the frozen reference: how far the policy has gone."""
    curves = [Curve("policy/kl_ref_k3", "KL", VIOLET)]
    return _curves(run, "KL to the reference (k3)", curves, "nats a token")


def sampler_gap(run: Run) -> Figure | None:
    """Difference between the sampler's log-probs and the scorer's: should stay tiny and flat."""
    curves = (
        Curve("mismatch/abs_max", "largest", ORANGE),
        Curve("mismatch/abs_mean", "mean", BLUE),
    )
    return _curves(run, "Gap between sampler and trainer", curves, "|log-prob gap|", log=True)


def time_spent(run: Run) -> Figure | None:
    """Minutes of each stage, by what they went into."""
    stages = [s for s in run.stages if run.total(s, "time/") > 0]
    if not stages:
        return None
    figure = _figure("Where the time went", (11.2, 1.5 + 0.45 * len(stages)))
    axes = figure.subplots()
    _style(axes)
    axes.grid(axis="y", visible=False)
    totals = {part: [run.total(s, f"time/{part}") / 60 for s in stages] for part in PARTS}
    left = np.zeros(len(stages))
    whole = max(sum(column) for column in zip(*totals.values(), strict=True))
    for part, minutes in totals.items():
        if sum(minutes) <= 0:
            continue
        axes.barh(stages, minutes, left=left, color=PARTS[part], label=part, height=0.55)
        for y, (start, width) in enumerate(zip(left, minutes, strict=True)):
            if width > 0.09 * whole:
                text = f"{100 * width / sum(m[y] for m in totals.values()):.0f}%"
                axes.text(start + width / 2, y, text, ha="center", va="center", color="white")
        left += np.asarray(minutes)
    axes.invert_yaxis()
    axes.set_xlabel("minutes", color=INK, fontsize=9)
    handles = axes.get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=8, frameon=False, labelcolor=INK)
    return figure


@dataclasses.dataclass(frozen=True)
class Plot:
    """A picture's function, how to read it, and whether it takes the page's full width."""

    draw: Callable[[Run], Figure | None]
    caption: str
    wide: bool = False


PLOTS: Mapping[str, Plot] = {
    "eval": Plot(
        eval_curve, "Every evaluation of the run; bars are 95 % intervals by problem.", wide=True
    ),
    "reward": Plot(reward_curve, "Faint: each step. Strong: moving average."),
    "pass_at_k": Plot(
        pass_at_k, "If the lines meet at large k, training sharpened what was there already."
    ),
    "groups": Plot(groups, "Only prompts with some right samples teach anything."),
    "lengths": Plot(lengths, "Wrong answers that run away in length are a bad sign."),
    "entropy": Plot(entropy, "A fall to zero ends exploration."),
    "kl": Plot(kl_reference, "Starts at 0; sudden jumps are a bad sign."),
    "sampler_gap": Plot(sampler_gap, "Both must compute one model; growth is the early warning."),
    "sft_loss": Plot(sft_loss, "The warm-up before reinforcement learning."),
    "time": Plot(time_spent, "Evaluation and saving are part of the bill.", wide=True),
}
