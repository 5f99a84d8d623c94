"""Reinforcement learning with verifiable rewards: the whole way from prompt to update.

One step: collect (sample, judge, perhaps refill), shape the rewards, score what the method needs,
take advantages over the whole rollout; then the critic's updates, if there is one, and one
optimizer update of the policy for every minibatch of every epoch.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import numpy as np

from rlvr_jax import controllers
from rlvr_jax.critic import Critic, open_critic
from rlvr_jax.curriculum import Curriculum
from rlvr_jax.experience import Experience, Extras, make_experience, micro_batches, minibatches
from rlvr_jax.generate import Address
from rlvr_jax.invariants import check_critic, check_update
from rlvr_jax.learner import (
    TrainState,
    make_optimizer,
    make_schedule,
    make_scorer,
    make_update,
)
from rlvr_jax.memory import account
from rlvr_jax.reference import open_reference
from rlvr_jax.rollout import TRAIN, Judged, collect, trained_mask
from rlvr_jax.setup import Place, Run, process_metrics
from rlvr_jax.shaping import shaped, shaping_metrics
from rlvr_jax.tasks import stream


def rl(run: Run, state: TrainState, place: Place) -> TrainState:
    """Train from `place` to the end of the stage; returns the state, `place` moves along."""
    c, log, stage = run.config, run.log, "rl"
    warm = c.critic.warmup_steps if c.critic.enabled else 0  # steps of the critic alone
    updates = max(1, c.rl.steps - warm) * c.learner.epochs * c.learner.minibatches
    tx, schedule = make_optimizer(c.optim, updates), make_schedule(c.optim, updates)
    if place.step == 0:
        state = run.start_stage(state, tx, place)
        run.evaluate(stage, 0, "before", state.weights)
    passes = min(c.critic.minibatches, c.rollout.prompts)
    critic = open_critic(
        dataclasses.replace(c.critic, minibatches=passes),
        *(run.model, c.pack, run.mesh, state, c.rl.steps),
    )
    state = dataclasses.replace(state, critic=None)
    run.reference = open_reference(
        c.reference, run.checkpoints, state, run.index(place), place.reference
    )
    note_memory(run, state, critic)
    problems = stream(run.train, 2 * c.seed + 1)
    adapts = c.entropy.target is not None
    update = make_update(run.model, c.sampling, c.objective, tx, state, run.mesh, adapts)
    scorers = Scorers(run)
    for step in range(place.step + 1, c.rl.steps + 1):
        judged, metrics = gather(run, state.weights, place, step, problems.__getitem__)
        with log.clock("logprob"):
            experience, more = assess(run, state, place, judged, (scorers, critic))
        metrics |= more | shaping_metrics(judged)
        done = []
        with log.clock("update"):
            if critic is not None:
                critic_done = critic.learn(experience, state.weights, (c.seed, step))
                check_critic(c, step, critic_done[-1], critic.state)
                metrics |= merge_updates(critic_done)
            if step > warm:
                given, numbers = control(run, place, experience)
                metrics |= numbers
                fresh = step == warm + 1 or (run.reference and run.reference.fresh(step))
                for part in minibatches(experience, c.learner, (c.seed, step)):
                    batches = micro_batches(part, c.aggregation, c.pack, run.mesh, c.objective)
                    state, numbers = update(state, batches, given)
                    check_update(c, run.model, step, len(done), numbers, state, bool(fresh))
                    done.append(numbers)
        metrics |= merge_updates(done) | {
            "policy/lr": float(schedule(int(state.step) - 1)) if done else 0.0,
            "policy/updates": len(done),
            "data/epoch": place.cursor / len(run.train),
            "perf/gen_tok_s": metrics["data/sampled_tokens"] / log.clock.spent("generate"),
            "perf/train_tok_s": more["data/tokens"] / log.clock.spent("update"),
        }
        place.step = step
        if run.reference is not None:
            state = run.reference.follow(state, step, run.index(place))
        log.metrics(stage, step, metrics | process_metrics(run))
        whole = state if critic is None else dataclasses.replace(state, critic=critic.state)
        run.finish_step(whole, place, c.rl.steps)
    return state


def note_memory(run: Run, state: TrainState, critic: Critic | None) -> None:
    """The account of what is trained and held, on the console."""
    roles = {
        "policy": state,
        "reference": None if run.reference is None else run.reference.params,
        "critic": None if critic is None else critic.state,
    } | {f"reward model {name}": model.params for name, model in run.reward_models.items()}
    for line in account(roles):
        run.log.note(line)


class Scorers:
    """The compiled scoring of the policy; entropies only where the method looks at them."""

    def __init__(self, run: Run):
        c = run.config
        ranks = c.objective.top_entropy < 1 or c.entropy.target is not None
        make = functools.partial(make_scorer, run.model, c.sampling, c.pack, run.mesh)
        self.logp = make()
        self.both = make(entropy=True) if ranks else None


def gather(
    run: Run, params, place: Place, step: int, problem_at: Callable
) -> tuple[Judged, dict[str, float]]:
    """The judged batch of a step, rewards shaped, and its metrics; `place` moves along."""
    c = run.config
    limit = c.rollout.limit_at(step)
    chooser = Curriculum(c.curriculum, place.pool, c.seed) if c.curriculum.active else None
    judged, place.cursor, metrics = collect(
        dataclasses.replace(run.actor, limit=limit),
        params,
        problem_at,
        place.cursor,
        c.rollout,
        Address(c.seed, TRAIN, step),
        chooser,
    )
    if limit is not None:
        metrics["data/limit"] = limit
    return shaped(judged, c.shaping, limit or c.decode.max_new_tokens, step), metrics


def greedy_rewards(run: Run, params, judged: Judged, step: int) -> np.ndarray | None:
    """f32 [N]: what the greedy completion of each prompt earns, shaped like the samples; NaN where
    it could not be judged.  None where nothing compares with it."""
    if run.greedy_actor is None:
        return None
    c, limit = run.config, run.config.rollout.limit_at(step)
    actor = dataclasses.replace(run.greedy_actor, limit=limit)
    uids = [p.index for p in judged.problems]  # no token is drawn, but where a phrase begins may be
    greedy = actor.roll(params, judged.problems, uids, 1, Address(c.seed, TRAIN, step))
    greedy = shaped(greedy, c.shaping, limit or c.decode.max_new_tokens, step)
    return np.where(greedy.valid_NG, greedy.reward_NG, np.float32(np.nan))[:, 0]


def assess(
    run: Run, state: TrainState, place: Place, judged: Judged, tools: tuple[Scorers, Critic | None]
) -> tuple[Experience, dict[str, float]]:
    """Everything an update needs to know of a batch; `place.baseline` moves along."""
    c, (scorers, critic), weights = run.config, tools, state.weights
    reference = run.reference if run.config.reference.mode != "none" else None
    extras = Extras(
        rescore=None if scorers.both is None else functools.partial(scorers.both, weights),
        value=None if critic is None else critic.scorer(weights),
        greedy_reward_N=greedy_rewards(run, weights, judged, place.step + 1),
        baseline=place.baseline if "running_baseline" in c.advantage.needs else None,
        kl_coef=place.kl_coef,
    )
    old = functools.partial(scorers.logp, weights)
    experience, metrics = make_experience(
        judged,
        trained_mask(judged, c.rollout),
        c.advantage,
        c.objective.kl,
        old_logp=old if c.learner.old_logp == "recompute" else None,
        ref_logp=None if reference is None else functools.partial(scorers.logp, reference.params),
        extras=extras,
    )
    if experience.next_baseline is not None:
        metrics["adv/baseline"] = place.baseline
        place.baseline = experience.next_baseline
    return experience, metrics


def control(run: Run, place: Place, experience: Experience):
    """(coefficients for the updates of this step or None, metrics); `place` holds the next ones."""
    c, metrics = run.config, {}
    kl = c.objective.kl.coef if place.kl_coef is None else place.kl_coef
    if c.kl_control.target is not None:
        metrics["policy/kl_coef"] = kl
        place.kl_coef = controllers.next_kl(c.kl_control, kl, experience)
    place.entropy_coef, bonus = controllers.next_entropy(c.entropy, place.entropy_coef, experience)
    if c.entropy.target is not None:
        metrics["policy/entropy_coef"] = bonus
    return controllers.coefs(c.objective, c.entropy, c.kl_control, kl, bonus), metrics


def merge_updates(done: list[dict[str, float]]) -> dict[str, float]:
    """Metrics of a step from those of its updates: means; largest value for `*_max`; mismatch/*
    from the first, when the parameters were those that sampled."""
    out = {}
    for name in done[0] if done else ():
        values = [m[name] for m in done]
        if name.startswith("mismatch/"):
            out[name] = values[0]
        else:
            out[name] = max(values) if name.endswith("_max") else sum(values) / len(values)
    return out
