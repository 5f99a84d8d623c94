"""A warm-up that runs out of the numbers is stopped and told, like a stage of RL."""

import pytest
from tiny import get_config

from rlvr_jax.config import build
from rlvr_jax.invariants import InvariantError
from rlvr_jax.log import read_rows
from rlvr_jax.recipes.pipeline import run_pipeline


def test_a_warm_up_without_a_finite_gradient_stops(tmp_path, caplog):
    c = get_config()
    c.model.layers = 1
    c.sft.optim.learning_rate = 1e30
    c.learner.max_bad_updates = 2
    c.eval.problems, c.eval.every = 2, 0
    with pytest.raises(InvariantError, match="of sft: the gradient was not finite 2 times"):
        run_pipeline(build(c), str(tmp_path))
    rows = [r for r in read_rows(tmp_path / "metrics.jsonl") if "sft/loss" in r]
    assert [r["health/nonfinite"] for r in rows] == [0.0, 1.0]
    assert "step 2 of sft: the gradient is not finite; this update is left out" in caplog.text
