"""Multiple choice, several choices, and yes/no: letters and words, never values."""

from __future__ import annotations

import dataclasses
import re

from rlvr_jax.rewards.base import REWARDS, Example, Reward, check_finite
from rlvr_jax.rewards.extract import check_places, extract
from rlvr_jax.rewards.math_text import fold, strip_text_commands, words
from rlvr_jax.rewards.math_words import words_match
from rlvr_jax.types import Completion, Problem, Verdict

MAX_CHARS = 2000


def choice_equal(answer: str, gold: str) -> bool:
    r"""Whether the answer takes the gold choice.

    "B" agrees with ``B``, ``b``, ``(B)``, ``B.``, ``\textbf{(B)}\ 12``; "AC" with ``A, C`` in any
    order; "yes" with ``Yes`` and "true" with ``True``.  Two choices for one never agree.
    """
    text, wanted = (strip_text_commands(fold(t)).strip() for t in (answer[:MAX_CHARS], gold))
    if wanted.isalpha() and wanted.isupper():
        text = re.sub(r"\b(AND|OR|BECAUSE|SINCE)\b", lambda m: m[0].lower(), text.upper())
        return words_match(text, wanted) is True
    return words(text) == words(wanted) != ""


@REWARDS.register("choice")
@dataclasses.dataclass(frozen=True)
class Choice(Reward):
    """Pays for the right letter(s) of a multiple-choice question, or the right yes/no.

    extract, right, wrong: as in "math".
    """

    extract: tuple[str, ...] = ("answer_tag", "boxed", "hashes", "phrase")
    right: float = 1.0
    wrong: float = 0.0

    def __post_init__(self):
        check_places(self.extract)
        check_finite(right=self.right, wrong=self.wrong)

    def __call__(self, completion: Completion, problem: Problem) -> Verdict:
        if not problem.answer.strip():
            return Verdict(status="unknown", reason="bad_gold", stage="gold")
        found = extract(completion.text, self.extract)
        correct = bool(found) and choice_equal(found, problem.answer)
        reason = "" if correct else "mismatch" if found else "no_answer"
        return Verdict(
            status="scored" if correct else "wrong",
            score=self.right if correct else self.wrong,
            reason=reason,
            parts={"correct": float(correct)},
            stage="text" if found else "extract",
            extracted=found,
            gold=problem.answer,
        )

    @classmethod
    def example(cls) -> Example:
        problem = Problem(prompt="Which? (A) 1 (B) 2", answer="B", index=0)
        return Example(cls(), problem, r"\boxed{\text{(B)}}", wrong=r"\boxed{A, B}")
