"""GeneralPoints: a formula that uses each card once and makes the target.

Chu et al. 2025, "SFT memorizes, RL generalizes" (arXiv:2501.17161), whose checker computes in
floats and refuses 8/(3-8/3) for 24; here numbers are exact rationals.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping

from rlvr_jax.rewards.base import REWARDS, Example, Reward, check_finite
from rlvr_jax.rewards.countdown import MAX_CHARS, countdown_fault, is_whole
from rlvr_jax.rewards.extract import check_places, extract
from rlvr_jax.rewards.format import shape_fault
from rlvr_jax.types import Completion, Problem, Verdict

_FENCE = re.compile(r"\A\s*```(?:json)?\s*\n(.*)\n\s*```\s*\Z", re.DOTALL)


def formula_of(answer: str) -> str:
    """The formula: the answer itself, or field "formula" of a JSON object."""
    if len(answer) > 4 * MAX_CHARS:
        return answer
    answer = _FENCE.sub(r"\1", answer)
    if not answer.lstrip().startswith("{"):
        return answer
    try:
        fields = json.loads(answer)
    except (ValueError, RecursionError):
        return answer
    formula = fields.get("formula") if isinstance(fields, dict) else None
    return formula if isinstance(formula, str) else answer


@REWARDS.register("generalpoints")
@dataclasses.dataclass(frozen=True)
class GeneralPoints(Reward):
    """Pays for a formula over problem.meta["numbers"] (what the cards are worth), each once, equal
    to meta["target"].

    meta["letters"], e.g. {"K": 13}: what cards with letters count in the formula.
    The answer is the formula, or a JSON object with "formula".
    extract: where it may stand (see "numeric").  right, wrong: what it earns.
    format_score: added for the shape <think>...</think><answer>...</answer>.
    """

    extract: tuple[str, ...] = ("answer_tag", "boxed")
    right: float = 1.0
    wrong: float = 0.0
    format_score: float = 0.0

    def __post_init__(self):
        check_places(self.extract)
        check_finite(right=self.right, wrong=self.wrong, format_score=self.format_score)

    def __call__(self, completion: Completion, problem: Problem) -> Verdict:
        numbers, target = problem.meta.get("numbers"), problem.meta.get("target")
        letters = problem.meta.get("letters", {})
        whole = isinstance(numbers, list | tuple) and all(map(is_whole, numbers))
        whole = whole and isinstance(letters, Mapping) and all(map(is_whole, letters.values()))
        if not whole or not numbers or not is_whole(target):
            return Verdict(status="unknown", reason="bad_gold", stage="gold", gold=problem.answer)
        found = extract(completion.text, self.extract)
        reason = "no_answer" if found is None else "" if found else "empty"
        reason = reason or self._fault(found, list(numbers), dict(letters), target)
        shaped = float(not shape_fault(completion.text))
        return Verdict(
            status="wrong" if reason else "scored",
            score=(self.wrong if reason else self.right) + self.format_score * shaped,
            reason=reason,
            parts={"correct": float(not reason), "format": shaped},
            stage="formula" if found else "extract",
            extracted=found,
            gold=f"{list(numbers)} -> {target}",
        )

    def _fault(self, found: str, numbers: list[int], letters: dict[str, int], target: int) -> str:
        formula = formula_of(found)
        if len(formula) > MAX_CHARS:
            return "too_long"
        spelt = re.sub(
            r"(?<![A-Za-z0-9])[A-Z](?![A-Za-z0-9])",
            lambda match: str(letters.get(match[0], match[0])),
            formula,
        )
        return countdown_fault(spelt, numbers, target)

    @classmethod
    def example(cls) -> Example:
        meta = {"numbers": [10, 4, 2, 8], "letters": {"K": 10}, "target": 24}
        problem = Problem(prompt="Make 24.", answer="24", index=0, meta=meta)
        right = "<answer>K + 4 + 2 + 8 = 24</answer>"
        return Example(cls(), problem, right, wrong="<answer>13 + 4 - 2 + 8 + 1</answer>")
