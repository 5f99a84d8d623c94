"""rlvr grade: grade saved generations and estimate what k samples are worth.

  rlvr grade responses.jsonl                       columns found by their usual names
  rlvr grade out.jsonl --reward=numeric --answer=gold --responses=samples --score=rm
  rlvr grade out.jsonl --set extract=boxed,phrase --out=verdicts.jsonl
  rlvr grade out.jsonl --reward=learned --set scorer=owner/model --set threshold=0

A line holds a prompt, a gold answer and one response or a list of them; lines with the same prompt
and gold are samples of one problem.  Printed with 95 % intervals by problem: avg@k, unbiased
pass@k, maj@k and, with a score column, best-of-k and weighted majority; with a label column (true
or 1, false or 0 or -1), how often the verdicts agree with the labels.  Each row says how many
problems it rests on; avg@2-8 means that problems have 2 to 8 judged samples.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import math
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from rlvr_jax.rewards import Reward, make_grader
from rlvr_jax.rewards.controls import vote
from rlvr_jax.rewards.settings import make_reward
from rlvr_jax.statistics import Estimate, maj_at_k, mean_ci, pass_at_k
from rlvr_jax.tasks.rows import Row, came, output_path, read_rows
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
MAX_SCORE = 1e300


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
    """What the samples are worth; each Estimate's n is the number of problems it rests on.

    fewest, k: judged samples of the smallest and the largest problem that has any.
    empty, unjudged: problems without a response, and with none that could be judged.
    maj, weighted: None where no response gave an answer, be it that the reward extracts none.
    best_of, weighted: None without scores.  agreement: with the labels, None without.
    reasons: why answers were wrong or could not be judged, counted.
    """

    problems: int
    responses: int
    empty: int
    unjudged: int
    fewest: int
    k: int
    avg: Estimate
    pass_at: Mapping[int, Estimate]
    maj: Estimate | None
    best_of: Estimate | None
    weighted: Estimate | None
    agreement: Estimate | None
    unknown: int
    reasons: Mapping[str, int]


def find_columns(row: Row, given: Mapping[str, str | None]) -> dict[str, str | None]:
    """The column for each role: the given one ("" for none, where one is optional), or the first
    of `USUAL` that the row has."""
    found: dict[str, str | None] = {}
    for role, usual in USUAL.items():
        name = given.get(role)
        if name == "" and role in OPTIONAL:
            name = None
        elif name:
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
    _check_pattern(pattern)
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


def _check_pattern(pattern: str) -> None:
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise ValueError(f"the answer pattern {pattern!r} is no pattern: {error}") from None
    if pattern and not groups:
        raise ValueError(f"the answer pattern {pattern!r} has no group for the gold")


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
    for role, target, read in (("score", group.scores, _score), ("label", group.labels, _label)):
        if target is not None:
            target.extend(read(row, role, v) for v in _values(row, columns[role], len(texts)))


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


def _values(row: Row, column: str, count: int) -> list[tuple[str, Any]]:
    """(column, value) for each sample."""
    values = row.column(column)
    values = values if isinstance(values, list) else [values]
    if len(values) != count:
        raise ValueError(f'{row.where}: column "{column}" has {len(values)} values for {count}')
    return [(column, value) for value in values]


def _score(row: Row, role: str, cell: tuple[str, Any]) -> float:
    column, value = cell
    if not isinstance(value, int | float) or not abs(value) <= MAX_SCORE:
        raise ValueError(
            f'{row.where}: column "{column}" must hold numbers, {came(value)} '
            f"(--{role}= ignores it)"
        )
    return float(value)


def _label(row: Row, role: str, cell: tuple[str, Any]) -> bool:
    column, value = cell
    if not isinstance(value, int | float) or value not in (0, 1, -1):
        raise ValueError(
            f'{row.where}: column "{column}" must hold true or 1, false or 0 or -1, {came(value)} '
            f"(--{role}= ignores it)"
        )
    return value == 1


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
    counts = [len(group["correct"]) for group in kept] or [0]
    every = [verdict for row in verdicts for verdict in row]
    voted = any(answer is not None for group in kept for answer in group["answers"])
    scored = bool(kept) and all(group["scores"] is not None for group in kept)
    bounded = scored and all(0 <= s <= 1 for group in kept for s in group["scores"])
    rates = [sum(g["correct"]) / len(g["correct"]) for g in kept]
    return Grades(
        problems=len(groups),
        responses=len(every),
        empty=sum(not group.responses for group in groups),
        unjudged=sum(bool(row) for row in verdicts) - len(kept),
        fewest=min(counts),
        k=max(counts),
        avg=mean_ci(rates, samples=max(1, sum(counts) // len(counts))),
        pass_at={2**i: _pass_at(kept, 2**i) for i in range(max(counts).bit_length())},
        maj=mean_ci([maj_at_k(g["answers"], g["correct"]) for g in kept]) if voted else None,
        best_of=mean_ci([best_of_n(g["scores"], g["correct"]) for g in kept]) if scored else None,
        weighted=mean_ci([_weighted(g, bounded) for g in kept]) if scored and voted else None,
        agreement=_agreement(kept),
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
    if not groups or any(group["labels"] is None for group in groups):
        return None
    pairs = [list(zip(g["correct"], g["labels"], strict=True)) for g in groups]
    rates = [sum(a == b for a, b in row) / len(row) for row in pairs]
    return mean_ci(rates, samples=max(len(row) for row in pairs))


def format_grades(grades: Grades) -> str:
    """The report as lines for people; ValueError where no sample could be judged."""
    if not grades.k:
        told = _counted(grades.reasons) if grades.responses else "no problem has a response"
        raise ValueError(f"nothing could be judged: {told}")
    k = f"{grades.fewest}-{grades.k}" if grades.fewest < grades.k else f"{grades.k}"
    rows = [(f"avg@{k}", grades.avg)]
    rows += [(f"pass@{n}", estimate) for n, estimate in grades.pass_at.items()]
    rows += [(f"maj@{k}", grades.maj), (f"best-of@{k}", grades.best_of)]
    rows += [(f"weighted maj@{k}", grades.weighted), ("labels agree", grades.agreement)]
    width = max(16, *(len(name) + 1 for name, estimate in rows if estimate))
    lines = [f"{_plural(grades.problems, 'problem')}, {_plural(grades.responses, 'response')}"]
    lines += [
        f"{name:<{width}}{estimate}  of {_plural(estimate.n, 'problem')}"
        for name, estimate in rows
        if estimate
    ]
    if grades.empty or grades.unjudged:
        lines.append(
            f"problems left out: {grades.empty} without a response, "
            f"{grades.unjudged} with none that could be judged"
        )
    told = _counted(grades.reasons) or "none"
    lines.append(f"not right: {told}; could not tell: {grades.unknown}")
    return "\n".join(lines)


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" + "s" * (count != 1)


def _counted(reasons: Mapping[str, int]) -> str:
    return ", ".join(f"{reason} {n}" for reason, n in Counter(reasons).most_common())


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
        arguments.add_argument(
            f"--{role}",
            metavar="COLUMN",
            help=f"the column of the {role}" + " (empty: none)" * (role in OPTIONAL),
        )
    arguments.add_argument("--answer-pattern", default="", help="group 1 in the answer is the gold")
    arguments.add_argument("--out", help="write one JSON line a response here")
    arguments.add_argument("--workers", type=int, default=2)
    return arguments


def main(
    argv: Sequence[str] | None = None,
    serve: Callable[[Reward], AbstractContextManager] = contextlib.nullcontext,
) -> int:
    """Entry of `rlvr grade`.  serve: lends the reward its models (`Reward.models`)."""
    options = parser().parse_args(argv)
    reward = make_reward(options.reward, options.set)
    if options.workers < 1:
        raise ValueError(f"--workers must be at least 1, got {options.workers}")
    out = None if options.out is None else output_path(options.out, [options.file])
    columns = {role: getattr(options, role) for role in USUAL}
    groups = load_groups(options.file, columns, options.answer_pattern)
    with serve(reward):
        start = time.monotonic()
        verdicts = grade_groups(groups, reward, options.workers)
        seconds = time.monotonic() - start
    if out is not None:
        write_verdicts(out, groups, verdicts)
    grades = summarise(groups, verdicts)
    print(format_grades(grades))
    print(
        f"{options.reward}: {seconds:.1f} s, {grades.responses / max(seconds, 1e-9):.0f} a second"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
