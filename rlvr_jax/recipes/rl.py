"""Reinforcement learning with verifiable rewards: the whole way from prompt to update.

One step: collect (sample, judge, perhaps refill), score what the objective needs, take advantages
over the whole rollout, then one optimizer update for every minibatch of every epoch.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from rlvr_jax.experience import make_experience, micro_batches, minibatches
from rlvr_jax.generate import Address
from rlvr_jax.invariants import check_update
from rlvr_jax.learner import (
    TrainState,
    make_optimizer,
    make_schedule,
    make_scorer,
    make_update,
    restart_optimizer,
)
from rlvr_jax.rollout import TRAIN, collect, trained_mask
from rlvr_jax.setup import Place, Run, process_metrics
from rlvr_jax.tasks import stream


def rl(run: Run, state: TrainState, place: Place) -> TrainState:
    """Train from `place` to the end of the stage; returns the state, `place` moves along."""
    c, log, stage = run.config, run.log, "rl"
    updates = c.rl.steps * c.learner.epochs * c.learner.minibatches
    tx, schedule = make_optimizer(c.optim, updates), make_schedule(c.optim, updates)
    reference = reference_policy(run, state, place)
    if place.step == 0:
        state = restart_optimizer(state, tx, run.mesh)
        run.evaluate(stage, 0, "before", state.params)
    problems = stream(run.train, 2 * c.seed + 1)
    update = make_update(run.model, c.sampling, c.objective, tx, state, run.mesh)
    scorer = make_scorer(run.model, c.sampling, c.pack, run.mesh)
    for step in range(place.step + 1, c.rl.steps + 1):
        address = Address(c.seed, TRAIN, step)
        judged, place.cursor, metrics = collect(
            run.actor, state.params, problems.__getitem__, place.cursor, c.rollout, address
        )
        with log.clock("logprob"):
            old = functools.partial(scorer, state.params)
            experience, more = make_experience(
                judged,
                trained_mask(judged, c.rollout),
                c.advantage,
                c.objective.kl,
                old_logp=old if c.learner.old_logp == "recompute" else None,
                ref_logp=None if reference is None else functools.partial(scorer, reference),
            )
        done = []
        with log.clock("update"):
            for part in minibatches(experience, c.learner, (c.seed, step)):
                batches = micro_batches(part, c.aggregation, c.pack, run.mesh, c.objective)
                state, numbers = update(state, batches)
                check_update(c, run.model, step, len(done), numbers, state)
                done.append(numbers)
        metrics |= more | merge_updates(done)
        metrics |= {
            "policy/lr": float(schedule(int(state.step) - 1)),
            "policy/updates": len(done),
            "data/epoch": place.cursor / len(run.train),
            "perf/gen_tok_s": int(judged.samples.length_B.sum()) / log.clock.spent("generate"),
            "perf/train_tok_s": more["data/tokens"] / log.clock.spent("update"),
        } | process_metrics(run)
        place.step = step
        log.metrics(stage, step, metrics)
        run.finish_step(state, place, c.rl.steps)
    return state


def reference_policy(run: Run, state: TrainState, place: Place):
    """The frozen reference, as the policy was when the stage began; None where nothing needs it."""
    if run.config.reference.mode == "none":
        return None
    run.reference = place.stage
    if place.step:
        shapes = jax.tree.map(
            lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=a.sharding), state.params
        )
        return run.checkpoints.restore_reference(place.stage, shapes)
    shardings = jax.tree.map(lambda a: a.sharding, state.params)
    reference = jax.jit(functools.partial(jax.tree.map, jnp.copy), out_shardings=shardings)(
        state.params
    )
    run.checkpoints.save_reference(place.stage, reference)
    return reference


def merge_updates(done: list[dict[str, float]]) -> dict[str, float]:
    """Metrics of a step from those of its updates: means; largest value for `*_max`; mismatch/*
    from the first, when the parameters were those that sampled."""
    out = {}
    for name in done[0]:
        values = [m[name] for m in done]
        if name.startswith("mismatch/"):
            out[name] = values[0]
        else:
            out[name] = max(values) if name.endswith("_max") else sum(values) / len(values)
    return out
