"""A plain Python function as the reward, by import path, in the signature TRL users know:

    def my_reward(prompts, completions, **columns) -> list[float]

It runs in a worker process with a deadline.  Whatever it does wrong stops the run with one line.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import importlib.machinery
import importlib.util
import inspect
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence, Set

from rlvr_jax.registry import nearest
from rlvr_jax.rewards.base import REWARDS, Example, Reward
from rlvr_jax.types import Completion, Problem, Verdict


def exact_match(prompts, completions, answer, **columns) -> list[float]:
    """An example of such a function: 1 where the completion is the answer, to the letter."""
    return [float(c.strip() == a) for c, a in zip(completions, answer, strict=True)]


@functools.lru_cache(maxsize=32)
def load_function(path: str) -> Callable:
    """The function at "package.module:name" or "folder/file.py:name".

    ValueError if the path has another form or there is no such file, module or function.
    """
    check_path("reward function", path)
    place, _, name = path.rpartition(":")
    module = _module(place)
    function = getattr(module, name, None)
    if not callable(function):
        there = [n for n, value in vars(module).items() if callable(value)]
        raise ValueError(
            f'reward function: "{place}" has no function "{name}"{nearest(name, there)}'
        )
    return function


def check_path(entry: str, path: str) -> None:
    """ValueError unless `path` has the form of an import path and names a file that is there;
    ~ is the home folder."""
    place, colon, name = path.rpartition(":")
    if not (colon and place and name):
        file = path.rstrip(":")
        hint = f"; say {file}:<function>{functions_in(file)}" if file.endswith(".py") else ""
        raise ValueError(
            f'{entry}: path must be "module:function" or "file.py:function", got "{path}"{hint}'
        )
    if place.endswith(".py") and not os.path.isfile(os.path.expanduser(place)):
        raise ValueError(f'{entry}: there is no file "{place}"')


def functions_in(file: str) -> str:
    """The functions a file defines, for a hint; it is read and not run."""
    try:
        with open(os.path.expanduser(file), encoding="utf-8") as source:
            body = ast.parse(source.read()).body
    except (OSError, ValueError, SyntaxError):
        return ""
    names = [node.name for node in body if isinstance(node, ast.FunctionDef)]
    return f" (it defines: {', '.join(names)})" if names else ""


def source_files(path: str) -> tuple[str, ...]:
    """The file in which the function at `path` is written, found without importing anything; ()
    where it cannot be told."""
    place, _, _ = path.rpartition(":")
    if place.endswith(".py"):
        return (place,)
    spec, within = None, None
    parts = place.split(".")
    for i in range(len(parts)):
        spec = importlib.machinery.PathFinder.find_spec(".".join(parts[: i + 1]), within)
        if spec is None:
            return ()
        within = spec.submodule_search_locations
    return (spec.origin,) if spec.has_location else ()


def _module(place: str):
    if not place.endswith(".py"):
        try:
            return importlib.import_module(place)
        except ModuleNotFoundError as error:
            raise ValueError(f'reward function: cannot import "{place}": {error}') from error
    place = os.path.expanduser(place)
    spec = importlib.util.spec_from_file_location(os.path.basename(place)[:-3], place)
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(spec.name, module)
    spec.loader.exec_module(module)
    return module


def number(value: object) -> float:
    """What a user's function returned as a float; NaN where it is no number (text is none)."""
    try:
        return math.nan if isinstance(value, str | bytes) else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _arguments(completions: Sequence[Completion], problems: Sequence[Problem]) -> dict:
    """prompts, completions, completion_ids and the columns of the data, one list each.

    Where the prompts are messages so are the completions, as TRL does it.  A column that a problem
    lacks is None there.
    """
    texts = [
        c.text if isinstance(p.prompt, str) else [{"role": "assistant", "content": c.text}]
        for c, p in zip(completions, problems, strict=True)
    ]
    columns = {key: [p.meta.get(key) for p in problems] for p in problems for key in p.meta}
    return {
        **columns,
        "answer": [p.answer for p in problems],
        "prompts": [p.prompt if isinstance(p.prompt, str) else list(p.prompt) for p in problems],
        "completions": texts,
        "completion_ids": [list(c.token_ids) for c in completions],
    }


@REWARDS.register("function")
@dataclasses.dataclass(frozen=True)
class UserFunction(Reward):
    """Calls a user's f(prompts, completions, **columns) -> list of numbers (None: could not tell).

    path: "package.module:function" or "folder/file.py:function".  columns are the fields of the
    data (`Problem.meta`) and "answer"; the function gets those it names, or all if it has **kwargs.
    deadline_s: wall seconds for one batch.
    """

    path: str = ""
    deadline_s: float = 30.0

    in_worker = True
    whole_batch = True
    errors_stop = True
    memory_mb = 0

    def __post_init__(self):
        check_path("function", self.path)
        if not self.deadline_s > 0:
            raise ValueError(f"function: deadline_s must be positive, got {self.deadline_s}")

    @property
    def label(self) -> str:
        return f'reward function "{self.path}"'

    @property
    def files(self) -> tuple[str, ...]:
        return source_files(self.path)

    def warm_up(self) -> None:
        load_function(self.path)

    def grade_batch(
        self, completions: Sequence[Completion], problems: Sequence[Problem]
    ) -> list[Verdict]:
        """One call of the function.  ValueError with one line for a wrong return value."""
        function = load_function(self.path)
        given = _arguments(completions, problems)
        named = inspect.signature(function).parameters.values()
        if not any(p.kind is p.VAR_KEYWORD for p in named):
            given = {p.name: given[p.name] for p in named if p.name in given}
        values = function(**given)
        try:
            if isinstance(values, str | bytes | Mapping | Set):  # have items too, but no rewards
                raise TypeError
            values = list(values)
        except TypeError:
            kind = type(values).__name__
            raise ValueError(f"{self.label} must return a list of numbers, got {kind}") from None
        if len(values) != len(completions):
            raise ValueError(
                f"{self.label} returned {len(values)} values for {len(completions)} completions"
            )
        return [self._verdict(value, at) for at, value in enumerate(values)]

    def _verdict(self, value: object, at: int) -> Verdict:
        if value is None:
            return Verdict(status="unknown", reason="function_none", stage="function")
        score = number(value)
        if not math.isfinite(score):
            raise ValueError(f"{self.label} returned {value!r} at place {at}: no finite number")
        return Verdict(status="scored", score=score, stage="function")

    @classmethod
    def example(cls) -> Example:
        problem = Problem(prompt="3 + 4?", answer="7", index=0)
        reward = cls(path="rlvr_jax.rewards.user_function:exact_match")
        return Example(reward, problem, right="7", wrong="8")
