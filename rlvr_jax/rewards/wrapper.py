"""Rewards made of other rewards: what compose.py and controls.py share.

A wrapper names its inner rewards by their registry name (built with their defaults), a reward model
as "learned:MODEL", or a user's function by its import path, which holds a colon.  Each inner reward
runs as it runs alone, inline or in workers with its own deadline (grading.make_grader); the wrapper
then combines the verdicts of the whole batch.
"""

from __future__ import annotations

from collections.abc import Sequence

from rlvr_jax.rewards.base import REWARDS, Reward
from rlvr_jax.types import Completion, Problem, Verdict


def named_reward(name: str) -> Reward:
    """The reward of this registry name; "learned:MODEL" with the folder or hub name of a reward
    model; or the user's function at "module:function"."""
    kind, colon, model = name.partition(":")
    if kind == "learned" and "/" in model:
        return REWARDS.make("learned", scorer=model)
    is_path = colon or name.endswith(".py")
    return REWARDS.make("function", path=name) if is_path else REWARDS.make(name)


class Wrapper(Reward):
    """Base of rewards made of others.  Give `names` and `combine`, perhaps `prepare`."""

    names: tuple[str, ...]  # the inner rewards

    @property
    def inner(self) -> tuple[Reward, ...]:
        """The inner rewards themselves, in the order of `names`."""
        return tuple(named_reward(name) for name in self.names)

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(path for reward in self.inner for path in reward.files))

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for reward in self.inner for name in reward.models))

    def prepare(self, problems: Sequence[Problem]) -> Sequence[Problem]:
        """The problems that the inner rewards are given."""
        return problems

    def select(self, name: str, problems: Sequence[Problem]) -> Sequence[int] | None:
        """Which problems the inner reward `name` must grade; None for all of them."""
        return None

    def combine(
        self,
        completions: Sequence[Completion],
        problems: Sequence[Problem],
        verdicts: Sequence[Sequence[Verdict | None]],
    ) -> list[Verdict]:
        """One verdict a completion from `verdicts[inner reward][completion]`, which is None where
        `select` left the completion out."""
        raise NotImplementedError

    def gold_fault(self, problem: Problem) -> str:
        """That of the first inner reward with one, of those that grade the problem."""
        for name, reward in zip(self.names, self.inner, strict=True):
            chosen = self.select(name, [problem])
            fault = reward.gold_fault(problem) if chosen is None or len(chosen) else ""
            if fault:
                return f"{fault} under {name}"
        return ""

    def __call__(self, completion: Completion, problem: Problem) -> Verdict:
        return self.grade_batch([completion], [problem])[0]

    def grade_batch(
        self, completions: Sequence[Completion], problems: Sequence[Problem]
    ) -> list[Verdict]:
        """In this process; `make_grader` is what keeps the inner rewards' deadlines."""
        given = self.prepare(problems)
        verdicts = []
        for name, reward in zip(self.names, self.inner, strict=True):
            chosen = self.select(name, problems)
            places = range(len(given)) if chosen is None else chosen
            graded = reward.grade_batch(
                [completions[i] for i in places], [given[i] for i in places]
            )
            verdicts.append(spread(places, graded, len(given)))
        return self.combine(completions, problems, verdicts)


def spread(places: Sequence[int], verdicts: Sequence[Verdict], size: int) -> list[Verdict | None]:
    """The verdicts at their places in a list of `size`."""
    row: list[Verdict | None] = [None] * size
    for place, verdict in zip(places, verdicts, strict=True):
        row[place] = verdict
    return row
