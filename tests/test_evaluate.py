"""An evaluation whose completions nobody could judge is told, and does not end the run."""

import contextlib
import logging
import math
from types import SimpleNamespace

import jax.numpy as jnp
import optax
import pytest

from rlvr_jax.checkpoint import CheckpointConfig, Checkpoints
from rlvr_jax.evaluate import warn_of_unknown
from rlvr_jax.learner import state_of
from rlvr_jax.log import Clock
from rlvr_jax.setup import Place, Run
from rlvr_jax.store import damage, read_facts
from rlvr_jax.types import Verdict


def test_unknown_verdicts_are_told_with_their_most_frequent_reason(caplog):
    unknown = [Verdict(status="unknown", reason=r) for r in ("no_score", "too long", "too long")]
    with caplog.at_level(logging.WARNING):
        warn_of_unknown([Verdict(status="wrong", reason="empty")] * 9)
        assert not caplog.records
        warn_of_unknown([*unknown, *[Verdict(status="wrong", reason="empty")] * 9])
    (record,) = caplog.records
    assert record.getMessage() == (
        "evaluation: 3 of 12 completions could not be judged; reason of 2: too long"
    )


@pytest.mark.parametrize(("value", "metric"), [(math.nan, None), (0.25, 0.25)])
def test_a_step_is_saved_whatever_its_evaluation_found(value, metric, tmp_path):
    every = SimpleNamespace(every=1)
    run = SimpleNamespace(
        config=SimpleNamespace(stages=("rl",), eval=every, checkpoint=every),
        stop=SimpleNamespace(requested=False),
        evaluate=lambda *_: value,
        log=SimpleNamespace(clock=Clock()),
        index=lambda place: place.step,
        reference=None,
    )
    state = state_of({"w": jnp.zeros(2)}, optax.identity())
    with contextlib.closing(Checkpoints(tmp_path, CheckpointConfig(), print)) as run.checkpoints:
        Run.finish_step(run, state, Place(step=1), 2)
    assert damage(tmp_path / "checkpoints" / "1") is None
    assert read_facts(tmp_path / "checkpoints" / "1")["metric"] == metric
