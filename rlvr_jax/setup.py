"""What a run holds: everything that is built once from the configuration and used by every
stage."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import resource
import sys
from collections.abc import Mapping
from typing import Any

import jax
import optax
from jax.sharding import Mesh

from rlvr_jax.checkpoint import (
    Checkpoints,
    find_checkpoint,
    read_host,
    read_params,
    read_reference,
)
from rlvr_jax.config import RunConfig, completed, to_json
from rlvr_jax.critic import critic_params
from rlvr_jax.evalreport import EvalReport
from rlvr_jax.evaluate import evaluate
from rlvr_jax.generate import make_sampler
from rlvr_jax.learner import TrainState, init_state, make_optimizer, restart_optimizer, state_of
from rlvr_jax.log import Clock, RunLog, StagePlan
from rlvr_jax.models import transformer
from rlvr_jax.models.config import ModelConfig
from rlvr_jax.models.hf import load_params
from rlvr_jax.models.lora import init_adapters, join, merge
from rlvr_jax.phrase import resolve
from rlvr_jax.preflight import check_data
from rlvr_jax.reference import Reference
from rlvr_jax.reward_model import RewardModel, reward_models
from rlvr_jax.rewards import make_grader
from rlvr_jax.rollout import Actor, Judged
from rlvr_jax.sampling import SamplingConfig
from rlvr_jax.sharding import MeshConfig, make_mesh, tree_shardings
from rlvr_jax.tasks import ReadsFiles
from rlvr_jax.tasks.rows import file_sha256
from rlvr_jax.text import load_tokenizer, ordinary_size, stop_ids
from rlvr_jax.types import Problem
from rlvr_jax.workdir import Stop, claim_workdir, lock_workdir


@dataclasses.dataclass
class Place:
    """Where the run stands: what a checkpoint stores beside the arrays."""

    stage: int = 0  # index into config.stages
    step: int = 0  # finished steps of that stage; 0 = nothing of it has happened yet
    cursor: int = 0  # next position in the stage's problem stream
    reference: int | None = None  # version of the frozen parameters the stage trains against
    kl_coef: float | None = None  # of kl_control; None = kl.coef
    entropy_coef: float = 0.0  # of entropy.target
    baseline: float = 0.0  # of advantage running_mean
    pool: dict[str, list[int]] = dataclasses.field(default_factory=dict)  # curriculum.Pool

    def next_stage(self) -> None:
        """To the start of the next stage."""
        vars(self).update(vars(Place(stage=self.stage + 1)))


class Stopped(Exception):
    """The run was asked to stop and has saved itself."""


@dataclasses.dataclass
class Run:
    """Built by `open_run`, handed to every recipe."""

    config: RunConfig
    model: ModelConfig
    mesh: Mesh
    tokenizer: Any
    train: Any  # split of the task
    test: list[Problem]
    actor: Actor
    eval_actor: Actor
    greedy_actor: Actor | None  # where the advantage compares with a greedy completion
    log: RunLog
    checkpoints: Checkpoints
    stop: Stop
    compiles: CompileCounter
    data: dict[str, str]  # hashes of what is read: see `data_hashes`
    reward_models: dict[str, RewardModel]  # by folder or hub name
    reported: tuple[EvalReport, Judged] | None = None  # the last evaluation
    reference: Reference | None = None  # of the stage

    def start_stage(self, state: TrainState, tx, place: Place) -> TrainState:
        """What the stage at `place` begins with: see `start_stage` below."""
        if state.frozen is not None:  # merging rounds: "after" is not quite "before" any more
            self.reported = None
        return start_stage(self.config, self.mesh, state, tx, place.stage)

    def evaluate(self, stage: str, step: int, phase: str, params) -> float:
        """Evaluate on the held-out problems, write it down, return pass@1, NaN if none was judged.

        A stage begins with the parameters the last one ended with, and the draws do not depend on
        the step, so the evaluation "after" one stage serves as "before" of the next.
        """
        c = self.config
        with self.log.clock("eval"):
            if phase != "before" or self.reported is None:
                self.reported = evaluate(self.eval_actor, params, self.test, c.eval, c.seed)
        report, judged = self.reported
        self.log.evaluation(stage, step, "test", phase, report)
        self.log.samples(stage, step, phase, judged.rows("test", c.eval.show))
        return report.avg.value

    def finish_step(self, state: TrainState, place: Place, steps: int) -> None:
        """Evaluation and checkpoint where they are due; Stopped where a stop was asked for."""
        c, stage, step = self.config, self.config.stages[place.stage], place.step
        last, value = step == steps, None
        if last or (c.eval.every and step % c.eval.every == 0):
            found = self.evaluate(stage, step, "after" if last else "during", state.weights)
            value = found if math.isfinite(found) else None
        if last or self.stop.requested or step % c.checkpoint.every == 0:
            with self.log.clock("ckpt"):
                index = self.index(place)
                if self.reference is not None:
                    place.reference = self.reference.save(self.checkpoints, index)
                self.checkpoints.save(
                    index,
                    dataclasses.replace(state, frozen=None),  # it is the reference, saved once
                    dataclasses.asdict(place),
                    metric=value,
                    reference=place.reference,
                )
        if self.stop.requested and not last:
            self.checkpoints.wait()
            raise Stopped(f"stopped after step {step} of stage {stage}")

    def index(self, place: Place) -> int:
        """Place as one number that only grows."""
        before = sum(stage_steps(self.config, name) for name in self.config.stages[: place.stage])
        return before + place.step


def stage_steps(config: RunConfig, stage: str) -> int:
    return getattr(config, stage).steps


def resolve_model(config: RunConfig, tokenizer) -> ModelConfig:
    """The model with its vocabulary filled in from the tokenizer, and the weight of adapters."""
    size = len(tokenizer)
    if config.model.vocab and config.model.vocab < ordinary_size(tokenizer):
        advice = "" if config.model.path else "; use 0 for the tokenizer's size"
        raise ValueError(
            f"the model's embedding has {config.model.vocab} rows, but tokenizer "
            f'"{config.tokenizer}" has {size} ids{advice}'
        )
    return dataclasses.replace(
        config.model, vocab=config.model.vocab or size, lora_scale=config.lora.scale
    )


def any_mesh(config: RunConfig) -> Mesh:
    """The run's mesh where these devices allow it, else one device: a checkpoint fits any."""
    try:
        return make_mesh(config.mesh)
    except ValueError:
        return make_mesh(MeshConfig(), jax.devices()[:1])


