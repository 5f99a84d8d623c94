"""rlvr grade: grade saved generations and estimate what k samples are worth.

  rlvr grade responses.jsonl                       columns found by their usual names
  rlvr grade out.jsonl --reward=numeric --answer=gold --responses=samples --score=rm
  rlvr grade out.jsonl --set extract=boxed,phrase --out=verdicts.jsonl

A line holds a prompt, a gold answer and one response or a list of them; lines with the same prompt
and gold are samples of one problem.  Printed with 95 % intervals by problem: avg@k, unbiased
pass@k, maj@k and, with a score column, best-of-k and weighted majority; with a label column, how
often the verdicts agree with the labels.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import json
import math
import re
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rlvr_jax.registry import nearest
from rlvr_jax.rewards import REWARDS, Reward, make_grader
from rlvr_jax.rewards.controls import vote
from rlvr_jax.rewards.wrapper import named_reward
from rlvr_jax.statistics import Estimate, maj_at_k, mean_ci, pass_at_k
from rlvr_jax.tasks.rows import Row, came, read_rows
from rlvr_jax.types import Completion, Problem, Verdict

USUAL = {
    "prompt": ("prompt", "question", "problem", "input", "messages", "instruction", "query"),
    "responses": ("responses", "response", "completions", "completion", "outputs", "output")
    + ("generations", "generation", "samples", "predictions", "prediction", "code"),
    "answer": ("answer", "gold", "ground_truth", "final_answer", "target", "expected", "solution"),
    "score": ("scores", "score", "rewards", "reward", "rm_scores"),
    "label": ("labels", "label", "correct", "is_correct", "accs"),
}
OPTIONAL = ("score", "label")


@dataclasses.dataclass(frozen=True)
class Group:
    """One problem with its samples.  scores, labels: one a sample, or None.  places: where each
    sample came from, "file:line"."""

    problem: Problem
    responses: list[str]
    places: list[str]
    scores: list[float] | None
    labels: list[bool] | None


@dataclasses.dataclass(frozen=True)
class Grades:
    """What the samples are worth.  k: samples of the largest problem.

    best_of, weighted: None without scores.  agreement: with the labels, None without.
    reasons: why answers were wrong or could not be judged, counted.
    """

    problems: int
    responses: int
    k: int
    avg: Estimate
    pass_at: Mapping[int, Estimate]
    maj: Estimate
    best_of: Estimate | None
    weighted: Estimate | None
    agreement: Estimate | None
    unknown: int
    reasons: Mapping[str, int]


def find_columns(row: Row, given: Mapping[str, str | None]) -> dict[str, str | None]:
    """The column for each role: the given one, or the first of `USUAL` that the row has."""
    found: dict[str, str | None] = {}
    for role, usual in USUAL.items():
        name = given.get(role)
        if name:
            row.column(name)
        else:
            name = next((column for column in usual if column in row.columns), None)
        if name is None and role not in OPTIONAL:
            raise ValueError(
                f"{row.where}: which column holds the {role}?  Say --{role}=NAME "
                f"(there are: {', '.join(row.columns)})"
            )
        found[role] = name
    return found


def load_groups(
    path: str, given: Mapping[str, str | None] | None = None, pattern: str = ""
) -> list[Group]:
    """The problems of a file, in order of first appearance.  ValueError with file and line.

    given: column names by role.  pattern: its group 1 in the answer column is the gold.
    """
    if pattern and not re.compile(pattern).groups:
        raise ValueError(f"the answer pattern {pattern!r} has no group for the gold")
    rows = read_rows(path)
    columns = find_columns(rows[0], given or {})
    groups: dict[str, Group] = {}
    for row in rows:
        prompt = row.prompt(columns["prompt"])
        answer = _gold(row, columns["answer"], pattern)
        key = repr((prompt, answer))
        if key not in groups:
            problem = Problem(prompt=prompt, answer=answer, index=len(groups), meta=row.columns)
            extra = [[] if columns[role] else None for role in OPTIONAL]
            groups[key] = Group(problem, [], [], *extra)
        _add(groups[key], row, columns)
    return list(groups.values())


def _gold(row: Row, column: str, pattern: str) -> str:
    value = row.column(column)
    if isinstance(value, dict | list):
        return json.dumps(value)
    text = str(value) if isinstance(value, bool) else row.text(column)
    found = re.search(pattern, text, re.MULTILINE) if pattern else None
    if pattern and (found is None or found[1] is None):
        raise ValueError(
            f'{row.where}: column "{column}" does not match {pattern!r}: {text[-60:]!r}'
        )
    return found[1].strip() if found else text


def _add(group: Group, row: Row, columns: Mapping[str, str | None]) -> None:
    responses = row.column(columns["responses"])
    responses = responses if isinstance(responses, list) else [responses]
    texts = [_text(row, columns["responses"], response) for response in responses]
    group.responses.extend(texts)
    group.places.extend([row.where] * len(texts))
    for role, target, kind in (("score", group.scores, float), ("label", group.labels, bool)):
        if target is not None:
            target.extend(_values(row, columns[role], len(texts), kind))


def _text(row: Row, column: str, response: Any) -> str:
    if isinstance(response, list) and response:  # messages: the last one is the answer
        response = response[-1]
    if isinstance(response, dict):
        response = response.get("content", response.get("text"))
    if not isinstance(response, str):
        raise ValueError(
            f'{row.where}: column "{column}": a response must be text, {came(response)}'
        )
    return response


def _values(row: Row, column: str, count: int, kind: type) -> list:
    values = row.column(column)
    values = values if isinstance(values, list) else [values]
    if len(values) != count:
        raise ValueError(f'{row.where}: column "{column}" has {len(values)} values for {count}')
    for value in values:
        if not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError(f'{row.where}: column "{column}" must hold numbers, {came(value)}')
    return [kind(value) for value in values]


def grade_groups(groups: Sequence[Group], reward: Reward, workers: int = 2) -> list[list[Verdict]]:
    """The verdicts on each problem's samples."""
    completions = [Completion(text=text) for group in groups for text in group.responses]
    problems = [group.problem for group in groups for _ in group.responses]
    with make_grader(reward, workers=workers) as grader:
        verdicts = iter(grader.grade(completions, problems))
    return [[next(verdicts) for _ in group.responses] for group in groups]


