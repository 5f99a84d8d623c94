"""From experience to new parameters: one state, one gradient step, one optimizer step.

A minibatch is packed into micro-batches of one shape.  `grad` runs on each and adds up gradients
and metrics; `apply` divides nothing (the weights in LossInputs already did), clips, and steps.
Both are jitted once and donate what they replace.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh

from rlvr_jax.batch import LossInputs, Metrics, pytree
from rlvr_jax.losses import Objective, finish_metrics, merge_metrics
from rlvr_jax.models.config import ModelConfig
from rlvr_jax.models.lora import join
from rlvr_jax.packing import PackConfig, Sequences, pack
from rlvr_jax.sampling import SamplingConfig
from rlvr_jax.scoring import score
from rlvr_jax.sharding import batch_shards, put_batch, replicated, tree_shardings


@dataclasses.dataclass(frozen=True)
class OptimConfig:
    """AdamW.  Steps are optimizer updates."""

    learning_rate: float = 1e-3
    schedule: str = "constant"  # constant | linear | cosine, after the warm-up, down to final_scale
    warmup_steps: int = 0
    final_scale: float = 0.0  # learning rate at the end as a share of learning_rate
    weight_decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-8
    clip_norm: float = 1.0  # global gradient norm; 0 = off

    def __post_init__(self):
        if self.schedule not in ("constant", "linear", "cosine"):
            raise ValueError(
                f'optim.schedule must be constant, linear or cosine; got "{self.schedule}"'
            )
        for name in ("learning_rate", "clip_norm", "warmup_steps", "final_scale", "weight_decay"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"optim.{name} must be 0 or more, got {getattr(self, name)}")
        if not (0 <= self.beta1 < 1 and 0 <= self.beta2 < 1 and 0 < self.eps < math.inf):
            raise ValueError(
                "optim.beta1 and beta2 lie in [0, 1) and eps is positive; "
                f"got {self.beta1}, {self.beta2} and {self.eps}"
            )


@pytree
class TrainState:
    """The only state that training changes: what is trained, and nothing else is moved or given
    moments.  `frozen` holds what the trained leaves are adapters of."""

    step: jax.Array  # int32 optimizer updates so far, skipped ones included
    params: Any  # what is trained: the whole network, or adapters alone (models/lora.py)
    opt_state: Any
    bad_steps: jax.Array  # int32 updates in a row that were skipped for a non-finite gradient
    critic: Any = None  # the critic's own TrainState while an rl stage has one
    frozen: Any = None  # the base under the adapters; None = everything is trained

    @property
    def weights(self) -> Any:
        """The parameters of the network, adapters among them."""
        return join(self.frozen, self.params)

    @property
    def base(self) -> Any:
        """The parameters of the network without adapters."""
        return self.params if self.frozen is None else self.frozen


def make_schedule(config: OptimConfig, total_steps: int) -> optax.Schedule:
    """Learning rate by update count: linear warm-up, then the chosen decay over what is left."""
    rest = max(1, total_steps - config.warmup_steps)
    end = config.learning_rate * config.final_scale
    decay = {
        "constant": optax.constant_schedule(config.learning_rate),
        "linear": optax.linear_schedule(config.learning_rate, end, rest),
        "cosine": optax.cosine_decay_schedule(config.learning_rate, rest, config.final_scale),
    }[config.schedule]
    if not config.warmup_steps:
        return decay
    warmup = optax.linear_schedule(0.0, config.learning_rate, config.warmup_steps)
    return optax.join_schedules([warmup, decay], [config.warmup_steps])


def make_optimizer(config: OptimConfig, total_steps: int) -> optax.GradientTransformation:
    """AdamW after global-norm clipping.  Decay skips vectors (norms and biases)."""
    clip = optax.clip_by_global_norm(config.clip_norm) if config.clip_norm else optax.identity()
    adamw = optax.adamw(
        make_schedule(config, total_steps),
        b1=config.beta1,
        b2=config.beta2,
        eps=config.eps,
        weight_decay=config.weight_decay,
        mask=lambda params: jax.tree_util.tree_map_with_path(_decays, params),
    )
    return optax.chain(clip, adamw)


def _decays(path, leaf) -> bool:
    name = str(getattr(path[-1], "key", ""))
    return leaf.ndim >= 2 and not name.endswith(("norm", "bias"))


def init_state(make_params: Callable[..., Any], tx, mesh: Mesh, *given) -> TrainState:
    """State with the parameters make_params(*given), created where the sharding table puts it."""

    def build(*given):
        return state_of(make_params(*given), tx)

    shape = jax.eval_shape(build, *given)
    return jax.jit(build, out_shardings=tree_shardings(shape, mesh))(*given)


def state_of(params, tx) -> TrainState:
    """The state in which `params` begin to be trained."""
    zero = jnp.zeros((), jnp.int32)
    return TrainState(step=zero, params=params, opt_state=tx.init(params), bad_steps=zero)


def restart_optimizer(state: TrainState, tx, mesh: Mesh) -> TrainState:
    """The same parameters under a new optimizer: what a new stage begins with."""
    return init_state(lambda params: params, tx, mesh, state.params)


def reset_moments(state: TrainState) -> TrainState:
    """The same parameters with Adam's moments and their count at 0; the schedule goes on.

    ProRL, arXiv 2505.24864: what goes with replacing the reference by the policy.
    """

    def reset(part):
        return jax.tree.map(jnp.zeros_like, part) if is_adam(part) else part

    def is_adam(part):
        return isinstance(part, optax.ScaleByAdamState)

    def build(opt_state):
        return jax.tree.map(reset, opt_state, is_leaf=is_adam)

    where = jax.tree.map(lambda a: a.sharding, state.opt_state)
    return dataclasses.replace(
        state, opt_state=jax.jit(build, out_shardings=where)(state.opt_state)
    )


def make_scorer(
    model: ModelConfig,
    sampling: SamplingConfig,
    pack_config: PackConfig,
    mesh: Mesh,
    entropy: bool = False,
):
    """scorer(params, sequences, width) -> numpy log-probs [B, width] of the given tokens; with
    `entropy` (log-probs, entropies)."""

    @functools.partial(jax.jit, static_argnums=2)
    def run(params, rows, shape):
        s = score(model, sampling, params, rows, shape, mesh=mesh)
        found = (s.logp_BT, s.entropy_BT) if entropy else s.logp_BT
        return jax.lax.with_sharding_constraint(found, replicated(mesh))

    def scorer(params, sequences: Sequences, width: int):
        return score_all(functools.partial(run, params), sequences, width, pack_config, mesh)

    return scorer


def score_all(run: Callable, sequences: Sequences, width: int, config: PackConfig, mesh: Mesh):
    """run(rows, shape) on every micro-batch of `sequences`, put together: numpy [B, width] for
    every array that it gives."""
    parts = []
    for rows, index in pack(sequences, config, width, batch_shards(mesh)):
        found = run(put_batch(rows, mesh), (len(index), width))
        parts.append((index, jax.tree.map(np.asarray, found)))

    def whole(*arrays):
        out = np.zeros((len(sequences.length_B), width), np.float32)
        for (index, _), array in zip(parts, arrays, strict=True):
            out[index[index >= 0]] = array[index >= 0]
        return out

    return jax.tree.map(whole, *[found for _, found in parts])


def sampler_gap(logp_BT: jax.Array, x: LossInputs) -> Metrics:
    """How far the scorer's log-probs are from the sampler's.  Speaks of two code paths only while
    the parameters are those that sampled (the first update of a rollout)."""
    d_BT = jnp.where(x.mask_BT, logp_BT - x.sampler_logp_BT, 0.0)
    count = jnp.sum(x.mask_BT).astype(jnp.float32)
    return {
        "mismatch/abs_mean": (jnp.sum(jnp.abs(d_BT)), count),
        "mismatch/abs_max": (jnp.max(jnp.abs(d_BT)), jnp.ones(())),
        "mismatch/kl_k1": (jnp.sum(-d_BT), count),
        "mismatch/kl_k3": (jnp.sum(jnp.expm1(d_BT) - d_BT), count),
    }


def _make_loss(
    model: ModelConfig,
    sampling: SamplingConfig,
    objective: Objective,
    mesh: Mesh,
    entropy_grad: bool,
):
    """loss(params, rows, x, coefs) -> (this micro-batch's share of the objective, metrics)."""

    def loss(params, rows, x, coefs):
        s = score(
            model, sampling, params, rows, x.mask_BT.shape, entropy_grad=entropy_grad, mesh=mesh
        )
        x = dataclasses.replace(x, logp_BT=s.logp_BT, entropy_BT=s.entropy_BT)
        total, metrics = objective(x, coefs)
        return total, metrics | sampler_gap(jax.lax.stop_gradient(s.logp_BT), x)

    return loss


def make_update(
    model: ModelConfig,
    sampling: SamplingConfig,
    objective: Objective,
    tx: optax.GradientTransformation,
    state: TrainState,
    mesh: Mesh,
    adaptive_entropy: bool = False,
) -> Callable[..., tuple[TrainState, dict[str, float]]]:
    """update(state, micro_batches, coefs=None) -> (state, metrics): one optimizer step.

    `state` gives shapes and shardings only.  adaptive_entropy: `coefs` may hold an entropy bonus
    although the objective's own coefficient is 0.  An update whose gradient is not finite changes
    nothing but the counters; `health/nonfinite` is then 1.
    """
    entropy_grad = adaptive_entropy or objective.entropy_coef != 0
    loss = _make_loss(model, sampling, objective, mesh, entropy_grad)
    return make_step(loss, tx, state, mesh, ("policy/grad_norm", "health/nonfinite"))


def _make_apply(tx: optax.GradientTransformation, names: tuple[str, str]):
    """apply(state, gradients) -> (state, metrics): the optimizer's step, or none where the gradient
    is not finite."""

    def moved(state, grads):
        updates, opt_state = tx.update(grads, state.opt_state, state.params)
        return optax.apply_updates(state.params, updates), opt_state

    def stays(state, grads):
        return state.params, state.opt_state

    def apply(state, grads):
        norm = optax.tree.norm(grads)
        ok = jnp.isfinite(norm)
        # A branch and not a choice between leaves: that would hold another copy of the parameters.
        params, opt_state = jax.lax.cond(ok, moved, stays, state, grads)
        state = TrainState(
            step=state.step + 1,
            params=params,
            opt_state=opt_state,
            bad_steps=jnp.where(ok, 0, state.bad_steps + 1),
        )
        return state, {names[0]: norm, names[1]: 1.0 - ok}

    return apply


def make_step(
    loss: Callable,
    tx: optax.GradientTransformation,
    state: TrainState,
    mesh: Mesh,
    names: tuple[str, str],
) -> Callable[..., tuple[TrainState, dict[str, float]]]:
    """step(state, micro_batches, given=None) -> (state, metrics): one optimizer step on `loss`.

    loss(params, rows, x, given) -> (sum over this micro-batch, metrics).  names: what the norm of
    the gradient and the share of refused updates are called.  `state.frozen` takes part in the
    loss and comes back as the same arrays.
    """
    shardings = jax.tree.map(lambda a: a.sharding, dataclasses.replace(state, frozen=None))

    def grad(params, total, frozen, *data):
        def whole(params):
            return loss(join(frozen, params), *data)

        grads, metrics = jax.grad(whole, has_aux=True)(params)
        if total is None:
            return grads, metrics
        return jax.tree.map(jnp.add, total[0], grads), merge_metrics(total[1], metrics)

    apply = _make_apply(tx, names)
    grad_shardings = (shardings.params, replicated(mesh))
    grad = jax.jit(grad, donate_argnums=(1,), out_shardings=grad_shardings)
    apply = jax.jit(apply, donate_argnums=(0,), out_shardings=(shardings, replicated(mesh)))
    finish = jax.jit(finish_metrics)

    def step(state, micro_batches, given=None):
        total, frozen = None, state.frozen
        for rows, x in micro_batches:
            total = grad(state.params, total, frozen, rows, x, given)
        state, more = apply(dataclasses.replace(state, frozen=None), total[0])  # donates the rest
        state = dataclasses.replace(state, frozen=frozen)
        metrics = jax.device_get(finish(total[1]) | more)
        return state, {name: float(value) for name, value in metrics.items()}

    step.compiles = lambda: grad._cache_size() + apply._cache_size()
    return step