def make_actor(config: RunConfig, model, tokenizer, mesh, grader, clock, sampling: SamplingConfig):
    """The sampler with the text and the checker around it."""
    stops = stop_ids(tokenizer, config.text.stop)
    interruption = resolve(config.interruption, tokenizer, stops)
    sampler = make_sampler(model, config.decode, sampling, stops, mesh, interruption=interruption)
    return Actor(
        sampler=sampler,
        tokenizer=tokenizer,
        format=config.text,
        stop_ids=stops,
        grader=grader,
        decode=config.decode,
        clock=clock,
    )


def open_grader(stack: contextlib.ExitStack, config: RunConfig, mesh: Mesh):
    """(the reward's grader, the reward models that are served until the stack closes)."""
    models = stack.enter_context(reward_models(config.reward, config.model, config.pack, mesh))
    grader = make_grader(config.reward, workers=config.rollout.verify_workers)
    return stack.enter_context(grader), models


def open_actor(stack: contextlib.ExitStack, config: RunConfig, sampling: SamplingConfig):
    """(actor, model, mesh) without a run folder, for evaluation and the doctor."""
    tokenizer = load_tokenizer(config.tokenizer)
    model, mesh = resolve_model(config, tokenizer), make_mesh(config.mesh)
    grader, _ = open_grader(stack, config, mesh)
    return make_actor(config, model, tokenizer, mesh, grader, Clock(), sampling), model, mesh


def restore_params(config: RunConfig, model: ModelConfig, mesh: Mesh, workdir, which="newest"):
    """(index, the policy's parameters) of a checkpoint, as training joins them: adapters stand
    beside their base.  Only reads, so the run may be going on.  which: as for
    checkpoint.read_params."""
    index = find_checkpoint(workdir, which)
    shapes = state_shapes(config, model, mesh, read_host(workdir, index))
    _, params = read_params(workdir, shapes.params, index)
    if shapes.frozen is not None:
        params = join(read_reference(workdir, shapes.frozen, index), params)
    return index, params


def data_hashes(config: RunConfig, train, test) -> dict[str, str]:
    """sha256 of the problems of each split, and of every "file <path>" of the user's that the task
    or the reward reads."""
    paths = (*task_files(config), *config.reward.files)
    files = {f"file {path}": file_sha256(path) for path in paths}
    return {"train": train.fingerprint(), "test": test.fingerprint()} | files


def task_files(config: RunConfig) -> tuple[str, ...]:
    """The user's files that the problems come from."""
    return config.task.files if isinstance(config.task, ReadsFiles) else ()


def check_splits(config: RunConfig, train, test) -> None:
    """ValueError where a stage could not learn from the problems."""
    if not len(train) or not len(test):
        raise ValueError("the task has an empty split; training and evaluation need problems")
    if "sft" in config.stages and train[0].solution is None:  # a task gives them to all or to none
        name = to_json(config)["task"]["name"]
        files = task_files(config)
        cure = f"name their column in {files[0]} (task.solution_column), or " if files else ""
        raise ValueError(
            f'an sft stage learns from worked solutions, and task "{name}" gives none: {cure}leave '
            "sft out of config.stages"
        )


