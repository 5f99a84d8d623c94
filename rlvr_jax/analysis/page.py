"""The report as one HTML page that needs nothing but itself.

Everything a model, a data set or a user wrote goes through `escape`; the page's own policy forbids
scripts and every outside request.
"""

from __future__ import annotations

import base64
import html
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rlvr_jax.analysis.checks import Check
from rlvr_jax.analysis.page_style import STYLE
from rlvr_jax.analysis.run_folder import Row, Run
from rlvr_jax.statistics import Estimate

MAX_SAMPLES = 24
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def escape(value: Any) -> str:
    """Text as HTML, with control and direction characters made visible."""
    text = str(value)
    visible = "".join(
        c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text
    )
    return html.escape(visible, quote=True)


def estimate(entry: Estimate | Mapping | None) -> str:
    """0.96 with its interval in small print."""
    if isinstance(entry, Mapping):
        entry = Estimate.from_json(entry)
    if entry is None or not math.isfinite(entry.value):
        return '<span class="dim">not measured</span>'
    return f'{entry.value:.3f} <span class="ci">[{entry.lo:.3f}, {entry.hi:.3f}]</span>'


def picture(name: str, png: bytes, caption: str, wide: bool = False) -> str:
    """A plot, embedded."""
    data = base64.b64encode(png).decode()
    kind = "plot wide" if wide else "plot"
    return (
        f'<figure class="{kind}"><img alt="{escape(name)}: {escape(caption)}" '
        f'src="data:image/png;base64,{data}"><figcaption>{escape(caption)}</figcaption></figure>'
    )


def cards(entries: Iterable[tuple[str, str]]) -> str:
    """Big numbers; the values are HTML, the labels text."""
    body = "".join(
        f'<div class="card"><div class="value">{value}</div>'
        f'<div class="label">{escape(label)}</div></div>'
        for label, value in entries
    )
    return f'<div class="cards">{body}</div>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; the head is text, the cells are HTML."""
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    whole = f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="scroll">{whole}</div>'


def stage_table(stages: Sequence[Row]) -> str:
    """One row a stage of the summary."""

    def number(value: Any, form: str) -> str:
        return '<span class="dim">n/a</span>' if value is None else format(value, form)

    head = (
        "stage",
        "pass@1 before",
        "pass@1 after",
        "change, paired",
        "steps",
        "minutes",
        "tokens/s",
    )
    rows = [
        (
            escape(stage["stage"]),
            estimate(stage["pass1_before"]),
            estimate(stage["pass1_after"]),
            estimate(stage["pass1_change"]),
            number(stage["steps"], ",d"),
            number(stage["minutes"], ".1f"),
            number(stage["tokens_per_s"], ",.0f"),
        )
        for stage in stages
    ]
    return table(head, rows)


def checks_table(checks: Sequence[Check]) -> str:
    """What the run says about its own health."""
    marks = {
        True: '<span class="ok">✓</span>',
        False: '<span class="bad">!</span>',
        None: '<span class="dim">?</span>',
    }
    rows = [
        (
            marks[check.good],
            escape(check.name),
            escape(check.found),
            f'<span class="dim">{escape(check.meaning)}</span>',
        )
        for check in checks
    ]
    return table(("", "check", "found", "bad is"), rows)


def pair_samples(run: Run, stage: str) -> list[tuple[list[Row], list[Row]]]:
    """(samples before, samples now) of every prompt of the stage's two ends, in order."""
    rows = [row for row in run.samples if row["stage"] == stage]
    if not rows:
        return []
    first, last = min(r["step"] for r in rows), max(r["step"] for r in rows)
    ends: dict[tuple, tuple[list[Row], list[Row]]] = {}
    for row in rows:
        pair = ends.setdefault((row["split"], row["index"], row["prompt"]), ([], []))
        if row["step"] == first:
            pair[0].append(row)
        if row["step"] == last and last > first:
            pair[1].append(row)
    return [pair for pair in ends.values() if pair[0] or pair[1]]


def samples_section(run: Run, stage: str) -> str:
    """Before and after, side by side, for the same prompts."""
    pairs = pair_samples(run, stage)
    if not pairs:
        return ""
    moves = {(False, True): 0, (True, False): 0, (True, True): 0, (False, False): 0}
    for before, after in pairs:
        if before and after:
            moves[bool(before[0]["correct"]), bool(after[0]["correct"])] += 1
    told = (
        f"{moves[False, True]} went from wrong to right, {moves[True, False]} from right to wrong, "
        f"{moves[True, True]} stayed right, {moves[False, False]} stayed wrong."
    )
    rows = [_sample_row(before, after) for before, after in pairs[:MAX_SAMPLES]]
    more = f" The first {MAX_SAMPLES} are shown." if len(pairs) > MAX_SAMPLES else ""
    head = table(("prompt", "before", "after"), rows).replace("<table>", '<table class="samples">')
    return f"<h2>The same prompts, before and after {escape(stage)}</h2><p>{told}{more}</p>{head}"


def _sample_row(before: Sequence[Row], after: Sequence[Row]) -> tuple[str, str, str]:
    row = (before or after)[0]
    gold = f'<div class="gold">gold: {escape(row["gold"])}</div>' if row["gold"] else ""
    return f"<pre>{escape(row['prompt'])}</pre>{gold}", _sample_cell(before), _sample_cell(after)


def _sample_cell(rows: Sequence[Row]) -> str:
    if not rows:
        return '<span class="dim">not yet</span>'
    row = rows[0]
    kind = "unknown" if row["status"] == "unknown" else "right" if row["correct"] else "wrong"
    notes = [f"{row['num_tokens']} tokens", f"reward {row['reward']:g}"]
    notes += ["cut off at the limit"] * (row["stop_reason"] == "length")
    notes += [str(row["reason"])] if row["reason"] else []
    notes += [f"{sum(r['correct'] for r in rows)} of {len(rows)} right"] * (len(rows) > 1)
    mark = {"right": "✓ right", "wrong": "✗ wrong", "unknown": "? not judged"}[kind]
    return (
        f'<div class="sample {kind}"><div class="mark">{mark}</div>'
        f"<pre>{escape(row['completion'])}</pre>"
        f'<div class="notes">{escape(" · ".join(notes))}</div></div>'
    )


def record_section(run: Run) -> str:
    """How to repeat the run: command, seeds, hashes, versions; the configuration, folded."""
    summary, rows = run.summary, []
    for name in ("command", "finished", "config_sha256"):
        if summary.get(name):
            rows.append((escape(name), f"<code>{escape(summary[name])}</code>"))
    for name in ("seeds", "data_sha256", "versions", "hardware"):
        for key, value in (summary.get(name) or {}).items():
            rows.append((f"{escape(name)}.{escape(key)}", f"<code>{escape(value)}</code>"))
    body = table(("what", "value"), rows) if rows else ""
    if run.config:
        text = escape(json.dumps(run.config, indent=2, ensure_ascii=False))
        body += f"<details><summary>The whole configuration</summary><pre>{text}</pre></details>"
    return f"<h2>To repeat it</h2>{body}" if body else ""


def page(title: str, headline: str, sections: Iterable[str]) -> str:
    """The whole document; `headline` and the sections are HTML."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>"
        f'<div class="eyebrow">{escape(title)}</div><h1>{headline}</h1>'
        f"{''.join(sections)}</main></body></html>\n"
    )
