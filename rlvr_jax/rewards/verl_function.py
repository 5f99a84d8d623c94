"""A plain Python function as the reward, by import path, in the signature verl users know:

def compute_score(data_source, solution_str, ground_truth, extra_info=None) -> float | dict
"""

from __future__ import annotations

import dataclasses
import math

from rlvr_jax.rewards.base import REWARDS, Example, Reward
from rlvr_jax.rewards.user_function import check_path, load_function, number, source_files
from rlvr_jax.types import Completion, Problem, Verdict


def exact_match(data_source, solution_str, ground_truth, extra_info=None) -> dict:
    """An example of such a function: 1 where the completion is the answer, to the letter."""
    same = float(solution_str.strip() == ground_truth)
    return {"score": same, "acc": bool(same), "length": len(solution_str)}


@REWARDS.register("verl_function")
@dataclasses.dataclass(frozen=True)
class VerlFunction(Reward):
    """Calls a user's compute_score once a completion, in a worker.

    path: "package.module:function" or "folder/file.py:function".  deadline_s: of one call.
    data_source and extra_info are columns of the data (None where there is none); ground_truth is
    column reward_model's, or the problem's answer.  A returned dict needs "score"; its "acc", if
    any, says whether the answer is right, and its other numbers are logged as parts.  Whatever the
    function does wrong stops the run with one line.
    """

    path: str = ""
    deadline_s: float = 30.0

    in_worker = True
    errors_stop = True
    memory_mb = 0

    def __post_init__(self):
        check_path("verl_function", self.path)
        if not self.deadline_s > 0:
            raise ValueError(f"verl_function: deadline_s must be positive, got {self.deadline_s}")

    @property
    def label(self) -> str:
        return f'reward function "{self.path}"'

    @property
    def files(self) -> tuple[str, ...]:
        return source_files(self.path)

    def warm_up(self) -> None:
        load_function(self.path)

    def __call__(self, completion: Completion, problem: Problem) -> Verdict:
        model = problem.meta.get("reward_model")
        gold = model.get("ground_truth") if isinstance(model, dict) else None
        result = load_function(self.path)(
            data_source=problem.meta.get("data_source"),
            solution_str=completion.text,
            ground_truth=problem.answer if gold is None else gold,
            extra_info=problem.meta.get("extra_info"),
        )
        fields = dict(result) if isinstance(result, dict) else {"score": result}
        score = number(fields.pop("score", None))
        if not math.isfinite(score):
            raise ValueError(f"{self.label} returned {result!r:.80}: no finite score")
        numbers = (int, float, bool)
        parts = {k: float(v) for k, v in fields.items() if isinstance(v, numbers)}
        if "acc" in parts:
            parts["correct"] = parts.pop("acc")
        return Verdict(status="scored", score=score, parts=parts, stage="function")

    @classmethod
    def example(cls) -> Example:
        problem = Problem(prompt="3 + 4?", answer="7", index=0)
        reward = cls(path="rlvr_jax.rewards.verl_function:exact_match")
        return Example(reward, problem, right="7", wrong="8")