def best_of_n(scores: Sequence[float], correct: Sequence[bool]) -> float:
    """Whether the sample of the highest score is right; between ties the share that is."""
    top = max(scores)
    return sum(c for s, c in zip(scores, correct, strict=True) if s == top) / scores.count(top)


def weighted_majority(
    answers: Sequence[str | None], correct: Sequence[bool], weights: Sequence[float]
) -> float:
    """Accuracy of the vote in which each sample's answer counts with its weight (>= 0).

    Uesato et al. 2022 (arXiv:2211.14275), section 2.3.  Without any answer the result is 0.
    """
    votes: Counter = Counter()
    for answer, weight in zip(answers, weights, strict=True):
        if answer is not None:
            votes[answer] += weight
    if not votes:
        return 0.0
    leader = max(votes, key=lambda answer: votes[answer])
    right = [c for a, c in zip(answers, correct, strict=True) if a == leader]
    return sum(right) / len(right)


def vote_weights(scores: Sequence[float], bounded: bool) -> list[float]:
    """Scores as weights: themselves where they are probabilities, else their sigmoid."""
    return list(scores) if bounded else [0.5 * (1.0 + math.tanh(0.5 * s)) for s in scores]


def summarise(groups: Sequence[Group], verdicts: Sequence[Sequence[Verdict]]) -> Grades:
    """The estimates; samples that no verifier could judge are left out and counted."""
    judged = [_judged(group, row) for group, row in zip(groups, verdicts, strict=True)]
    kept = [group for group in judged if group["correct"]]
    k = max((len(group["correct"]) for group in kept), default=1)
    every = [verdict for row in verdicts for verdict in row]
    scored = all(group["scores"] is not None for group in kept)
    bounded = scored and all(0 <= s <= 1 for group in kept for s in group["scores"])
    return Grades(
        problems=len(groups),
        responses=len(every),
        k=k,
        avg=mean_ci([sum(g["correct"]) / len(g["correct"]) for g in kept], samples=k),
        pass_at={2**i: _pass_at(kept, 2**i) for i in range(k.bit_length())},
        maj=mean_ci([maj_at_k(g["answers"], g["correct"]) for g in kept]),
        best_of=mean_ci([best_of_n(g["scores"], g["correct"]) for g in kept]) if scored else None,
        weighted=mean_ci([_weighted(g, bounded) for g in kept]) if scored else None,
        agreement=_agreement(judged),
        unknown=sum(verdict.status == "unknown" for verdict in every),
        reasons=Counter(v.reason for v in every if v.status != "scored"),
    )


