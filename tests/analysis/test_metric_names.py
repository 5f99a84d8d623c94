"""The table of metrics: complete in form, found by name, and the same as the document."""

import pathlib
import re

import pytest

from rlvr_jax.analysis.metric_names import METRICS, describe, markdown
from rlvr_jax.log import PARTS

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "metrics.md"


def test_the_document_is_made_of_the_table():
    assert markdown() in DOCUMENT.read_text(encoding="utf-8")


def test_names_are_unique_and_every_entry_says_unit_and_denominator():
    names = [metric.name for metric in METRICS]
    assert len(set(names)) == len(names) > 60
    for metric in METRICS:
        assert metric.section and metric.unit and metric.over, metric
        assert "|" not in metric.over + metric.bad


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("reward/mean", "reward/mean"),
        ("reward/format", "reward/<part>"),
        ("eval/test/pass@16", "eval/<set>/pass@<k>"),
        ("eval/gsm8k/avg@4", "eval/<set>/avg@<k>"),
        ("eval/test/ci95_lo", "eval/<set>/ci95_lo"),
    ],
)
def test_logged_names_find_their_entry(name, entry):
    assert describe(name).name == entry


@pytest.mark.parametrize("name", ["reward", "reward/a/b", "polcy/loss", "eval/test/pass", "x"])
def test_unknown_names_find_nothing(name):
    assert describe(name) is None


def test_every_part_of_the_clock_is_documented():
    assert all(describe(f"time/{part}") for part in (*PARTS, "other"))


def test_every_name_of_a_run_is_documented(finished):
    from rlvr_jax.analysis.run_folder import read_run

    names = {name for row in read_run(finished).metrics for name in row} - {"step", "stage"}
    assert [name for name in names if describe(name) is None] == []


def test_every_entry_is_written_by_some_code():
    """A table of names that nothing logs would promise what no run shows."""
    package = DOCUMENT.parents[1] / "rlvr_jax"
    source = "".join(
        path.read_text("utf-8")
        for path in package.rglob("*.py")
        if path.name not in ("metric_names.py", "console.py", "plots.py", "checks.py")
    )
    silent = [
        metric.name
        for metric in METRICS  # some names are put together from their words
        if not all(word in source for word in re.split(r"[/_@]|<\w+>", metric.name))
    ]
    assert silent == []
