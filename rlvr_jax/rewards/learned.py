"""Scores of a model as the reward: a reward model, an outcome verifier, a process verifier.

The model lives on the device and this package does not know devices.  Between them stands a
function; whoever owns the model lends it for the time of a run.  A run does so itself where the
scorer is a folder or a hub name (reward_model.py); any other model you lend by hand:

    with serving("rm", score):              # score(completions, problems) -> list[Scores]
        grader = make_grader(Learned(scorer="rm"))

A model is easier to fool than a rule (arXiv:2507.08794): put a rule before it with "compose", e.g.
rewards=("learned:owner/model", "math"), gates=("format",).
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Protocol

from rlvr_jax.registry import nearest
from rlvr_jax.rewards.base import REWARDS, Example, Reward, check_finite
from rlvr_jax.rewards.extract import final_text
from rlvr_jax.rewards.user_function import load_function, source_files
from rlvr_jax.types import Completion, Problem, Verdict

STEPS = ("min", "mean", "last", "product")
SCALES = ("identity", "sigmoid")


@dataclasses.dataclass(frozen=True)
class Scores:
    """What a model says of one completion.

    value: of the whole (a reward model's score, a verifier's logit or probability), or None where
    there are only steps.  steps: one number a step of the reasoning, of a process verifier.
    reason: why there is neither.
    """

    value: float | None = None
    steps: tuple[float, ...] = ()
    reason: str = "no_score"


class Scorer(Protocol):
    """A model that scores a batch: one `Scores` a completion, in order."""

    def __call__(
        self, completions: Sequence[Completion], problems: Sequence[Problem]
    ) -> Sequence[Scores]: ...


_SERVED: dict[str, Scorer] = {}  # this process's scorers; rewards are plain data and name them


@contextlib.contextmanager
def serving(name: str, scorer: Scorer) -> Iterator[None]:
    """Lend a scorer under a name for the time of the `with`.  ValueError if the name is taken."""
    if name in _SERVED or ":" in name or not name:
        raise ValueError(f'learned: a scorer cannot be served as "{name}" (taken, or no name)')
    _SERVED[name] = scorer
    try:
        yield
    finally:
        del _SERVED[name]


def find_scorer(name: str) -> Scorer:
    """The scorer served under this name, or the function at "module:function"."""
    if ":" in name:
        return load_function(name)
    if name not in _SERVED:
        known = sorted(_SERVED)
        raise ValueError(
            f'learned: no scorer "{name}" is served{nearest(name, known)} '
            f"(there are: {', '.join(known) or 'none'}; a folder is written with a /: ./{name})"
        )
    return _SERVED[name]


def length_scorer(completions, problems) -> list[Scores]:
    """An example of a scorer: longer is better."""
    return [Scores(value=math.log(1 + len(c.text)) - 1.5) for c in completions]


@REWARDS.register("learned")
@dataclasses.dataclass(frozen=True)
class Learned(Reward):
    """Pays what a model says: shift + factor * scale(value).

    scorer: a reward model's folder or hub name (it holds a "/"), "module:function", or else a name
        under `serving`.
    steps: how a process verifier's steps become one value: "min" (Lightman et al. 2023,
        arXiv:2305.20050, use min and product), "mean", "last", "product".
    scale: "identity", or "sigmoid" for models that give logits (steps are scaled before they are
        joined).
    threshold: scaled values of at least this count as right (for accuracy, not for the payment).
    wrong: what a completion without text after its thoughts earns; it is not shown to the model.
    """

    scorer: str = "reward_model"
    steps: str = "min"
    scale: str = "identity"
    factor: float = 1.0
    shift: float = 0.0
    threshold: float = 0.5
    wrong: float = 0.0

    whole_batch = True
    errors_stop = True

    @property
    def files(self) -> tuple[str, ...]:
        return source_files(self.scorer) if ":" in self.scorer else ()

    def __post_init__(self):
        for name, allowed in (("steps", STEPS), ("scale", SCALES)):
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f'learned: {name} is "{getattr(self, name)}", allowed are {", ".join(allowed)}'
                )
        numbers = ("factor", "shift", "threshold", "wrong")
        check_finite(**{name: getattr(self, name) for name in numbers})

    @property
    def models(self) -> tuple[str, ...]:
        """The scorer where it is a model that nobody serves yet."""
        own = "/" in self.scorer and ":" not in self.scorer and self.scorer not in _SERVED
        return (self.scorer,) if own else ()

    def __call__(self, completion: Completion, problem: Problem) -> Verdict:
        return self.grade_batch([completion], [problem])[0]

    def grade_batch(
        self, completions: Sequence[Completion], problems: Sequence[Problem]
    ) -> list[Verdict]:
        """One call of the scorer.  ValueError if it does not answer with one score each."""
        verdicts = [Verdict(status="wrong", score=self.wrong, reason="empty", stage="learned")]
        verdicts *= len(completions)
        shown = [i for i, c in enumerate(completions) if final_text(c.text).strip()]
        if not shown:
            return verdicts
        scores = find_scorer(self.scorer)(
            [completions[i] for i in shown], [problems[i] for i in shown]
        )
        if len(scores) != len(shown):
            raise ValueError(
                f'reward learned: scorer "{self.scorer}" gave {len(scores)} scores for '
                f"{len(shown)} completions"
            )
        for i, score in zip(shown, scores, strict=True):
            verdicts[i] = self._verdict(score)
        return verdicts

    def _verdict(self, scores: Scores) -> Verdict:
        steps = [self._scaled(step) for step in scores.steps]
        if scores.value is None and not steps:
            return Verdict(status="unknown", reason=scores.reason, stage="learned")
        value = _join(steps, self.steps) if scores.value is None else self._scaled(scores.value)
        if not math.isfinite(value):
            return Verdict(status="unknown", reason="not_finite", stage="learned")
        parts = {"correct": float(value >= self.threshold), "learned": value}
        if steps:
            parts |= {"steps": float(len(steps)), "worst_step": min(steps)}
        score = self.shift + self.factor * value
        return Verdict(status="scored", score=score, parts=parts, stage="learned")

    def _scaled(self, value: float) -> float:
        if self.scale == "identity" or not math.isfinite(value):
            return float(value)
        return 0.5 * (1.0 + math.tanh(0.5 * value))

    @classmethod
    def example(cls) -> Example:
        problem = Problem(prompt="3 + 4?", answer="7", index=0)
        reward = cls(scorer="rlvr_jax.rewards.learned:length_scorer")
        return Example(reward, problem, right=None)


def _join(steps: Sequence[float], how: str) -> float:
    if how == "mean":
        return sum(steps) / len(steps)
    if how == "product":
        return math.prod(steps)
    return min(steps) if how == "min" else steps[-1]
