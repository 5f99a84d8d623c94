"""The verifiers on a shared case file and on graded model outputs, where these are present."""

import json
import pathlib

import convention_ids
import pytest

from rlvr_jax.rewards import grade_all
from rlvr_jax.rewards.choice import Choice
from rlvr_jax.rewards.countdown import Countdown
from rlvr_jax.rewards.format import SHAPES, Format
from rlvr_jax.rewards.math_reward import MathAnswer
from rlvr_jax.rewards.numeric import Numeric
from rlvr_jax.types import Completion, Problem

SHARED = pathlib.Path(__file__).resolve().parents[3] / "shared"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared case files are absent")

OTHERWISE = set((convention_ids.UNDONE + convention_ids.UNSOLVED).split())
DECIDED = OTHERWISE | set((convention_ids.ACCEPTED + convention_ids.REFUSED).split())


def rows(*path):
    text = SHARED.joinpath(*path).read_text()
    return [json.loads(line) for line in text.splitlines()]


def grade(reward, items):
    completions = [Completion(text=response) for _, response in items]
    problems = [Problem(prompt="", answer=gold, index=0) for gold, _ in items]
    return grade_all(reward, completions, problems, workers=1)


@needs_shared
@pytest.mark.parametrize("kind, reward", [("math", MathAnswer()), ("choice", Choice())])
def test_case_file(kind, reward):
    cases = [row for row in rows("spec", "verifier_cases.jsonl") if row["kind"] == kind]
    verdicts = grade(reward, [(row["gold"], row["response"]) for row in cases])
    wrong = {r["id"] for r, v in zip(cases, verdicts, strict=True) if v.correct != r["expected"]}
    assert {row["id"] for row in cases if "convention" in row} <= DECIDED
    assert wrong == OTHERWISE & {row["id"] for row in cases}


@needs_shared
def test_case_file_with_undone_arithmetic_allowed():
    cases = [
        row for row in rows("spec", "verifier_cases.jsonl") if row["id"] in convention_ids.UNDONE
    ]
    verdicts = grade(
        MathAnswer(allow_undone=True), [(row["gold"], row["response"]) for row in cases]
    )
    assert all(verdict.correct for verdict in verdicts)


@needs_shared
def test_countdown_cases():
    for row in rows("spec", "verifier_cases.jsonl"):
        if row["kind"] == "countdown":
            problem = Problem(prompt="", answer="", index=0, meta=row["gold"])
            verdict = Countdown()(Completion(text=row["response"]), problem)
            assert verdict.correct == row["expected"], row["id"]
            assert "convention" not in row or row["id"] in DECIDED


@needs_shared
def test_tag_cases():
    for row in rows("spec", "verifier_cases.jsonl"):
        rule = row["gold"] if row["kind"] == "format" else {}
        if rule.get("rule") in SHAPES:
            reward = Format(shape=rule["rule"], prefill=rule.get("prefill", ""))
            verdict = reward(
                Completion(text=row["response"]), Problem(prompt="", answer="", index=0)
            )
            assert (verdict.score > 0) == row["expected"], row["id"]


@needs_shared
@pytest.mark.parametrize("reward", [Numeric(extract=("phrase",)), MathAnswer(extract=("phrase",))])
def test_published_labels_of_gsm8k_solutions(reward):
    solutions = rows("data", "gsm8k_model_solutions.jsonl")
    items = [(row["answer"].rpartition("A:")[2].strip(), row["response"]) for row in solutions]
    verdicts = grade(reward, items)
    assert [v.correct for v in verdicts] == [bool(row["label"]) for row in solutions]


@needs_shared
def test_math_responses():
    items, labels = [], []
    for row in rows("data", "math_responses.jsonl"):
        items += [(row["answer"], response) for response in row["responses"]]
        labels += map(bool, row["labels"])
    verdicts = grade(MathAnswer(), items)
    same = sum(v.correct == label for v, label in zip(verdicts, labels, strict=True))
    assert same / len(labels) >= 0.99
