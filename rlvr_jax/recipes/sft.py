"""Supervised warm-up: next-token loss on the task's worked solutions, through the same learner.

A demonstration is a completion with advantage 1 under the plain policy gradient, whose loss is then
the mean negative log-likelihood of its tokens.
"""

from __future__ import annotations

import numpy as np

from rlvr_jax.experience import AggregationConfig, Experience, micro_batches
from rlvr_jax.invariants import check_finite
from rlvr_jax.learner import (
    TrainState,
    make_optimizer,
    make_schedule,
    make_update,
)
from rlvr_jax.losses import LOSSES, Objective
from rlvr_jax.packing import Sequences
from rlvr_jax.reference import ReferenceConfig, open_reference
from rlvr_jax.sampling import SamplingConfig
from rlvr_jax.setup import Place, Run, process_metrics
from rlvr_jax.slots import bucket
from rlvr_jax.tasks import stream
from rlvr_jax.text import encode_completion, end_id
from rlvr_jax.types import Problem


def sft(run: Run, state: TrainState, place: Place) -> TrainState:
    """Train from `place` to the end of the stage; returns the state, `place` moves along."""
    c, log, stage = run.config, run.log, "sft"
    tx, schedule = make_optimizer(c.sft.optim, c.sft.steps), make_schedule(c.sft.optim, c.sft.steps)
    if place.step == 0:
        state = run.start_stage(state, tx, place)
        run.evaluate(stage, 0, "before", state.weights)
    run.reference = open_reference(
        ReferenceConfig(), run.checkpoints, state, run.index(place), place.reference
    )
    problems = stream(run.train, 2 * c.seed)
    objective = Objective(loss=LOSSES.make("policy_gradient"))
    update = make_update(run.model, SamplingConfig(), objective, tx, state, run.mesh)
    for step in range(place.step + 1, c.sft.steps + 1):
        positions = range(place.cursor, place.cursor + c.sft.batch)
        place.cursor += c.sft.batch
        with log.clock("update"):
            batch = demonstrations(run, [problems[i] for i in positions])
            aggregation = AggregationConfig("token_mean")
            micro = micro_batches(batch, aggregation, c.pack, run.mesh, objective)
            state, numbers = update(state, micro)
            check_finite(c, f"step {step} of {stage}", numbers, state)
        place.step = step
        metrics = {
            "sft/loss": numbers["policy/loss"],
            "sft/grad_norm": numbers["policy/grad_norm"],
            "sft/lr": float(schedule(step - 1)),
            "health/nonfinite": numbers["health/nonfinite"],
            "data/tokens": int(batch.mask_BT.sum()),
            "data/epoch": place.cursor / len(run.train),
            "perf/train_tok_s": int(batch.mask_BT.sum()) / log.clock.spent("update"),
        }
        log.metrics(stage, step, metrics | process_metrics(run))
        run.finish_step(state, place, c.sft.steps)
    return state


def demonstrations(run: Run, problems: list[Problem]) -> Experience:
    """Prompts with their worked solutions as completions, every token trained on."""
    targets = [target_ids(run, p) for p in problems]
    count, width = len(targets), bucket(max(map(len, targets)), 8)
    tokens_BT = np.zeros((count, width), np.int32)
    for b, ids in enumerate(targets):
        tokens_BT[b, : len(ids)] = ids
    length_B = np.array([len(t) for t in targets], np.int32)
    mask_BT = np.arange(width) < length_B[:, None]
    zeros_BT = np.zeros((count, width), np.float32)
    return Experience(
        sequences=Sequences(
            [run.actor.encode(p) for p in problems], np.arange(count), tokens_BT, length_B
        ),
        mask_BT=mask_BT,
        sampler_logp_BT=zeros_BT,
        old_logp_BT=zeros_BT,
        adv_BT=mask_BT.astype(np.float32),
        reward_B=np.ones(count, np.float32),
        correct_B=np.ones(count, bool),
    )


def target_ids(run: Run, problem: Problem) -> list[int]:
    """Ids of the worked solution, end token included."""
    if problem.solution is None:
        raise ValueError(
            f"problem {problem.index} of the task has no solution to learn from; an sft stage "
            "needs a task with worked solutions (task.solution_column for your own files)"
        )
    return encode_completion(
        run.tokenizer, problem.solution, end_id(run.tokenizer, run.config.text)
    )
