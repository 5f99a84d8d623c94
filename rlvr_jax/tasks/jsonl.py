"""A user's own problems: JSON lines with any column names, through configuration alone.

--config.task.name=jsonl --config.task.train_path=train.jsonl --config.task.test_fraction=0.1
--config.task.prompt_column=problem --config.task.answer_column=answer
"""

from __future__ import annotations

import dataclasses
import logging
import os
import re
from collections.abc import Callable, Sequence
from typing import ClassVar

from rlvr_jax.tasks.base import (
    TASKS,
    SplitName,
    check_int,
    check_share,
    check_split,
    content_hash,
    in_test,
    worked,
)
from rlvr_jax.tasks.rows import Row, file_sha256, read_rows, write_rows
from rlvr_jax.types import Problem

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, eq=False)
class RowSplit:
    """Problems made from rows; every row is checked when the split is made.

    problems: in the order of the file, `index` counting from 0.
    digest: fingerprint of the rows' source and of the options that shape the problems.
    places: where each problem stands, "file:line".
    """

    problems: Sequence[Problem]
    digest: str
    places: Sequence[str]

    def __len__(self) -> int:
        return len(self.problems)

    def __getitem__(self, index: int) -> Problem:
        if not 0 <= index < len(self.problems):
            raise IndexError(f"problem {index} of a split of {len(self.problems)}")
        return self.problems[index]

    @property
    def preview(self) -> int:
        """All of them: they are in memory."""
        return len(self.problems)

    def where(self, index: int) -> str:
        """File and line."""
        return self.places[index]

    def fingerprint(self) -> str:
        """sha256 (hex) of the file's content and the options that shape the problems."""
        return self.digest


@TASKS.register("jsonl")
@dataclasses.dataclass(frozen=True)
class Jsonl:
    """JSON lines from files, plain or gzip; any column names.

    train_path: one object a line.  test_path: the held-out file; without it, `test_fraction` of
        the train file is held out by a hash of the prompt, so equal prompts stay on one side.
        A train row whose prompt also stands in the test file is left out, and that is logged.
    prompt_column: text, or a list of {"role", "content"} messages.
    answer_column: the gold, text or a number; "" for tasks that have none.
    answer_pattern: a regular expression; its group 1 in the answer is the gold ("#### (.*)").
    solution_column: demonstrations for supervised warm-up; "" for none.
    limit: at most so many problems of each split; 0 for all.
    Every column of a row is in the problem's meta.
    """

    train_path: str = ""
    test_path: str = ""
    test_fraction: float = 0.0
    prompt_column: str = "prompt"
    answer_column: str = "answer"
    answer_pattern: str = ""
    solution_column: str = ""
    limit: int = 0

    reward: ClassVar[str] = "numeric"

    def __post_init__(self):
        if not self.train_path:
            raise ValueError("task jsonl: train_path is empty; name a file of JSON lines")
        check_share("jsonl", "test_fraction", self.test_fraction, 0.9)
        if bool(self.test_path) == bool(self.test_fraction):
            state = "both are set" if self.test_path else "neither is set"
            raise ValueError(f"task jsonl: give test_path or test_fraction ({state})")
        places = [os.path.realpath(os.path.expanduser(path)) for path in self.files]
        if len(set(places)) < len(places):
            raise ValueError(f"task jsonl: test_path is train_path: {self.test_path}")
        if not self.prompt_column:
            raise ValueError("task jsonl: prompt_column is empty")
        check_int("jsonl", "limit", self.limit, 0)
        _check_pattern(self.answer_pattern, self.answer_column)

    @classmethod
    def example(cls, folder: str) -> Jsonl:
        """A task over forty small sums, written to `folder`."""
        path = os.path.join(folder, "sums.jsonl")
        rows = [
            {"ask": f"{n}+{n}=", "gold": 2 * n, "worked": worked(f"twice {n}", str(2 * n))}
            for n in range(40)
        ]
        write_rows(path, rows)
        return cls(
            train_path=path,
            test_fraction=0.25,
            prompt_column="ask",
            answer_column="gold",
            solution_column="worked",
        )

    @property
    def files(self) -> tuple[str, ...]:
        """train_path, and test_path where there is one."""
        return tuple(path for path in (self.train_path, self.test_path) if path)

    def split(self, name: SplitName) -> RowSplit:
        """The problems of "train" or "test"; the files are read here.

        ValueError with file and line number for whatever is wrong in them.
        """
        check_split(name)
        path = self.test_path if name == "test" and self.test_path else self.train_path
        if self.test_path:
            rows = read_rows(path)
            held_out = read_rows(self.test_path) if name == "train" else ()
            rows = without(rows, held_out, self.prompt_column)
        else:
            want_test = name == "test"
            rows = [r for r in read_rows(path) if self._held_out(r) == want_test]
        options = dataclasses.asdict(self) | {"train_path": "", "test_path": ""}
        files = [file_sha256(path) for path in self.files]
        return make_split(
            rows, path, self._problem, content_hash([name, options, files]), self.limit
        )

    def _held_out(self, row: Row) -> bool:
        return in_test(row.prompt(self.prompt_column), self.test_fraction)

    def _problem(self, row: Row) -> Problem:
        answer = row.text(self.answer_column) if self.answer_column else ""
        if self.answer_pattern:
            found = re.search(self.answer_pattern, answer)
            if not found or found[1] is None:
                raise ValueError(
                    f'{row.where}: column "{self.answer_column}" does not match answer_pattern '
                    f"{self.answer_pattern!r}: {answer[-60:]!r}"
                )
            answer = found[1].strip()
        solution = row.text(self.solution_column) if self.solution_column else None
        if solution == "":
            raise ValueError(f'{row.where}: column "{self.solution_column}" is empty')
        return Problem(
            prompt=row.prompt(self.prompt_column),
            answer=answer,
            solution=solution,
            index=0,
            meta=row.columns,
        )


def make_split(
    rows: Sequence[Row], source: str, make: Callable[[Row], Problem], digest: str, limit: int
) -> RowSplit:
    """The first `limit` rows (0: all) as problems; ValueError when there is no row."""
    if not rows:
        raise ValueError(f"{source}: no problem is left for this split")
    kept = rows[:limit] if limit else rows
    problems = [dataclasses.replace(make(row), index=i) for i, row in enumerate(kept)]
    return RowSplit(problems, digest, [row.where for row in kept])


def without(rows: Sequence[Row], held_out: Sequence[Row], column: str) -> Sequence[Row]:
    """`rows` less those whose prompt is in `held_out`: a memorised test problem proves nothing."""
    if not held_out:
        return rows
    seen = {repr(row.prompt(column)) for row in held_out}
    kept = [row for row in rows if repr(row.prompt(column)) not in seen]
    if len(kept) < len(rows):
        log.warning("%d train rows are also in the test file; left out", len(rows) - len(kept))
    return kept


def _check_pattern(pattern: str, column: str) -> None:
    if not pattern:
        return
    if not column:
        raise ValueError("task jsonl: answer_pattern has no effect without answer_column")
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise ValueError(f"task jsonl: answer_pattern {pattern!r}: {error}") from error
    if not groups:
        raise ValueError(f"task jsonl: answer_pattern {pattern!r} has no group for the gold")
