"""Whether a text keeps to what was asked of its form, language and repetition."""

from __future__ import annotations

import dataclasses

from rlvr_jax.rewards.base import REWARDS, Example, Reward, check_finite
from rlvr_jax.rewards.constraint_rules import (
    holds,
    other_language,
    repeated_share,
    script_share,
)
from rlvr_jax.rewards.extract import final_text
from rlvr_jax.rewards.format import SHAPES
from rlvr_jax.types import Completion, Problem, Verdict

MAX_CHARS = 100_000  # longer texts are wrong unread
_WHOLE = {*SHAPES, "language", "no_repetition"}  # rules that speak of the thoughts too


@REWARDS.register("constraints")
@dataclasses.dataclass(frozen=True)
class Constraints(Reward):
    """Pays for obeying the rules in problem.meta: "rules", a list, or one rule's own keys.

    partial: pay the share of the rules that are obeyed instead of all or nothing.
    right, wrong: what obeying all and not all earns.  Rules: see constraint_rules.py.
    Rules about tags, language and repetition see the whole completion, the others the text after
    the thoughts.  A rule that does not exist is a fault of the data: nobody can tell.
    """

    partial: bool = False
    right: float = 1.0
    wrong: float = 0.0

    def __post_init__(self):
        check_finite(right=self.right, wrong=self.wrong)

    def __call__(self, completion: Completion, problem: Problem) -> Verdict:
        rules = problem.meta.get("rules", [problem.meta])
        if len(completion.text) > MAX_CHARS:
            return Verdict(status="wrong", score=self.wrong, reason="too_long", stage="constraints")
        try:
            if not isinstance(rules, list | tuple) or not rules:
                raise ValueError(f"rules must be a list that is not empty, got {rules!r:.40}")
            kept = [self._holds(completion.text, rule) for rule in rules]
        except ValueError as error:
            return Verdict(status="unknown", reason="bad_gold", stage="gold", gold=str(error))
        share = sum(kept) / len(kept)
        pays = share if self.partial else float(share == 1)
        broken = [rule["rule"] for rule, ok in zip(rules, kept, strict=True) if not ok]
        return Verdict(
            status="scored" if pays > 0 else "wrong",
            score=self.wrong + (self.right - self.wrong) * pays,
            reason=f"broke_{broken[0]}" if broken else "",
            parts={"correct": float(share == 1), "kept": share},
            stage="constraints",
        )

    def _holds(self, text: str, rule: dict) -> bool:
        whole = isinstance(rule, dict) and rule.get("rule") in _WHOLE
        return holds(text if whole else final_text(text), rule)

    @classmethod
    def example(cls) -> Example:
        rules = [{"rule": "no_comma"}, {"rule": "word_count", "relation": "at most", "n": 4}]
        rules.append({"rule": "ends_with", "text": "Done."})
        problem = Problem(prompt="Greet.", answer="", index=0, meta={"rules": rules})
        return Example(cls(), problem, right="Hello there! Done.", wrong="Hello, there! Done.")


@REWARDS.register("language")
@dataclasses.dataclass(frozen=True)
class Language(Reward):
    """Pays the share of letters in the script of one language, outside tags, formulas and code.

    DeepSeek-R1 (arXiv:2501.12948, section 2.3.2) pays the share of words of the target language;
    letters by script are deterministic.  language: a two-letter code.  min_share: below it, and
    where another language's small words prevail, nothing is paid.
    """

    language: str = "en"
    min_share: float = 0.5

    def __post_init__(self):
        script_share("", self.language)
        if not 0.0 <= self.min_share <= 1.0:
            raise ValueError(f"language: min_share must be in 0..1, got {self.min_share}")

    def __call__(self, completion: Completion, problem: Problem) -> Verdict:
        text = completion.text[:MAX_CHARS]
        share = script_share(text, self.language)
        fault = "other_script" if share < max(self.min_share, 1e-9) else ""
        fault = fault or ("other_language" if other_language(text, self.language) else "")
        return Verdict(
            status="wrong" if fault else "scored",
            score=0.0 if fault else share,
            reason=fault,
            parts={"language": share},
            stage="language",
        )

    @classmethod
    def example(cls) -> Example:
        problem = Problem(prompt="3 + 4?", answer="7", index=0)
        right = "<think>пусть три и четыре</think> будет семь"
        return Example(cls(language="ru"), problem, right, wrong="three and four is seven")


@REWARDS.register("repetition")
@dataclasses.dataclass(frozen=True)
class Repetition(Reward):
    """A penalty, never positive: minus `penalty` times the share of repeated n-grams of words.

    1 - distinct / all, as in Yeo et al. 2025 (arXiv:2502.03373, section 4.4), over the whole text.
    """

    ngram: int = 4
    penalty: float = 1.0

    def __post_init__(self):
        if self.ngram < 1 or not 0 <= self.penalty < float("inf"):
            raise ValueError(
                f"repetition: ngram >= 1 and penalty >= 0, got {self.ngram}, {self.penalty}"
            )

    def __call__(self, completion: Completion, problem: Problem) -> Verdict:
        share = repeated_share(completion.text[:MAX_CHARS], self.ngram)
        parts = {"repeated": share}
        return Verdict(
            status="scored", score=-self.penalty * share, parts=parts, stage="repetition"
        )

    @classmethod
    def example(cls) -> Example:
        return Example(cls(), Problem(prompt="?", answer="", index=0), right=None)
