"""VAPO's parts in miniature: does a model that may think longer learn to?

    python benchmarks/vapo_parts.py                    the table of docs/algorithms.md
    python benchmarks/vapo_parts.py --length=4000 --rows 0 3

An answer is a chain of chunks of tokens.  At the end of each chunk the policy stops or goes on (one
logit for each chunk); who stops writes a conclusion, `tail` more tokens.  The longer answer is
right more often: 0.1 after one chunk, 0.9 after the last.  The reward comes with the last token.
The critic sees the position alone and is smooth, a line between knots, so it does not jump where a
decision is made, nor does it know that the answer is ending.  Advantages, targets and losses are
those of preset `vapo`; each row of the table takes a part of it away.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax

from rlvr_jax.advantages import ADVANTAGES
from rlvr_jax.batch import AdvantageInputs, LossInputs, ValueInputs
from rlvr_jax.choices import make
from rlvr_jax.critic import explained_variance
from rlvr_jax.losses import LOSSES, ValueLoss
from rlvr_jax.masking import token_weights
from rlvr_jax.presets import preset
from rlvr_jax.statistics import mean_ci

ROW = preset("vapo").overrides
SHORT = {"lam_policy": 0.95, "length_alpha": None}
PRETRAIN = ROW["critic"]["warmup_steps"]
ARMS = {  # what is taken away -> (steps of value pretraining, changes of the advantage)
    "nothing: VAPO's parts": (PRETRAIN, {}),
    "value pretraining": (0, {}),
    "decoupled lambda: targets under 0.95": (PRETRAIN, {"lam_value": 0.95}),
    "length-adaptive lambda: 0.95 (VC-PPO)": (PRETRAIN, SHORT),
    "pretraining and adaptive lambda": (0, SHORT),
    "all three: PPO": (0, SHORT | {"lam_value": 0.95}),
}


@dataclasses.dataclass(frozen=True)
class Toy:
    """chunks * tokens + tail is the longest answer."""

    chunks: int = 20
    tokens: int = 100
    tail: int = 50  # tokens between the decision to stop and the reward
    noise: float = 0.1  # standard deviation of the critic's word on a token about its line
    samples: int = 32  # answers a step
    knots: int = 6
    go_on: float = 2.0  # the first logit of going on: 0.88
    policy_lr: float = 0.1
    value_lr: float = 0.05

    @property
    def length(self) -> int:
        return self.chunks * self.tokens + self.tail

    @property
    def right_K(self) -> np.ndarray:
        """Probability that an answer of k + 1 chunks is right."""
        return np.linspace(0.1, 0.9, self.chunks)

    @property
    def features_TN(self) -> np.ndarray:
        """Hat functions of the position: the value is linear between the knots."""
        at = np.linspace(0, self.knots - 1, self.length)[:, None]
        return np.maximum(0.0, 1.0 - np.abs(at - np.arange(self.knots)))

    def mask(self, more_B: jax.Array) -> jax.Array:
        """Tokens of answers with more_B chunks beyond the first [B, T]."""
        length_B = (more_B + 1) * self.tokens + self.tail
        return jnp.arange(self.length) < length_B[:, None]

    def values(self, weight_N: jax.Array, noise_BT: jax.Array) -> jax.Array:
        """The critic's word on every token [B, T]: what it knows is the position alone."""
        return jnp.asarray(self.features_TN, jnp.float32) @ weight_N + self.noise * noise_BT

    def stops_at(self, logit_K: np.ndarray) -> np.ndarray:
        """Probability of k + 1 chunks under the policy [..., K - 1]."""
        on = 1 / (1 + np.exp(-np.asarray(logit_K, float)))
        reached = np.cumprod(np.concatenate([np.ones_like(on[..., :1]), on], -1), -1)
        return reached * (1 - np.concatenate([on, np.zeros_like(on[..., :1])], -1))


def sample(toy: Toy, logit_K: jax.Array, key: jax.Array):
    """(chunks beyond the first [B], reward [B])."""
    go_key, reward_key = jax.random.split(key)
    on_BK = jax.random.uniform(go_key, (toy.samples, toy.chunks - 1)) < jax.nn.sigmoid(logit_K)
    more_B = jnp.sum(jnp.cumprod(on_BK, axis=1), axis=1)
    right_B = jax.random.uniform(reward_key, (toy.samples,)) < jnp.asarray(toy.right_K)[more_B]
    return more_B, right_B.astype(jnp.float32)


def logp(toy: Toy, logit_K: jax.Array, more_B: jax.Array) -> jax.Array:
    """Log-prob of every token: the last one of a chunk decides, the others are certain."""
    chunk_K = jnp.arange(toy.chunks - 1)
    decided_BK = jnp.where(
        chunk_K < more_B[:, None], jax.nn.log_sigmoid(logit_K), jax.nn.log_sigmoid(-logit_K)
    )
    made_BK = jnp.where(chunk_K <= more_B[:, None], decided_BK, 0.0)
    at_K = (chunk_K + 1) * toy.tokens - 1
    return jnp.zeros((more_B.size, toy.length)).at[:, at_K].set(made_BK)


