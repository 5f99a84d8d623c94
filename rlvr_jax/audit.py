"""rlvr audit: a verifier against cases whose verdicts are known.

  rlvr audit cases.jsonl --verifier=math --out=verdicts.jsonl
  rlvr audit cases.jsonl --verifier=auto --against=numeric --kind=math,choice

A line holds `id`, `kind`, `gold`, `response`, `expected` (true or false) and perhaps `convention`,
for cases on which sound graders differ.  Text in `gold` is the answer; an object is the problem's
data.  Printed by kind: false positives and false negatives with 95 % intervals, apart for cases
with a convention; what was stopped or could not be judged; latencies; and the cases that were
missed.  Cases run one at a time, so that the milliseconds are each one's own.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence

import numpy as np

from rlvr_jax.registry import nearest
from rlvr_jax.rewards import InlineGrader, Reward, RewardPool, make_grader
from rlvr_jax.rewards.compose import Route
from rlvr_jax.rewards.grading import WrapperGrader
from rlvr_jax.rewards.settings import make_reward
from rlvr_jax.rewards.wrapper import Wrapper
from rlvr_jax.statistics import wilson
from rlvr_jax.tasks.rows import Row, came, output_path, read_rows
from rlvr_jax.types import Completion, Problem, Verdict

BY_KIND = {
    "math": "math",
    "choice": "choice",
    "code": "code",
    "countdown": "countdown",
    "logic": "knights",
    "format": "constraints",
}
Grader = InlineGrader | RewardPool | WrapperGrader
LATE = 1.5  # a check that took this many deadlines hung, whatever it said in the end


@dataclasses.dataclass(frozen=True)
class Case:
    """One response with its right verdict."""

    id: str
    kind: str
    problem: Problem
    response: str
    expected: bool
    convention: str = ""


@dataclasses.dataclass(frozen=True)
class Finding:
    """What the verifier said of a case, and how long it took."""

    case: Case
    verdict: Verdict
    milliseconds: float

    @property
    def says(self) -> str:
        """ "right", "wrong" or "unknown"."""
        if self.verdict.status == "unknown":
            return "unknown"
        return "right" if self.verdict.correct else "wrong"

    @property
    def false_positive(self) -> bool:
        return self.says == "right" and not self.case.expected

    @property
    def false_negative(self) -> bool:
        return self.says != "right" and self.case.expected


def load_cases(path: str, kinds: Sequence[str] = (), known: Sequence[str] = ()) -> list[Case]:
    """The cases of a file, those of `kinds` if any are named.  ValueError with file and line.

    known: the kinds that there is a verifier for; () for any.
    """
    rows = [(_text(row, "kind", "case"), row) for row in read_rows(path)]
    there = {kind for kind, _ in rows}
    missing = [kind for kind in kinds if kind not in there]
    if missing:
        raise ValueError(
            f"{path}: no case of kind {', '.join(missing)} (there are: {', '.join(sorted(there))})"
        )
    cases = []
    for index, (kind, row) in enumerate(rows):
        if kinds and kind not in kinds:
            continue
        if known and kind not in known:
            raise ValueError(
                f'{row.where}: no verifier belongs to kind "{kind}"{nearest(kind, list(known))} '
                f"(there are: {', '.join(known)}); name one with --verifier"
            )
        cases.append(_case(row, kind, index))
    return cases


def _case(row: Row, kind: str, index: int) -> Case:
    gold, expected, response = (row.column(name) for name in ("gold", "expected", "response"))
    if not isinstance(expected, bool):
        raise ValueError(f'{row.where}: "expected" must be true or false, {came(expected)}')
    if not isinstance(response, str):
        raise ValueError(f'{row.where}: "response" must be text, {came(response)}')
    if not isinstance(gold, str | int | float | dict):
        raise ValueError(f'{row.where}: "gold" must be text, a number or an object, {came(gold)}')
    meta = dict(gold) if isinstance(gold, dict) else {}
    answer = "" if isinstance(gold, dict) else str(gold)
    if kind == "logic" and "roles" not in meta:
        meta = {"roles": meta}
    meta["kind"] = kind
    problem = Problem(prompt="", answer=answer, index=index, meta=meta)
    name = row.columns.get("id", index)
    if not isinstance(name, str | int):
        raise ValueError(f'{row.where}: "id" must be text or a number, {came(name)}')
    return Case(str(name), kind, problem, response, expected, _text(row, "convention", ""))


def _text(row: Row, name: str, default: str) -> str:
    value = row.columns.get(name, default)
    if value is None and not default:
        return default
    if not isinstance(value, str):
        raise ValueError(f'{row.where}: "{name}" must be text, {came(value)}')
    return value


def make_verifier(name: str, settings: Sequence[str] = ()) -> Reward:
    """A reward by name, or "auto": the one that belongs to each case's kind, without settings."""
    if name != "auto":
        return make_reward(name, settings)
    if settings:
        raise ValueError(
            f'"{settings[0]}": auto takes no settings; name one verifier with --verifier'
        )
    return Route(column="kind", values=tuple(BY_KIND), rewards=tuple(BY_KIND.values()))


def audit(cases: Sequence[Case], reward: Reward) -> list[Finding]:
    """Every case on its own, in order.

    Workers start when they are first needed, so a case that ran past its deadline is timed again;
    one that truly hangs is late again.
    """
    findings = []
    with make_grader(reward, workers=1) as grader:
        for case in cases:
            finding = _timed(grader, case)
            findings.append(_timed(grader, case) if hung(finding, reward) else finding)
    return findings


