r"""The reward "math", and `math_equal`, the comparison alone."""

from __future__ import annotations

import dataclasses
import functools
import re
from fractions import Fraction

from rlvr_jax.rewards.base import REWARDS, Example, Reward, check_finite
from rlvr_jax.rewards.extract import check_places, extract
from rlvr_jax.rewards.format import shape_fault
from rlvr_jax.rewards.math_equal import MathOptions, Outcome, compare
from rlvr_jax.rewards.math_text import compact, fold
from rlvr_jax.rewards.pool import RewardPool
from rlvr_jax.types import Completion, Problem, Verdict

MAX_TEXT = 2_000_000  # characters of a completion; longer ones are wrong unread
_LITERAL = re.compile(r"[-+]?[\d.,]+(/\d+)?|[-+]?\\frac\{?\d+\}?\{?\d+\}?|\w", re.ASCII)

_PERCENT = re.compile(r"%|\bper\s?cent", re.IGNORECASE)  # a question about percentages


def _is_echo(answer: str, problem: Problem) -> bool:
    """Whether the answer, an expression with an operation in it, stands in the question."""
    text = compact(fold(answer))
    if len(text) < 3 or _LITERAL.fullmatch(text) or not re.search(r"[-+*/^=<>({\\]", text):
        return False
    return text in compact(fold(_prompt_text(problem)))


def _prompt_text(problem: Problem) -> str:
    if isinstance(problem.prompt, str):
        return problem.prompt
    return "\n".join(str(message.get("content", "")) for message in problem.prompt)


@REWARDS.register("math")
@dataclasses.dataclass(frozen=True)
class MathAnswer(Reward):
    r"""Pays for an answer mathematically equal to the gold one (LaTeX or plain text).

    extract: places tried in order: "answer_tag", "boxed" (last balanced \boxed{}), "hashes" (####),
    "phrase" ("the answer is", "Answer:"), and the last resort "last_number".
    right, wrong, format_score: as in "numeric".
    allow_undone, require_factored, require_units, equation_value, tolerance: see `MathOptions`;
    a question that speaks of percentages sets `percent_asked`.
    reject_echo: an expression copied from the question is wrong, unless it is the gold verbatim.
    """

    extract: tuple[str, ...] = ("answer_tag", "boxed", "hashes", "phrase")
    right: float = 1.0
    wrong: float = 0.0
    format_score: float = 0.0
    allow_undone: bool = False
    require_factored: bool = True
    require_units: bool = False
    equation_value: bool = True
    tolerance: float = 0.0
    reject_echo: bool = True

    in_worker = True
    preload = ("mpmath", "sympy")

    def __post_init__(self):
        check_places(self.extract)
        check_finite(right=self.right, wrong=self.wrong, format_score=self.format_score)
        self.options  # noqa: B018  the options check themselves

    @functools.cached_property
    def options(self) -> MathOptions:
        names = {f.name for f in dataclasses.fields(MathOptions)} - {"percent_asked"}
        return MathOptions(**{name: getattr(self, name) for name in sorted(names)})

    def __call__(self, completion: Completion, problem: Problem) -> Verdict:
        return self._grade(completion, problem, full=True)

    def quick(self, completion: Completion, problem: Problem) -> Verdict | None:
        return self._grade(completion, problem, full=False)

    def _grade(self, completion: Completion, problem: Problem, full: bool) -> Verdict | None:
        gold = problem.answer
        found, outcome = None, Outcome(False, "extract", "too_long")
        if len(completion.text) <= MAX_TEXT:
            found = extract(completion.text, self.extract)
            outcome = Outcome(False, "extract", "no_answer")
        if found is not None:
            options = self.options
            if "%" in found and _PERCENT.search(_prompt_text(problem)):
                options = dataclasses.replace(options, percent_asked=True)
            outcome = compare(found, gold, options, full=full)
            if outcome is None:
                return None
        if outcome.right and self.reject_echo and outcome.stage in ("structure", "numeric"):
            echo = _is_echo(found, problem)
            outcome = Outcome(False, "form", "echo") if echo else outcome
        return self._verdict(outcome, completion, found, gold)

    def _verdict(
        self, outcome: Outcome, completion: Completion, found: str | None, gold: str
    ) -> Verdict:
        if outcome.right is None:
            return Verdict(
                status="unknown",
                reason=outcome.reason,
                stage=outcome.stage,
                extracted=found,
                gold=gold,
            )
        shaped = float(not shape_fault(completion.text))
        return Verdict(
            status="scored" if outcome.right else "wrong",
            score=(self.right if outcome.right else self.wrong) + self.format_score * shaped,
            reason=outcome.reason,
            parts={"correct": float(outcome.right), "format": shaped},
            stage=outcome.stage,
            extracted=found,
            gold=gold,
        )

    @classmethod
    def example(cls) -> Example:
        problem = Problem(prompt="Halve the root of 2.", answer=r"\frac{\sqrt{2}}{2}", index=0)
        right = r"So it is $\boxed{\frac{1}{\sqrt{2}}}$."
        return Example(cls(), problem, right, wrong=r"\boxed{0.7071} or \boxed{\sqrt{2}}")


@dataclasses.dataclass(frozen=True)
class _Whole(Reward):
    """The comparison of `math_equal` in a worker: the text is the answer."""

    options: MathOptions = MathOptions()

    in_worker = True
    preload = MathAnswer.preload

    def __call__(self, completion: Completion, problem: Problem) -> Verdict:
        outcome = compare(completion.text, problem.answer, self.options, full=True)
        return Verdict(
            status="scored" if outcome.right else "wrong", score=float(bool(outcome.right))
        )


@functools.lru_cache(maxsize=4)
def _pool(options: MathOptions, deadline_s: float) -> RewardPool:
    # One worker for a whole process: math_equal is called one pair at a time.
    return RewardPool(_Whole(options), workers=1, deadline_s=deadline_s)


def _text(value: str | int | float | Fraction, name: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float, Fraction)):
        raise TypeError(f"{name} must be text or a number, got {type(value).__name__} {value!r}")
    return str(value)


def math_equal(
    answer: str | int | float | Fraction,
    gold: str | int | float | Fraction,
    deadline_s: float = 2.0,
    **options: object,
) -> bool:
    """Whether the answer names the same as the gold answer (`options`: see `MathOptions`).

    Numbers are taken for their text.  Most pairs are decided here in well under a millisecond; the
    others in a worker process that is killed at the deadline (the answer then counts as unequal).
    The first pair that needs the worker also starts it, which takes longer than the pair itself.
    A pair that cannot be decided, such as a gold that cannot be parsed, counts as unequal; the
    reward "math" tells the two apart.
    """
    chosen = MathOptions(**options)
    answer, gold = _text(answer, "answer"), _text(gold, "gold")
    outcome = compare(answer, gold, chosen)
    if outcome is not None:
        return bool(outcome.right)
    problem = Problem(prompt="", answer=gold, index=0)
    (verdict,) = _pool(chosen, deadline_s).grade([Completion(text=answer)], [problem])
    return verdict.correct