def make_loss(toy: Toy):
    """loss(params, rollout): the preset's of policy and critic; they share no parameter."""
    policy_loss, value_loss = make(LOSSES, ROW["loss"]), ValueLoss(ROW["critic"]["value_clip"])

    def loss(params, rollout):
        more_B, noise_BT, adv_BT, return_BT, old_BT, mask_BT = rollout
        weight_BT = token_weights(mask_BT, ROW["aggregation"]["mode"])
        logp_BT = logp(toy, params["policy"], more_B)
        x = LossInputs(
            logp_BT=logp_BT,
            old_logp_BT=jax.lax.stop_gradient(logp_BT),
            adv_BT=adv_BT,
            mask_BT=mask_BT,
            weight_BT=weight_BT,
            entropy_BT=jnp.zeros_like(logp_BT),
        )
        v = ValueInputs(
            value_BT=toy.values(params["value"], noise_BT),
            old_value_BT=old_BT,
            return_BT=return_BT,
            mask_BT=mask_BT,
            weight_BT=weight_BT,
        )
        return policy_loss(x)[0] + value_loss(v)[0]

    return loss


def make_step(toy: Toy, changes: dict, learns: bool):
    """step(state, key) -> (state, (value [T], more [B], reward [B])), for one seed."""
    gae, loss = make(ADVANTAGES, ROW["advantage"] | changes), make_loss(toy)
    tx = {"policy": optax.adam(toy.policy_lr), "value": optax.adam(toy.value_lr)}

    def step(state, key):
        params, moments = state
        more_B, reward_B = sample(toy, params["policy"], key)
        noise_BT = jax.random.normal(jax.random.fold_in(key, 1), (toy.samples, toy.length))
        mask_BT = toy.mask(more_B)
        value_BT = toy.values(params["value"], noise_BT)
        x = AdvantageInputs(
            reward_NG=reward_B[:, None],
            valid_NG=jnp.ones((toy.samples, 1), bool),
            mask_BT=mask_BT,
            value_BT=value_BT,
        )
        rollout = (more_B, noise_BT, gae(x), gae.returns(x), value_BT, mask_BT)
        slopes = jax.grad(loss)(params, rollout)
        new, new_moments = {}, {}
        for name in ("policy", "value") if learns else ("value",):
            move, new_moments[name] = tx[name].update(slopes[name], moments[name])
            new[name] = params[name] + move
        line_T = toy.values(params["value"], jnp.zeros(toy.length))
        return (params | new, moments | new_moments), (line_T, more_B, reward_B)

    return step


def first_state(toy: Toy, seeds: int):
    """A critic that says 0, as the package's does; the same policy for all seeds."""
    params = {
        "policy": jnp.full((seeds, toy.chunks - 1), toy.go_on),
        "value": jnp.zeros((seeds, toy.knots)),
    }
    return params, jax.vmap(lambda p: {k: optax.adam(0.1).init(p[k]) for k in p})(params)


def train(toy: Toy, arm: tuple[int, dict], steps: int, seeds: int) -> dict[str, list[float]]:
    """One arm, `seeds` seeds at once; what is measured, by seed."""
    pretrain, changes = arm
    state, step = first_state(toy, seeds), {}
    for learns in (False, True):
        step[learns] = jax.jit(jax.vmap(make_step(toy, changes, learns)))
    bias, explained = [], []
    for i in range(pretrain + steps):
        keys = jax.vmap(lambda s, i=i: jax.random.fold_in(jax.random.key(s), i))(jnp.arange(seeds))
        logit_SK = state[0]["policy"]
        state, seen = step[i >= pretrain](state, keys)
        if i >= pretrain:
            bias.append(np.asarray(seen[0])[:, 0] - toy.stops_at(logit_SK) @ toy.right_K)
            explained.append(
                [explained_now(toy, *one) for one in zip(*map(np.asarray, seen), strict=True)]
            )
    stop_SK = toy.stops_at(state[0]["policy"])
    return {
        "return": stop_SK @ toy.right_K,
        "length": stop_SK @ (toy.tokens * np.arange(1, toy.chunks + 1) + toy.tail),
        "bias": np.mean(bias, 0),
        "explained": np.mean(explained, 0),
    }


def explained_now(toy: Toy, value_T, more_B, reward_B) -> float:
    """Explained variance of the rewards of one batch, over its tokens."""
    mask_BT = np.asarray(toy.mask(more_B))
    whole = functools.partial(np.broadcast_to, shape=mask_BT.shape)
    return explained_variance(whole(value_T), whole(reward_B[:, None]), mask_BT)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rows", type=int, nargs="*", help="which rows, from 0; all by default")
    parser.add_argument("--length", type=int, default=2000, help="tokens of all chunks")
    parser.add_argument("--tail", type=int, default=Toy.tail, help="tokens after the last chunk")
    parser.add_argument("--noise", type=float, default=Toy.noise, help="of the critic")
    options = parser.parse_args()
    toy = Toy(tokens=options.length // Toy.chunks, tail=options.tail, noise=options.noise)
    print("| taken away | return | mean length | value bias at token 1 | explained variance |")
    print("| --- | --- | --- | --- | --- |")
    chosen = list(ARMS.items())
    for name, arm in chosen if options.rows is None else [chosen[i] for i in options.rows]:
        found = train(toy, arm, options.steps, options.seeds)
        cells = [mean_ci(found[key], proportion=False) for key in found]
        cells = [
            f"{e.value:.0f} [{e.lo:.0f}, {e.hi:.0f}]" if e.value > 10 else str(e) for e in cells
        ]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
