"""The critic: a value of the state before each token, its own parameters and its own optimizer.

`model` "separate" is a second transformer that starts as a copy of the policy, with a value head.
"head" is a value head alone, on the policy's hidden states, which it does not change: parameters of
the critic lie over those of the policy, and gradients are taken with respect to the critic's.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh

from rlvr_jax.batch import ValueInputs
from rlvr_jax.experience import Experience, minibatches, take_rows
from rlvr_jax.learner import (
    OptimConfig,
    TrainState,
    init_state,
    make_optimizer,
    make_schedule,
    make_step,
    score_all,
)
from rlvr_jax.losses import ValueLoss
from rlvr_jax.masking import token_weights
from rlvr_jax.models.config import ModelConfig
from rlvr_jax.models.value_head import init_value_head
from rlvr_jax.packing import PackConfig, PackedRows, Sequences, pack
from rlvr_jax.scoring import values
from rlvr_jax.sharding import batch_shards, put_batch, replicated

MODELS = ("separate", "head")


@dataclasses.dataclass(frozen=True)
class CriticConfig:
    """Needed by advantage gae, and by it alone."""

    enabled: bool = False
    model: str = "separate"  # or "head", on the policy's hidden states
    value_clip: float = 0.2  # how far a value counts away from the rollout's; 0 = no clip
    warmup_steps: int = 0  # steps at the start in which the critic learns and the policy does not
    minibatches: int = 16  # updates of the critic an epoch; no more than there are prompts
    epochs: int = 1
    optim: OptimConfig = OptimConfig(learning_rate=3e-4)

    def __post_init__(self):
        if self.model not in MODELS:
            raise ValueError(f'critic.model is {" or ".join(MODELS)}, got "{self.model}"')
        if self.value_clip < 0 or self.warmup_steps < 0:
            raise ValueError("critic.value_clip and critic.warmup_steps must not be negative")
        if self.minibatches < 1 or self.epochs < 1:
            raise ValueError("critic.minibatches and critic.epochs must be at least 1")

    @property
    def loss(self) -> ValueLoss:
        return ValueLoss(self.value_clip or None)


def critic_params(config: CriticConfig, model: ModelConfig, policy_params):
    """The critic's first parameters: a zero value head, and a copy of the policy where separate."""
    head = {"value_head": init_value_head(model)}
    if config.model == "head":
        return head
    trunk = {name: p for name, p in policy_params.items() if name != "head"}
    return jax.tree.map(jnp.copy, trunk) | head


def init_critic(
    config: CriticConfig,
    model: ModelConfig,
    policy_params,
    tx: optax.GradientTransformation,
    mesh: Mesh,
) -> TrainState:
    """The critic's state at the start of a stage."""
    return init_state(lambda p: critic_params(config, model, p), tx, mesh, policy_params)


def make_values(model: ModelConfig, pack_config: PackConfig, mesh: Mesh) -> Callable:
    """values(critic params, policy params, sequences, width) -> numpy f32 [B, width]."""

    @functools.partial(jax.jit, static_argnums=3)
    def run(critic, policy, rows, shape):
        found = values(model, {**policy, **critic}, rows, shape, mesh)
        return jax.lax.with_sharding_constraint(found, replicated(mesh))

    def scorer(critic, policy, sequences: Sequences, width: int) -> np.ndarray:
        return score_all(
            functools.partial(run, critic, policy), sequences, width, pack_config, mesh
        )

    return scorer


def make_value_update(
    model: ModelConfig,
    loss: ValueLoss,
    tx: optax.GradientTransformation,
    state: TrainState,
    mesh: Mesh,
) -> Callable:
    """update(critic state, batches, policy params) -> (critic state, value/* metrics)."""

    def whole(critic, rows, x, policy):
        value_BT = values(model, {**policy, **critic}, rows, x.mask_BT.shape, mesh)
        return loss(dataclasses.replace(x, value_BT=value_BT))

    return make_step(whole, tx, state, mesh, ("value/grad_norm", "value/nonfinite"))


def value_batches(
    e: Experience, pack_config: PackConfig, mesh: Mesh
) -> Iterable[tuple[PackedRows, ValueInputs]]:
    """Device micro-batches for the critic of one minibatch; its loss is a mean over tokens."""
    arrays = {
        "value_BT": np.zeros_like(e.value_BT),
        "old_value_BT": e.value_BT,
        "return_BT": e.return_BT,
        "mask_BT": e.mask_BT,
        "weight_BT": token_weights(e.mask_BT, "token_mean"),
    }
    for rows, index in pack(e.sequences, pack_config, e.mask_BT.shape[1], batch_shards(mesh)):
        yield put_batch((rows, ValueInputs(**take_rows(arrays, index))), mesh)


def explained_variance(value_BT: np.ndarray, target_BT: np.ndarray, mask_BT: np.ndarray) -> float:
    """1 - Var(target - V) / Var(target) over unmasked tokens; 0 when the target does not vary.

    1 is a perfect critic, 0 one that says the same everywhere, below 0 one that does harm.
    """
    value, target = value_BT[mask_BT].astype(float), target_BT[mask_BT].astype(float)
    total = target.var() if target.size else 0.0
    return 1.0 - float((target - value).var() / total) if total > 1e-8 else 0.0


def foresight(e: Experience) -> dict[str, float]:
    """How well the values of the rollout, from before any update on it, tell what came of it.

    Targets under lambda < 1 are made of these values too, so a critic explains some of them however
    little it knows of the reward; hence both.
    """
    reward_BT = np.broadcast_to(e.reward_B[:, None], e.mask_BT.shape)
    return {
        "value/explained_var": explained_variance(e.value_BT, e.return_BT, e.mask_BT),
        "value/explained_reward": explained_variance(e.value_BT, reward_BT, e.mask_BT),
    }


@dataclasses.dataclass
class Critic:
    """The critic of a stage: its state, and the compiled pieces that move it."""

    config: CriticConfig
    pack: PackConfig
    mesh: Mesh
    state: TrainState
    values: Callable
    update: Callable
    schedule: optax.Schedule

    def scorer(self, policy_params) -> Callable[[Sequences, int], np.ndarray]:
        """values(sequences, width), of the critic as it is now."""
        return functools.partial(self.values, self.state.params, policy_params)

    def learn(
        self, e: Experience, policy_params, address: tuple[int, int]
    ) -> list[dict[str, float]]:
        """All updates of a step; the metrics of each.  Minibatches depend on `address` alone."""
        done, fit = [], foresight(e)
        for part in minibatches(e, self.config, (*address, 1)):
            batches = value_batches(part, self.pack, self.mesh)
            self.state, numbers = self.update(self.state, batches, policy_params)
            numbers["value/lr"] = float(self.schedule(int(self.state.step) - 1))
            done.append(numbers | fit)
        return done


def open_critic(
    config: CriticConfig,
    model: ModelConfig,
    pack_config: PackConfig,
    mesh: Mesh,
    state: TrainState,
    steps: int,
) -> Critic | None:
    """The critic of a stage of `steps` steps: `state.critic` where a resumed stage brings one, else
    new beside the policy as the stage begins.  None where the config has none."""
    if not config.enabled:
        return None
    updates = steps * config.epochs * config.minibatches
    tx = make_optimizer(config.optim, updates)
    own = state.critic
    if own is None:
        own = init_critic(config, model, state.base, tx, mesh)
    return Critic(
        config=config,
        pack=pack_config,
        mesh=mesh,
        state=own,
        values=make_values(model, pack_config, mesh),
        update=make_value_update(model, config.loss, tx, own, mesh),
        schedule=make_schedule(config.optim, updates),
    )