def _timed(grader: Grader, case: Case) -> Finding:
    start = time.perf_counter()
    (verdict,) = grader.grade([Completion(text=case.response)], [case.problem])
    return Finding(case, verdict, 1000 * (time.perf_counter() - start))


def hung(finding: Finding, reward: Reward) -> bool:
    """Whether the check ran past its deadline."""
    if isinstance(reward, Route):
        chosen = reward.choose(finding.case.problem)
        reward = dict(zip(reward.names, reward.inner, strict=True)).get(chosen, reward)
    inner = reward.inner if isinstance(reward, Wrapper) else (reward,)
    return finding.milliseconds > 1000 * LATE * max(each.deadline_s for each in inner)


def format_audit(findings: Sequence[Finding], reward: Reward) -> str:
    """The tables for people."""
    lines = [f"{'kind':<22}{'cases':>6}  {'false positives':<30}{'false negatives':<30}unknown"]
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        note = " (convention)" if finding.case.convention else ""
        groups.setdefault(finding.case.kind + note, []).append(finding)
    plain = [f for f in findings if not f.case.convention]
    noted = [f for f in findings if f.case.convention]
    rows = [*sorted(groups.items()), ("all", plain), ("all (convention)", noted)]
    lines += [_row(name, group) for name, group in rows if group]
    times = np.array([f.milliseconds for f in findings])
    p50, p90, p99 = np.percentile(times, (50, 90, 99))
    lines.append(f"ms: median {p50:.2f}, 90 % {p90:.1f}, 99 % {p99:.1f}, slowest {times.max():.0f}")
    stopped = Counter(f.verdict.reason for f in findings)
    ends = [f"{reason} {stopped[reason]}" for reason in ("timeout", "memory", "crash")]
    late = sum(hung(f, reward) for f in findings)
    lines.append(f"stopped: {', '.join(ends)}; ran past the deadline: {late}")
    lost = Counter(f.verdict.reason for f in findings if f.says == "unknown")
    if lost:
        lines.append(f"could not tell: {', '.join(f'{r} {n}' for r, n in lost.most_common())}")
    for name in ("false_positive", "false_negative"):
        ids = [_id(f) for f in findings if getattr(f, name)]
        lines.append(f"{name.replace('_', ' ')}s: {', '.join(ids) or 'none'}")
    return "\n".join(lines)


def _id(finding: Finding) -> str:
    return finding.case.id + ("*" if finding.case.convention else "")


def _row(name: str, group: Sequence[Finding]) -> str:
    wrong = [f for f in group if not f.case.expected]
    right = [f for f in group if f.case.expected]
    positives = _rate(sum(f.false_positive for f in wrong), len(wrong))
    negatives = _rate(sum(f.false_negative for f in right), len(right))
    unknown = sum(f.says == "unknown" for f in group)
    return f"{name:<22}{len(group):>6}  {positives:<30}{negatives:<30}{unknown}"


def _rate(count: int, total: int) -> str:
    lo, hi = wilson(count, total)
    return f"{count}/{total} [{lo:.3f}, {hi:.3f}]" if total else "-"


def format_against(first: Sequence[Finding], second: Sequence[Finding], names: str) -> str:
    """Where two verifiers differ, a line a case."""
    lines = []
    for a, b in zip(first, second, strict=True):
        if a.says != b.says:
            expected = "right" if a.case.expected else "wrong"
            lines.append(f"  {_id(a):<24}expected {expected:<8}{a.says:<9}{b.says}")
    return "\n".join([f"disagreements of {names}: {len(lines)} of {len(first)}", *lines])


def write_findings(path: str, findings: Sequence[Finding]) -> None:
    """One JSON line a case: id, expected, verdict, reason, milliseconds, and what led to it."""
    with open(path, "w", encoding="utf-8") as file:
        for finding in findings:
            verdict = finding.verdict
            line = {"id": finding.case.id, "kind": finding.case.kind}
            line |= {"expected": finding.case.expected, "verdict": finding.says}
            line |= {"reason": verdict.reason, "milliseconds": round(finding.milliseconds, 3)}
            line |= {"stage": verdict.stage, "extracted": verdict.extracted, "gold": verdict.gold}
            file.write(json.dumps(line) + "\n")


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    arguments = argparse.ArgumentParser(
        prog="rlvr audit", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("file", help="cases, JSON lines")
    arguments.add_argument("--verifier", default="auto", help='a reward, or "auto" by kind')
    arguments.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE")
    arguments.add_argument("--against", help="another verifier to compare with")
    arguments.add_argument("--kind", default="", help="only these kinds, comma-separated")
    arguments.add_argument("--out", help="write one JSON line a case here")
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Entry of `rlvr audit`."""
    options = parser().parse_args(argv)
    reward = make_verifier(options.verifier, options.set)
    other = make_verifier(options.against) if options.against else None
    out = None if options.out is None else output_path(options.out, [options.file])
    known = tuple(BY_KIND) if "auto" in (options.verifier, options.against) else ()
    kinds = [kind.strip() for kind in options.kind.split(",") if kind.strip()]
    cases = load_cases(options.file, kinds, known)
    findings = audit(cases, reward)
    if out is not None:
        write_findings(out, findings)
    print(format_audit(findings, reward))
    if other is not None:
        names = f"{options.verifier} and {options.against}"
        print(format_against(findings, audit(cases, other), names))
    return 0


if __name__ == "__main__":
    sys.exit(main())
