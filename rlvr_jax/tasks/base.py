"""What a task is, and what the generators share.

A task is a frozen dataclass whose fields are its configuration.  It names a default reward and
gives two splits that share no problem: a generator decides by a hash of the problem's content on
which side it lies, so neither seed nor size can move a problem from one to the other.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import random
from collections.abc import Sequence
from typing import ClassVar, Literal, Protocol, runtime_checkable

from rlvr_jax.registry import Registry, nearest
from rlvr_jax.types import Problem

TASKS = Registry("task")

SplitName = Literal["train", "test"]
TEST_SHARE = 0.2  # share of a generator's problem space that belongs to the test split
PREVIEW = 64  # problems of a generator that are looked at before a run begins
MAX_DRAWS = 10_000  # draws after which a generator gives up on one problem


class Split(Protocol):
    """A fixed, random-access sequence of problems (a grain RandomAccessDataSource).

    preview: how many problems, from the first on, are looked at before a run begins: all that come
        from a file, some of a generator's.
    """

    @property
    def preview(self) -> int: ...

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Problem: ...

    def where(self, index: int) -> str:
        """How messages call the place of a problem: "train.jsonl:7"."""
        ...

    def fingerprint(self) -> str:
        """sha256 (hex) of what determines the problems: file contents or the generator."""
        ...


class Task(Protocol):
    """A frozen dataclass registered in `TASKS`.

    reward: the name of the reward that scores it when the configuration names none.
    A task whose defaults do not stand alone, because it reads files, also has a classmethod
    ``example(folder)``, which writes a little data there and returns a task that reads it.
    """

    reward: ClassVar[str]

    def split(self, name: SplitName) -> Split: ...


@runtime_checkable
class ReadsFiles(Protocol):
    """A task whose problems come from files of the user."""

    @property
    def files(self) -> tuple[str, ...]:
        """Their paths, of both splits."""
        ...


class Generator(Protocol):
    """What `GeneratedSplit` asks of a task."""

    def draw(self, rng: random.Random, name: SplitName) -> tuple[object, Problem]:
        """(key, problem) from `rng`: equal keys mean the same problem, and the key alone (plain
        data) decides the side.  The index is filled in by the split."""
        ...


@dataclasses.dataclass(frozen=True)
class GeneratedSplit:
    """A split made by a generator, deterministic by (seed, index).

    Train problems may repeat; test problems have distinct prompts.  ValueError where the space
    has too few problems for `size`.
    """

    task: Generator
    name: SplitName
    size: int
    seed: int

    def __post_init__(self):
        check_split(self.name)
        _ = self[0]  # a space that is too small is an error now, not in the middle of a run

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Problem:
        if not 0 <= index < self.size:
            raise IndexError(f"problem {index} of a split of {self.size}")
        return self._test[index] if self.name == "test" else self._train(index)

    @property
    def preview(self) -> int:
        """The whole test split, which is drawn at once anyway; the first problems to train on."""
        return self.size if self.name == "test" else min(self.size, PREVIEW)

    def where(self, index: int) -> str:
        """The problem's number."""
        return f"problem {index}"

    def fingerprint(self) -> str:
        """Of the configuration and the first problems, so that a changed generator shows."""
        config = {"task": type(self.task).__name__, **dataclasses.asdict(self.task)}
        first = [dataclasses.asdict(self[i]) for i in range(min(len(self), 32))]
        return content_hash([self.name, config, first])

    def _train(self, index: int) -> Problem:
        rng = addressed_rng("train", self.seed, index)
        for _ in range(MAX_DRAWS):
            key, problem = self.task.draw(rng, "train")
            if not in_test(key):
                return dataclasses.replace(problem, index=index)
        raise ValueError(f"{self.task}: no train problem in {MAX_DRAWS} draws; widen the space")

    @functools.cached_property
    def _test(self) -> tuple[Problem, ...]:
        rng = addressed_rng("test", self.seed)
        found: dict[str, Problem] = {}
        draws = 0
        while len(found) < self.size:
            # Collecting every one of n equally likely problems takes about n ln(n) / TEST_SHARE.
            if draws > MAX_DRAWS + 100 * self.size:
                raise ValueError(
                    f"{self.task}: only {len(found)} distinct test problems found for size_test = "
                    f"{self.size}; make size_test smaller or the space of problems larger"
                )
            draws += 1
            key, problem = self.task.draw(rng, "test")
            if in_test(key) and problem.prompt not in found:
                found[problem.prompt] = dataclasses.replace(problem, index=len(found))
        return tuple(found.values())


def addressed_rng(*address: str | int) -> random.Random:
    """A generator that depends on `address` alone: the same on every machine and process."""
    digest = hashlib.sha256(json.dumps(address).encode()).digest()
    return random.Random(int.from_bytes(digest, "big"))


def content_hash(content: object) -> str:
    """sha256 (hex) of plain data, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def in_test(content: object, share: float = TEST_SHARE) -> bool:
    """Whether a problem with this content lies in the test split, which takes about `share`."""
    return int(content_hash(content)[:15], 16) < share * 16**15


def worked(thought: str, answer: str) -> str:
    """The answer form of every built-in demonstration."""
    return f"<think>{thought}</think><answer>{answer}</answer>"


def check_int(task: str, name: str, value: int, low: int, high: int | None = None) -> None:
    """ValueError unless `value` is an int in low..high."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"task {task}: {name} must be an integer, got {value!r}")
    if value < low or (high is not None and value > high):
        bounds = f"at least {low}" if high is None else f"in {low}..{high}"
        raise ValueError(f"task {task}: {name} must be {bounds}, got {value}")


def check_share(task: str, name: str, value: float, high: float = 1.0) -> None:
    """ValueError unless `value` is a number in 0..high."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0.0 <= value <= high:
        raise ValueError(f"task {task}: {name} must be a number in 0..{high:g}, got {value!r}")


def check_split(name: str) -> None:
    """ValueError unless `name` is a split."""
    if name not in ("train", "test"):
        raise ValueError(
            f'no split "{name}"{nearest(name, ["train", "test"])} (there are: train, test)'
        )


def check_characters(task: str, name: str, value: str, allowed: Sequence[str]) -> None:
    """ValueError unless `value` is a non-empty string of distinct `allowed` characters."""
    known = isinstance(value, str) and value and not set(value) - set(allowed)
    if not known or len(set(value)) < len(value):
        raise ValueError(
            f"task {task}: {name} must name some of {' '.join(allowed)}, each once, got {value!r}"
        )
