"""GSM8K (Cobbe et al. 2021): grade-school word problems with worked answers.

A row has "question" and "answer"; the answer is the working, with a calculator annotation
<<48/2=24>> at each step, then a line "#### 72".
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Sequence
from typing import ClassVar

from rlvr_jax.tasks.base import TASKS, SplitName, check_int, check_split, content_hash, worked
from rlvr_jax.tasks.jsonl import RowSplit, make_split, without
from rlvr_jax.tasks.rows import Row, read_rows, write_rows
from rlvr_jax.types import Problem

ANNOTATION = re.compile(r"<<[^<>\n]*>>")


@TASKS.register("gsm8k")
@dataclasses.dataclass(frozen=True)
class Gsm8k:
    """The GSM8K word problems, from files or from the hub.

    path: a folder that holds train.jsonl and test.jsonl (or .jsonl.gz); empty: `dataset` is
        fetched by the `datasets` package, which is in the extra "hub".
    dataset, subset: the hub name and its configuration.
    annotations: keep the calculator annotations in the solutions.
    limit: at most so many problems of each split; 0 for all.
    The gold is the number after "####", without commas; the solution is the working in the
    think-and-answer form.
    """

    path: str = ""
    dataset: str = "openai/gsm8k"
    subset: str = "main"
    annotations: bool = False
    limit: int = 0

    reward: ClassVar[str] = "numeric"

    def __post_init__(self):
        check_int("gsm8k", "limit", self.limit, 0)
        if not self.path and not self.dataset:
            raise ValueError("task gsm8k: path and dataset are both empty")

    @classmethod
    def example(cls, folder: str) -> Gsm8k:
        """A task over a few rows of the same form, written to `folder`."""
        for name, numbers in (("train", range(1000, 1008)), ("test", range(2, 6))):
            rows = [
                {
                    "question": f"Ann has {n} pens and buys as many again. How many has she?",
                    "answer": f"She has {n}+{n} = <<{n}+{n}={2 * n}>>{2 * n} pens.\n#### {2 * n:,}",
                }
                for n in numbers
            ]
            write_rows(os.path.join(folder, f"{name}.jsonl"), rows)
        return cls(path=folder)

    def split(self, name: SplitName) -> RowSplit:
        """The problems of "train" or "test"; the files are read here.

        ValueError with file and line number for whatever is wrong in them.
        """
        check_split(name)
        rows = self._rows(name)
        if name == "train":
            rows = without(rows, self._rows("test"), "question")
        options = dataclasses.asdict(self) | {"path": ""}
        digest = content_hash([name, options, [dict(row.columns) for row in rows]])
        return make_split(rows, self.path or self.dataset, self._problem, digest, self.limit)

    @property
    def files(self) -> tuple[str, ...]:
        """train.jsonl and test.jsonl, or their .gz; none where the rows are the hub's."""
        return (self._file("train"), self._file("test")) if self.path else ()

    def _file(self, name: SplitName) -> str:
        plain = os.path.join(os.path.expanduser(self.path), f"{name}.jsonl")
        zipped = plain + ".gz"
        return zipped if not os.path.exists(plain) and os.path.exists(zipped) else plain

    def _rows(self, name: SplitName) -> Sequence[Row]:
        if not self.path:
            return hub_rows(self.dataset, self.subset, name)
        if not os.path.isdir(os.path.expanduser(self.path)):
            raise ValueError(f"task gsm8k: path must be a folder with {name}.jsonl: {self.path}")
        return read_rows(self._file(name))

    def _problem(self, row: Row) -> Problem:
        answer = row.text("answer")
        working, mark, gold = answer.rpartition("####")
        gold = gold.strip().replace(",", "")
        if not mark or not gold:
            raise ValueError(f'{row.where}: column "answer" lacks "#### number": {answer[-60:]!r}')
        working = working.strip()
        return Problem(
            prompt=row.prompt("question"),
            answer=gold,
            solution=worked(working if self.annotations else ANNOTATION.sub("", working), gold),
            index=0,
            meta=row.columns,
        )


def hub_rows(dataset: str, subset: str, name: SplitName) -> list[Row]:
    """The rows of a hub data set; ValueError without the extra or without the data."""
    try:
        import datasets
    except ImportError as error:
        raise ValueError(
            f'task gsm8k: path is empty, and fetching "{dataset}" needs the datasets package: '
            'install the extra "hub" (pip install "rlvr-jax[hub]"), or set path to a folder with '
            "train.jsonl and test.jsonl"
        ) from error
    try:
        data = datasets.load_dataset(dataset, subset, split=name)
    except (OSError, ValueError) as error:  # no network, no such data set, no such subset
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ValueError(f'task gsm8k: data set "{dataset}" ({subset}): {reason}') from error
    return [Row(f"{dataset}/{name}, row {i}", dict(row)) for i, row in enumerate(data)]
