"""Any data set of the `reasoning-gym` package, which makes problems of more than a hundred kinds.

The task is registered where the package is installed.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.util
import json
import random
from typing import Any, ClassVar

from rlvr_jax.tasks.base import TASKS, GeneratedSplit, SplitName, check_int
from rlvr_jax.types import Problem

SPACE = 10**9  # the package makes entry i of a data set from (seed, i) alone


@functools.lru_cache(maxsize=8)
def load(dataset: str, options: tuple[str, ...]) -> Any:
    """The package's data set.  ValueError where package, data set or option does not exist."""
    try:
        gym = importlib.import_module("reasoning_gym")
    except ImportError as error:
        raise ValueError(f"task reasoning_gym needs the package reasoning-gym: {error}") from error
    try:
        return gym.create_dataset(dataset, seed=0, size=SPACE, **parse_options(options))
    except (ValueError, TypeError, AssertionError, KeyError) as error:
        raise ValueError(f'task reasoning_gym: data set "{dataset}": {error}') from error


def parse_options(settings: tuple[str, ...]) -> dict[str, Any]:
    """("max_terms=4",) as {"max_terms": 4}; values are JSON, else text."""
    options: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.isidentifier():
            raise ValueError(f'task reasoning_gym: "{setting}" is no option=value')
        try:
            options[key] = json.loads(value)
        except ValueError:
            options[key] = value
    return options


@dataclasses.dataclass(frozen=True)
class ReasoningGym:
    """Problems of one reasoning-gym data set.

    dataset: its name there.  options: of its configuration, "max_terms=4".
    size_train, size_test: problems in each split; no test question is a train question.
    The default reward compares with the data set's own answer to the letter; see the reward
    "reasoning_gym" for data sets with many right answers.
    """

    dataset: str = "chain_sum"
    options: tuple[str, ...] = ()
    size_train: int = 100_000
    size_test: int = 256
    seed: int = 0

    reward: ClassVar[str] = "reasoning_gym"

    def __post_init__(self):
        check_int("reasoning_gym", "size_train", self.size_train, 1)
        check_int("reasoning_gym", "size_test", self.size_test, 1)
        check_int("reasoning_gym", "seed", self.seed, 0)
        parse_options(self.options)

    def split(self, name: SplitName) -> GeneratedSplit:
        """The problems of "train" or "test"."""
        size = self.size_test if name == "test" else self.size_train
        return GeneratedSplit(self, name, size, self.seed)

    def draw(self, rng: random.Random, name: SplitName) -> tuple[object, Problem]:
        """(question, problem) from `rng`; both splits are alike."""
        number = rng.randrange(SPACE)
        entry = load(self.dataset, self.options)[number]
        meta = {"dataset": self.dataset, "options": parse_options(self.options)}
        meta |= {"number": number, "space": SPACE}
        answer = "" if entry["answer"] is None else str(entry["answer"]).strip()
        problem = Problem(prompt=entry["question"], answer=answer, index=0, meta=meta)
        return entry["question"], problem


if importlib.util.find_spec("reasoning_gym"):
    TASKS.register("reasoning_gym")(ReasoningGym)
