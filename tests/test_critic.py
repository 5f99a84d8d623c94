"""The critic: what it starts from, what its update moves, and every knob of it."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from tiny_models import EVERYTHING, PLAIN, VOCAB, one_row, random_params

from rlvr_jax.critic import (
    CriticConfig,
    critic_params,
    explained_variance,
    init_critic,
    make_value_update,
    make_values,
    open_critic,
    value_batches,
)
from rlvr_jax.experience import Experience
from rlvr_jax.learner import OptimConfig, make_optimizer, state_of
from rlvr_jax.models import transformer as tf
from rlvr_jax.models.lora import LoraConfig, init_adapters
from rlvr_jax.packing import PackConfig, Sequences
from rlvr_jax.sharding import MeshConfig, make_mesh

MODEL = dataclasses.replace(PLAIN, layers=1)
ONE = make_mesh(MeshConfig(1, 1, 1), jax.devices()[:1])
WHOLE, SPLIT = PackConfig(128, 4096), PackConfig(1, 32)
ROWS, WIDTH = 6, 5
TX = optax.sgd(0.1)


def experience(seed=0) -> Experience:
    rng = np.random.default_rng(seed)
    length_B = np.array([1, 5, 3, 4, 2, 5], np.int32)
    mask_BT = np.arange(WIDTH) < length_B[:, None]
    zeros = np.zeros((ROWS, WIDTH), np.float32)
    prompts = [rng.integers(0, VOCAB, n).tolist() for n in (1, 4, 6)]
    return Experience(
        sequences=Sequences(
            prompts,
            np.repeat(np.arange(3), 2),
            rng.integers(0, VOCAB, (ROWS, WIDTH)).astype(np.int32),
            length_B,
        ),
        mask_BT=mask_BT,
        sampler_logp_BT=zeros,
        old_logp_BT=zeros,
        adv_BT=zeros,
        reward_B=zeros[:, 0],
        correct_B=mask_BT[:, 0],
        value_BT=zeros,
        return_BT=np.where(mask_BT, rng.normal(1.0, 0.3, (ROWS, 1)), 0).astype(np.float32),
    )


def begun(kind, **fields):
    """(config, policy, critic state)."""
    config, policy = CriticConfig(enabled=True, model=kind, **fields), random_params(MODEL)
    return config, policy, init_critic(config, MODEL, policy, TX, ONE)


@pytest.mark.parametrize("kind", ["separate", "head"])
def test_first_values_are_zero_and_the_policy_is_copied(kind):
    config, policy, critic = begun(kind)
    e = experience()
    values = make_values(MODEL, WHOLE, ONE)(critic.params, policy, e.sequences, WIDTH)
    assert values.shape == (ROWS, WIDTH) and not values.any()
    if kind == "head":
        assert set(critic.params) == {"value_head"}
    else:
        np.testing.assert_array_equal(critic.params["embed"], policy["embed"])
        assert "head" not in critic_params(config, MODEL, policy)


def learned(kind, pack=WHOLE, updates=1, **fields):
    config, policy, critic = begun(kind, **fields)
    update = make_value_update(MODEL, config.loss, TX, critic, ONE)
    metrics = []
    for _ in range(updates):
        critic, numbers = update(critic, value_batches(experience(), pack, ONE), policy)
        metrics.append(numbers)
    return jax.tree.map(np.asarray, critic.params), metrics


@pytest.mark.parametrize("kind", ["separate", "head"])
def test_values_approach_the_returns(kind):
    _, metrics = learned(kind, updates=30, value_clip=0.0)
    assert metrics[-1]["value/loss"] < 0.5 * metrics[0]["value/loss"]
    assert metrics[-1]["value/nonfinite"] == 0 and metrics[0]["value/grad_norm"] > 0


def test_every_token_of_a_batch_weighs_the_same():
    e = experience()
    batches = [x for _, x in value_batches(e, SPLIT, ONE)]
    weights = np.concatenate([np.asarray(x.weight_BT)[np.asarray(x.mask_BT)] for x in batches])
    np.testing.assert_allclose(weights, 1 / e.mask_BT.sum(), rtol=1e-6)


def test_several_micro_batches_are_one():
    one, several = learned("separate"), learned("separate", SPLIT)
    for a, b in zip(jax.tree.leaves(one[0]), jax.tree.leaves(several[0]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert one[1][0] == pytest.approx(several[1][0], rel=1e-3, abs=1e-5)


def test_the_clip_holds_values_near_those_of_the_rollout():
    free, held = learned("head", updates=12, value_clip=0.0), learned("head", updates=12)
    assert held[1][-1]["value/clip_frac"] > 0 and free[1][-1]["value/clip_frac"] == 0
    assert free[1][-1]["value/loss"] < held[1][-1]["value/loss"]


def opened(e=None, **fields):
    config = CriticConfig(enabled=True, model="head", **fields)
    state = state_of(random_params(MODEL), make_optimizer(OptimConfig(), 1))
    critic = open_critic(config, MODEL, WHOLE, ONE, state, 5)
    done = critic.learn(experience() if e is None else e, state.params, (0, 1))
    return critic, done


def test_explained_variance():
    """Of unmasked tokens alone; a constant explains nothing, nor does anything explain one."""
    rng = np.random.default_rng(0)
    target, noise = rng.normal(size=(2, 6, 5))
    mask = rng.random((6, 5)) < 0.6
    value = np.where(mask, target + 0.5 * noise, np.inf).astype(np.float32)
    expected = 1 - (0.5 * noise)[mask].var() / target[mask].var()
    assert explained_variance(value, target, mask) == pytest.approx(expected, rel=1e-5)
    assert explained_variance(target, target, mask) == 1
    assert explained_variance(np.full_like(target, 0.3), target, mask) == pytest.approx(0, abs=1e-9)
    assert explained_variance(-target, target, mask) == pytest.approx(-3)
    assert explained_variance(value, np.ones_like(target), mask) == 0
    assert explained_variance(value, target, np.zeros_like(mask)) == 0


def test_what_is_explained_is_told_before_the_updates():
    """By the values of the rollout, whatever the updates on it have made of them since; the reward
    beside the targets, which under lambda < 1 are made of values."""
    e = experience()
    value_BT = np.where(e.mask_BT, 0.5 * e.return_BT, 7).astype(np.float32)
    reward_B = np.linspace(0, 1, ROWS).astype(np.float32)
    e = dataclasses.replace(e, value_BT=value_BT, reward_B=reward_B)
    done = opened(e, epochs=3, minibatches=1)[1]
    assert [d["value/explained_var"] for d in done] == pytest.approx([0.75] * 3, rel=1e-4)
    token_reward = np.repeat(reward_B, e.mask_BT.sum(1))
    error = token_reward - value_BT[e.mask_BT]
    expected = 1 - error.var() / token_reward.var()
    assert done[0]["value/explained_reward"] == pytest.approx(expected, rel=1e-4)


def test_epochs_and_minibatches_count_updates():
    assert len(opened(minibatches=1)[1]) == 1
    assert len(opened()[1]) == 3  # no more than there are prompts
    critic, done = opened(epochs=2, minibatches=3)
    assert len(done) == 6 == int(critic.state.step)


def test_the_optimizer_is_its_own():
    optim = OptimConfig(learning_rate=0.5, schedule="linear")
    done = opened(epochs=2, minibatches=1, optim=optim)[1]
    assert [d["value/lr"] for d in done] == pytest.approx([0.5, 0.45])


def test_a_resumed_stage_brings_its_critic():
    critic, _ = opened()
    state = state_of(random_params(MODEL), make_optimizer(OptimConfig(), 1))
    again = open_critic(
        critic.config, MODEL, WHOLE, ONE, dataclasses.replace(state, critic=critic.state), 5
    )
    assert again.state is critic.state
    assert open_critic(CriticConfig(), MODEL, WHOLE, ONE, state, 5) is None


def adapted(rank=2):
    """A policy that trains adapters, a little way into a stage."""
    policy, lora = random_params(MODEL), LoraConfig(rank=rank, alpha=2.0 * rank)
    adapters = jax.tree.map(lambda x: x + 0.2, init_adapters(lora, policy, jax.random.key(0)))
    state = state_of(adapters, make_optimizer(OptimConfig(), 1))
    return dataclasses.replace(MODEL, lora_scale=lora.scale), dataclasses.replace(
        state, frozen=policy
    )


@pytest.mark.parametrize("kind", ["separate", "head"])
def test_a_critic_beside_adapters(kind):
    """ "separate" is a copy of the base, trained whole; "head" reads what the adapters make."""
    model, state = adapted()
    config = CriticConfig(enabled=True, model=kind, minibatches=1)
    critic = open_critic(config, model, WHOLE, ONE, state, 5)
    assert not any("_lora_" in jax.tree_util.keystr(p) for p, _ in
                   jax.tree_util.tree_leaves_with_path(critic.state.params))  # fmt: skip
    before = jax.tree.map(np.array, (state.params, state.frozen))
    (numbers,) = critic.learn(experience(), state.weights, (0, 1))
    assert numbers["value/nonfinite"] == 0 and numbers["value/grad_norm"] > 0
    after = jax.tree.map(np.array, (state.params, state.frozen))
    assert all(map(np.array_equal, jax.tree.leaves(before), jax.tree.leaves(after)))
    values = [
        critic.scorer(weights)(experience().sequences, WIDTH)
        for weights in (state.weights, state.base)
    ]
    assert np.array_equal(*values) == (kind == "separate")


def test_a_critic_of_a_model_with_everything():
    """Values are the head on the states of any architecture: those that scoring sees."""
    config, policy = CriticConfig(enabled=True), random_params(EVERYTHING)
    critic = init_critic(config, EVERYTHING, policy, TX, ONE)
    assert "head" not in critic.params  # the vocabulary's, which no value needs
    weight = np.linspace(-1, 1, EVERYTHING.width).astype(np.float32)
    head = {"weight": jnp.asarray(weight), "bias": jnp.float32(0.5)}
    e = experience()
    found = make_values(EVERYTHING, SPLIT, ONE)(
        {**critic.params, "value_head": head}, policy, e.sequences, WIDTH
    )
    for b in (1, 4):
        n = int(e.sequences.length_B[b])
        ids = e.sequences.prompts[b // 2] + e.sequences.tokens_BT[b, :n].tolist()
        tokens, positions, allowed = one_row(ids)
        attend = tf.attend_full(EVERYTHING, allowed, positions, lambda k, v: None)
        hidden, _ = tf.forward(EVERYTHING, policy, tokens, positions, attend)
        expected = np.asarray(hidden)[0, -n - 1 : -1] @ weight + 0.5
        np.testing.assert_allclose(found[b, :n], expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "fields", [{"model": "shared"}, {"value_clip": -1.0}, {"warmup_steps": -1}, {"epochs": 0}]
)
def test_impossible_critics_are_refused(fields):
    with pytest.raises(ValueError, match="critic"):
        CriticConfig(**fields)


def test_scores_of_masked_tokens_are_no_part_of_the_loss():
    e = experience()
    junk = np.where(e.mask_BT, e.return_BT, np.float32(np.inf))
    config, policy, critic = begun("head")
    update = make_value_update(MODEL, config.loss, TX, critic, ONE)
    batches = value_batches(dataclasses.replace(e, return_BT=junk), WHOLE, ONE)
    critic, numbers = update(critic, batches, policy)
    assert np.isfinite(numbers["value/loss"]) and numbers["value/nonfinite"] == 0
    assert bool(jnp.isfinite(critic.params["value_head"]["weight"]).all())
