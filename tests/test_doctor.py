"""The doctor finds a sound config sound, and a broken invariant broken."""

import dataclasses
import importlib.util
import pathlib

import numpy as np
import pytest

from rlvr_jax import doctor
from rlvr_jax.config import build
from rlvr_jax.experience import Experience
from rlvr_jax.packing import Sequences

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
    (gradient,) = [r.found for r in rows if "gradient" in r.name]
    assert float(gradient.removeprefix("norm ")) > 0.1  # although all rewards are 0


def test_a_scorer_that_disagrees_with_the_sampler_is_found(config, monkeypatch):
    real = doctor.make_scorer

    def wrong(*args):
        scorer = real(*args)
        return lambda params, sequences, width: scorer(params, sequences, width) - 0.2

    monkeypatch.setattr(doctor, "make_scorer", wrong)
    failed = {r.name for r in doctor.examine(config) if not r.ok}
    assert "sampler and scorer agree" in failed


def test_made_up_advantages_leave_no_drawn_token_out():
    """The policy earned the same everywhere, and its cut-off completions are masked."""
    length_B, zeros_BT = np.array([3, 1, 2], np.int32), np.zeros((3, 4), np.float32)
    experience = doctor._made_up(
        Experience(
            sequences=Sequences([[5]], np.zeros(3, int), np.ones((3, 4), np.int32), length_B),
            mask_BT=np.zeros((3, 4), bool),
            sampler_logp_BT=zeros_BT,
            old_logp_BT=zeros_BT,
            adv_BT=zeros_BT,
            reward_B=np.zeros(3, np.float32),
            correct_B=np.zeros(3, bool),
        ),
        np.array([[1, 0, 1], [1, 0, 0], [1, 1, 0]], bool),
    )
    expected = [[1, 0, 1, 0], [-1, 0, 0, 0], [1, 1, 0, 0]]
    np.testing.assert_array_equal(experience.adv_BT, expected)
    np.testing.assert_array_equal(experience.mask_BT, np.array(expected) != 0)


def test_data_that_a_run_would_refuse_is_the_last_row(config):
    short = dataclasses.replace(config.decode, max_prompt_tokens=2)
    row = list(doctor.examine(dataclasses.replace(config, decode=short)))[-1]
    assert not row.ok and "problem 0 (train)" in row.found and "max_prompt_tokens" in row.found
