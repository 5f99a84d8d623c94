"""Answers to problems of the `reasoning-gym` package, to the letter or by the package's scorer."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import json
from typing import Any

from rlvr_jax.rewards.base import REWARDS, Example, Reward, check_finite
from rlvr_jax.rewards.extract import check_places, extract
from rlvr_jax.types import Completion, Problem, Verdict

MAX_CHARS = 10_000


@functools.lru_cache(maxsize=64)
def _entry(dataset: str, options: str, number: int, space: int) -> tuple[Any, dict]:
    gym = importlib.import_module("reasoning_gym")
    data = gym.create_dataset(dataset, seed=0, size=space, **json.loads(options))
    return data, data[number]


@REWARDS.register("reasoning_gym")
@dataclasses.dataclass(frozen=True)
class ReasoningGym(Reward):
    """Pays for the data set's answer.

    scoring: "exact", equal up to blanks; or "dataset", where the package's own scorer gives its
        full mark (partial marks reward sprayed candidates and are not paid).  Some of its scorers
        evaluate the answer as Python: they run in a killable worker, which is no sandbox.
    extract: where the answer may stand (see "numeric").  right, wrong: what it earns.
    """

    scoring: str = "exact"
    extract: tuple[str, ...] = ("answer_tag", "boxed")
    right: float = 1.0
    wrong: float = 0.0

    def __post_init__(self):
        if self.scoring not in ("exact", "dataset"):
            raise ValueError(
                f'reasoning_gym: scoring is "{self.scoring}", allowed are exact, dataset'
            )
        check_places(self.extract)
        check_finite(right=self.right, wrong=self.wrong)

    @property
    def in_worker(self) -> bool:
        return self.scoring == "dataset"

    def __call__(self, completion: Completion, problem: Problem) -> Verdict:
        if self.scoring == "exact" and not problem.answer.strip():
            return Verdict(status="unknown", reason="bad_gold", stage="gold")
        found = extract(completion.text, self.extract)
        reason = "no_answer" if found is None else "" if found else "empty"
        if not reason and len(found) > MAX_CHARS:
            reason = "too_long"
        if not reason and not self._accepts(found, problem):
            reason = "mismatch"
        return Verdict(
            status="wrong" if reason else "scored",
            score=self.wrong if reason else self.right,
            reason=reason,
            parts={"correct": float(not reason)},
            stage=self.scoring if found else "extract",
            extracted=found,
            gold=problem.answer,
        )

    def _accepts(self, found: str, problem: Problem) -> bool:
        if self.scoring == "exact":
            return found.split() == problem.answer.split()
        meta = problem.meta
        options = json.dumps(meta["options"], sort_keys=True)
        data, entry = _entry(meta["dataset"], options, meta["number"], meta["space"])
        return data.score_answer(found, entry=entry) >= 1.0

    @classmethod
    def example(cls) -> Example:
        problem = Problem(prompt="1 + 2 =", answer="3", index=0)
        return Example(cls(), problem, "<answer>3</answer>", wrong="<answer>4</answer>")
