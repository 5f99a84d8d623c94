"""The doctor finds a sound config sound, and a broken invariant broken."""

import importlib.util
import pathlib

import pytest

from rlvr_jax import doctor
from rlvr_jax.config import build

TINY = pathlib.Path(__file__).parent / "recipes" / "tiny.py"


@pytest.fixture(scope="module")
def config():
    spec = importlib.util.spec_from_file_location("tiny", TINY)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return build(module.get_config())


def test_all_checks_pass(config):
    rows = list(doctor.examine(config))
    assert len(rows) >= 10
    assert [r.name for r in rows if not r.ok] == []


def test_a_scorer_that_disagrees_with_the_sampler_is_found(config, monkeypatch):
    real = doctor.make_scorer

    def wrong(*args):
        scorer = real(*args)
        return lambda params, sequences, width: scorer(params, sequences, width) - 0.2

    monkeypatch.setattr(doctor, "make_scorer", wrong)
    failed = {r.name for r in doctor.examine(config) if not r.ok}
    assert "sampler and scorer agree" in failed