@contextlib.contextmanager
def open_run(config: RunConfig, workdir: str):
    """Build a Run, and close what it opened at the end.  Data errors come before anything slow."""
    train, test = config.task.split("train"), config.task.split("test")
    check_splits(config, train, test)
    tokenizer = load_tokenizer(config.tokenizer)
    model, mesh = resolve_model(config, tokenizer), make_mesh(config.mesh)
    check_data(config, tokenizer, train, test)  # before the folder is bound to a config
    data = data_hashes(config, train, test)
    plans = [StagePlan(name, stage_steps(config, name)) for name in config.stages]
    with contextlib.ExitStack() as stack:
        grader, served = open_grader(stack, config, mesh)
        if jax.process_index() == 0:
            stack.enter_context(lock_workdir(workdir))
        claim_workdir(workdir, to_json(config), data, complete=completed)
        log = stack.enter_context(
            contextlib.closing(RunLog(workdir, plans, writes=jax.process_index() == 0))
        )
        stop = stack.enter_context(Stop())
        build = functools.partial(make_actor, config, model, tokenizer, mesh, grader, log.clock)
        actor = build(config.sampling)
        same = config.eval_sampling == config.sampling
        greedy = "greedy_reward_N" in config.advantage.needs and "rl" in config.stages
        yield Run(
            config=config,
            model=model,
            mesh=mesh,
            tokenizer=tokenizer,
            train=train,
            test=[test[i] for i in range(min(len(test), config.eval.problems))],
            actor=actor,
            eval_actor=actor if same else build(config.eval_sampling),
            greedy_actor=build(SamplingConfig(temperature=0.0)) if greedy else None,
            log=log,
            checkpoints=stack.enter_context(
                contextlib.closing(Checkpoints(workdir, config.checkpoint, note=log.note))
            ),
            stop=stop,
            compiles=CompileCounter(),
            data=data,
            reward_models=served,
        )


def first_state(run: Run) -> TrainState:
    """The parameters a run starts from; the first stage brings the optimizer."""
    return start_state(run.config.seed, run.model, run.mesh)


def start_state(seed: int, model: ModelConfig, mesh: Mesh) -> TrainState:
    """The checkpoint at model.path, else fresh parameters; nothing trains them yet."""
    tx = optax.identity()
    if not model.path:
        return init_state(lambda: transformer.init(model, jax.random.key(seed)), tx, mesh)
    return state_of(load_params(model.path, model, mesh), tx)


def start_stage(config: RunConfig, mesh: Mesh, state: TrainState, tx, index: int) -> TrainState:
    """What stage `index` begins with: a new optimizer, and where the stage trains adapters, fresh
    ones over the policy as it is.  Adapters of the stage before become part of the base, so that
    the base without adapters is the policy at the start of a stage: its reference."""
    base = merge(state.weights, config.lora.scale)
    if not config.lora.trains(config.stages[index]):
        return restart_optimizer(dataclasses.replace(state, params=base, frozen=None), tx, mesh)
    key = jax.random.fold_in(jax.random.key(config.seed), 1 + index)
    state = init_state(lambda: init_adapters(config.lora, base, key), tx, mesh)
    return dataclasses.replace(state, frozen=base)


def state_shapes(config: RunConfig, model: ModelConfig, mesh: Mesh, host: Mapping[str, Any]):
    """Shapes and shardings of the training state at the place `host`, without making it.

    Optimizers of all stages have one structure; a stage of RL may add a critic.  `frozen` is the
    base of a stage that trains adapters: a checkpoint holds it as its reference.
    """
    tx = make_optimizer(config.optim, 1)

    def build():
        stage, key = config.stages[host["stage"]], jax.random.key(0)
        base, adapters = transformer.init(model, key), None
        if config.lora.trains(stage):
            adapters = init_adapters(config.lora, base, key)
        state = state_of(base if adapters is None else adapters, tx)
        if config.critic.enabled and stage == "rl":
            critic = critic_params(config.critic, model, base)
            state = dataclasses.replace(state, critic=state_of(critic, tx))
        return state if adapters is None else dataclasses.replace(state, frozen=base)

    shapes = jax.eval_shape(build)
    return jax.tree.map(
        lambda s, where: jax.ShapeDtypeStruct(s.shape, s.dtype, sharding=where),
        shapes,
        tree_shardings(shapes, mesh),
    )


class CompileCounter:
    """Programs compiled (or fetched from the compilation cache) since it was made."""

    def __init__(self):
        self.count = 0
        jax.monitoring.register_event_duration_secs_listener(self._heard)

    def _heard(self, event: str, duration: float, **_: Any) -> None:
        self.count += event.endswith("backend_compile_duration")


def process_metrics(run: Run) -> dict[str, float]:
    """perf/host_rss (peak resident bytes of this process) and perf/compiles."""
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return {"perf/host_rss": peak, "perf/compiles": run.compiles.count}
