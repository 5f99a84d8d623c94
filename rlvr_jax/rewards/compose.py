"""Several rewards as one: a weighted sum with gates, and a choice by the problem's source."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from rlvr_jax.rewards.base import REWARDS, Example, check_finite
from rlvr_jax.rewards.wrapper import Wrapper, named_reward
from rlvr_jax.types import Completion, Problem, Verdict


@REWARDS.register("compose")
@dataclasses.dataclass(frozen=True)
class Compose(Wrapper):
    """The sum of weight times score over `rewards`, paid where every gate is passed.

    rewards: names, "learned:MODEL" (a folder or hub name), or "module:function".  weights: one
        each; () means 1 each.
    gates: rewards that must accept the completion before anything is paid, e.g. ("format",); they
        may also stand in `rewards`.  closed: what a completion that fails a gate earns.
    accuracy: which of `rewards` decides whether the answer is right; "" means the last.
    Each component's own score is in the verdict's parts under its name.  Where a component or a
    gate could not tell, the sum is not known either.
    """

    rewards: tuple[str, ...] = ("format", "numeric")
    weights: tuple[float, ...] = ()
    gates: tuple[str, ...] = ()
    closed: float = 0.0
    accuracy: str = ""

    def __post_init__(self):
        if not self.rewards or len(set(self.rewards)) < len(self.rewards):
            raise ValueError(f"compose: rewards must name some rewards, each once: {self.rewards}")
        if self.weights and len(self.weights) != len(self.rewards):
            raise ValueError(
                f"compose: {len(self.weights)} weights for {len(self.rewards)} rewards"
            )
        if self.accuracy and self.accuracy not in self.rewards:
            raise ValueError(
                f'compose: accuracy is "{self.accuracy}", allowed are {", ".join(self.rewards)}'
            )
        check_finite(closed=self.closed, **{f"weights[{i}]": w for i, w in enumerate(self.weights)})
        _check_names("compose", self.names)

    @property
    def names(self) -> tuple[str, ...]:
        return self.rewards + tuple(g for g in self.gates if g not in self.rewards)

    def combine(
        self,
        completions: Sequence[Completion],
        problems: Sequence[Problem],
        verdicts: Sequence[Sequence[Verdict | None]],
    ) -> list[Verdict]:
        columns = zip(*verdicts, strict=True)
        return [self._one(dict(zip(self.names, column, strict=True))) for column in columns]

    def _one(self, by_name: dict[str, Verdict]) -> Verdict:
        main = by_name[self.accuracy or self.rewards[-1]]
        scores = {name: verdict.score for name, verdict in by_name.items()}
        unknown = next((n for n, v in by_name.items() if v.status == "unknown"), None)
        if unknown is not None:
            reason = f"{unknown}:{by_name[unknown].reason}"
            return dataclasses.replace(main, status="unknown", reason=reason, score=0.0, parts={})
        shut = next((gate for gate in self.gates if not by_name[gate].correct), None)
        parts = {"correct": float(main.correct and shut is None)} | scores
        if "accuracy" in main.parts:  # a control stands in for the verifier
            parts["accuracy"] = main.parts["accuracy"]
        if shut is not None:
            reason = f"gate_{shut}:{by_name[shut].reason}"
            return dataclasses.replace(
                main, status="wrong", score=self.closed, reason=reason, parts=parts, stage="gate"
            )
        weights = self.weights or (1.0,) * len(self.rewards)
        total = sum(w * scores[name] for w, name in zip(weights, self.rewards, strict=True))
        return dataclasses.replace(main, score=total, parts=parts)

    @classmethod
    def example(cls) -> Example:
        problem = Problem(prompt="3 + 4?", answer="7", index=0)
        reward = cls(weights=(0.2, 1.0), gates=("format",))
        right = "<think>3 + 4 is 7</think><answer>7</answer>"
        return Example(reward, problem, right, wrong="<answer>7</answer>")


@REWARDS.register("route")
@dataclasses.dataclass(frozen=True)
class Route(Wrapper):
    """The reward that a column of the problem chooses, for mixtures of tasks.

    column: of problem.meta.  values: its values, as text.  rewards: the reward of each value.
    default: the reward of every other problem; "": such problems are an error of the data, and
    nobody can tell.
    """

    column: str = "reward"
    values: tuple[str, ...] = ("math", "countdown")
    rewards: tuple[str, ...] = ("numeric", "countdown")
    default: str = ""

    def __post_init__(self):
        if not self.values or len(self.values) != len(self.rewards):
            raise ValueError(f"route: {len(self.values)} values for {len(self.rewards)} rewards")
        if len(set(self.values)) < len(self.values):
            raise ValueError(f"route: a value twice in {self.values}")
        _check_names("route", self.names)

    @property
    def names(self) -> tuple[str, ...]:
        named = self.rewards + ((self.default,) if self.default else ())
        return tuple(dict.fromkeys(named))

    def gold_fault(self, problem: Problem) -> str:
        """Also where no reward is chosen."""
        if not self.choose(problem):
            return f"column {self.column!r} is {problem.meta.get(self.column)!r} (no_route)"
        return super().gold_fault(problem)

    def choose(self, problem: Problem) -> str:
        """The name of the problem's reward, "" where there is none."""
        value = str(problem.meta.get(self.column))
        return dict(zip(self.values, self.rewards, strict=True)).get(value, self.default)

    def select(self, name: str, problems: Sequence[Problem]) -> list[int]:
        """Which of the problems the inner reward `name` grades."""
        return [i for i, problem in enumerate(problems) if self.choose(problem) == name]

    def combine(
        self,
        completions: Sequence[Completion],
        problems: Sequence[Problem],
        verdicts: Sequence[Sequence[Verdict | None]],
    ) -> list[Verdict]:
        missing = Verdict(status="unknown", reason="no_route", stage="route")
        rows = [missing] * len(problems)
        for name, given in zip(self.names, verdicts, strict=True):
            for i in self.select(name, problems):
                rows[i] = dataclasses.replace(
                    given[i], parts={"correct": float(given[i].correct)} | dict(given[i].parts)
                )
        return rows

    @classmethod
    def example(cls) -> Example:
        problem = Problem(prompt="3 + 4?", answer="7", index=0, meta={"reward": "math"})
        return Example(cls(), problem, "<answer>7</answer>", wrong="<answer>8</answer>")


def _check_names(entry: str, names: tuple[str, ...]) -> None:
    for name in names:
        try:
            named_reward(name)
        except ValueError as error:
            raise ValueError(f"{entry}: {error}") from error
