"""What must hold in every run, checked while it runs and by `rlvr doctor`."""

from __future__ import annotations

import logging
import math

from rlvr_jax.config import RunConfig
from rlvr_jax.learner import TrainState
from rlvr_jax.models.config import ModelConfig

log = logging.getLogger(__name__)

KL_AT_START = {"float32": 1e-5, "bfloat16": 2e-2}  # nats a token


class InvariantError(RuntimeError):
    """Something that cannot be true in a sound run is true; the run stops."""


def check_update(
    config: RunConfig,
    model: ModelConfig,
    step: int,
    index: int,
    metrics: dict[str, float],
    state: TrainState,
    fresh: bool | None = None,
) -> None:
    """Invariants of update `index` of a step, from its metrics.

    The sampler and the scorer must agree while the parameters are those that sampled (index 0);
    policy and reference must be equal where the reference is a `fresh` copy, by default before the
    first update of all; gradients must be finite.
    """
    where = f"step {step}, update {index + 1}"
    if index == 0:
        gap = metrics["mismatch/abs_mean"]
        if not math.isfinite(gap):
            raise InvariantError(
                f"{where}: the log-probs of the sampler or the scorer are not finite (their gap is "
                f"{gap}): the parameters have grown beyond all bounds, or held such numbers before"
            )
        if not gap <= config.learner.max_sampler_gap:
            raise InvariantError(
                f"{where}: log-probs of sampler and scorer differ by {gap:.3g} nats a token on "
                f"average (learner.max_sampler_gap is {config.learner.max_sampler_gap})"
            )
    fresh = step == 1 if fresh is None else fresh
    if fresh and index == 0 and "policy/kl_ref_k3" in metrics:
        kl = metrics["policy/kl_ref_k3"]
        if not abs(kl) <= KL_AT_START[model.compute_dtype]:
            raise InvariantError(
                f"{where}: KL(policy, reference) is {kl:.3g} although they should be equal"
            )
    check_finite(config, where, metrics, state)


def check_finite(
    config: RunConfig, where: str, metrics: dict[str, float], state: TrainState
) -> None:
    """The gradient must be finite: what every stage asks of its updates.

    A few refused updates pass with a warning (the parameters stay as they were); max_bad_updates in
    a row do not.
    """
    if not metrics["health/nonfinite"]:
        return
    if int(state.bad_steps) >= config.learner.max_bad_updates:
        raise InvariantError(
            f"{where}: the gradient was not finite {int(state.bad_steps)} times in a row "
            f"(loss {metrics.get('policy/loss', math.nan):.3g}); lower the learning rate"
        )
    log.warning("%s: the gradient is not finite; this update is left out", where)


def check_critic(
    config: RunConfig, step: int, metrics: dict[str, float], state: TrainState
) -> None:
    """The critic's gradients must be finite."""
    if metrics["value/nonfinite"] and int(state.bad_steps) >= config.learner.max_bad_updates:
        raise InvariantError(
            f"step {step}: the critic's gradient was not finite {int(state.bad_steps)} times in a "
            "row; lower critic.optim.learning_rate"
        )
