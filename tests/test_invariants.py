"""What the guards of a step say, on numbers made up for them."""

import dataclasses
import math

import jax.numpy as jnp
import pytest

from rlvr_jax.config import build
from rlvr_jax.invariants import InvariantError, check_update
from rlvr_jax.learner import TrainState

CONFIG = build({"task": {"name": "arithmetic"}})
STATE = TrainState(step=jnp.int32(1), params={}, opt_state=(), bad_steps=jnp.int32(0))
SOUND = {"mismatch/abs_mean": 0.0, "health/nonfinite": 0.0, "policy/loss": 0.0}


def check(bad_steps=0, **changes):
    numbers = SOUND | {name.replace("__", "/"): value for name, value in changes.items()}
    state = dataclasses.replace(STATE, bad_steps=jnp.int32(bad_steps))
    check_update(CONFIG, CONFIG.model, 7, 0, numbers, state)


@pytest.mark.parametrize("gap", [math.nan, math.inf])
def test_a_gap_that_is_no_number_is_not_called_a_difference(gap):
    check()
    with pytest.raises(InvariantError, match="step 7, update 1: .* are not finite") as caught:
        check(mismatch__abs_mean=gap)
    assert "differ" not in str(caught.value)


def test_sampler_and_scorer_that_differ():
    with pytest.raises(InvariantError, match="differ by 0.2 nats"):
        check(mismatch__abs_mean=0.2)


def test_refused_updates_in_a_row():
    check(bad_steps=4, health__nonfinite=1.0)
    with pytest.raises(InvariantError, match="not finite 5 times in a row"):
        check(bad_steps=5, health__nonfinite=1.0)