def _judged(group: Group, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    kept = [i for i, verdict in enumerate(verdicts) if verdict.status != "unknown"]
    return {
        "correct": [verdicts[i].correct for i in kept],
        "answers": [vote(verdicts[i]) for i in kept],
        "scores": None if group.scores is None else [group.scores[i] for i in kept],
        "labels": None if group.labels is None else [group.labels[i] for i in kept],
    }


def _weighted(group: Mapping[str, Any], bounded: bool) -> float:
    weights = vote_weights(group["scores"], bounded)
    return weighted_majority(group["answers"], group["correct"], weights)


def _pass_at(groups: Sequence[Mapping[str, Any]], k: int) -> Estimate:
    enough = [g["correct"] for g in groups if len(g["correct"]) >= k]
    draws = max((len(c) // k for c in enough), default=1)
    return mean_ci([pass_at_k(sum(c), len(c), k) for c in enough], samples=draws)


def _agreement(groups: Sequence[Mapping[str, Any]]) -> Estimate | None:
    if any(group["labels"] is None for group in groups):
        return None
    pairs = [list(zip(g["correct"], g["labels"], strict=True)) for g in groups if g["correct"]]
    rates = [sum(a == b for a, b in row) / len(row) for row in pairs]
    return mean_ci(rates, samples=max((len(row) for row in pairs), default=1))


def format_grades(grades: Grades) -> str:
    """The report as lines for people."""
    k = grades.k
    rows = [("avg", k, grades.avg)]
    rows += [("pass", n, estimate) for n, estimate in grades.pass_at.items()]
    rows += [("maj", k, grades.maj), ("best-of", k, grades.best_of)]
    rows += [("weighted maj", k, grades.weighted)]
    lines = [f"{grades.problems} problems, {grades.responses} responses"]
    lines += [f"{f'{name}@{n}':<16}{estimate}" for name, n, estimate in rows if estimate]
    if grades.agreement is not None:
        lines.append(f"{'labels agree':<16}{grades.agreement}")
    counted = ", ".join(f"{reason} {n}" for reason, n in Counter(grades.reasons).most_common())
    lines.append(f"not right: {counted or 'none'}; could not tell: {grades.unknown}")
    return "\n".join(lines)


def make_reward(name: str, settings: Sequence[str] = ()) -> Reward:
    """A reward by name with "field=value" settings; ValueError for what does not fit."""
    if ":" in name or not settings:
        return named_reward(name)
    kinds = {field.name: str(field.type) for field in dataclasses.fields(REWARDS[name])}
    fields: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or key not in kinds:
            raise ValueError(
                f'"{setting}" is no field=value of reward "{name}"{nearest(key, list(kinds))} '
                f"(it has: {', '.join(kinds)})"
            )
        fields[key] = _parsed(text, kinds[key])
    return REWARDS.make(name, **fields)


def _parsed(text: str, kind: str) -> Any:
    if kind.startswith("tuple"):
        items = [item for item in text.split(",") if item]
        return tuple(float(item) for item in items) if "float" in kind else tuple(items)
    if kind.startswith("str"):
        return text
    try:
        return ast.literal_eval(text.capitalize() if kind == "bool" else text)
    except (ValueError, SyntaxError):
        raise ValueError(f'"{text}" is no {kind}') from None


def write_verdicts(
    path: str, groups: Sequence[Group], verdicts: Sequence[Sequence[Verdict]]
) -> None:
    """One JSON line a response: where, verdict, score, reason, extracted answer, label if any."""
    with open(path, "w", encoding="utf-8") as file:
        for group, row in zip(groups, verdicts, strict=True):
            for i, verdict in enumerate(row):
                line = {"where": group.places[i], "sample": i, "correct": verdict.correct}
                line |= {"status": verdict.status, "score": verdict.score, "stage": verdict.stage}
                line |= {"reason": verdict.reason, "extracted": verdict.extracted}
                if group.labels is not None:
                    line["label"] = group.labels[i]
                file.write(json.dumps(line) + "\n")


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    arguments = argparse.ArgumentParser(
        prog="rlvr grade", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("file", help="JSON lines, plain or gzip")
    arguments.add_argument("--reward", default="math", help="a verifier, or module:function")
    arguments.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE")
    for role in USUAL:
        arguments.add_argument(f"--{role}", metavar="COLUMN", help=f"the column of the {role}")
    arguments.add_argument("--answer-pattern", default="", help="group 1 in the answer is the gold")
    arguments.add_argument("--out", help="write one JSON line a response here")
    arguments.add_argument("--workers", type=int, default=2)
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Entry of `rlvr grade`."""
    options = parser().parse_args(argv)
    reward = make_reward(options.reward, options.set)
    columns = {role: getattr(options, role) for role in USUAL}
    groups = load_groups(options.file, columns, options.answer_pattern)
    start = time.monotonic()
    verdicts = grade_groups(groups, reward, options.workers)
    seconds = time.monotonic() - start
    grades = summarise(groups, verdicts)
    print(format_grades(grades))
    print(
        f"{options.reward}: {seconds:.1f} s, {grades.responses / max(seconds, 1e-9):.0f} a second"
    )
    if options.out:
        write_verdicts(options.out, groups, verdicts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
