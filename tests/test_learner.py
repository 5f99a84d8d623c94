"""One update: the same for any split and any mesh, guarded, and it learns."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import transformer_oracle as oracle
from tiny_models import PLAIN, VOCAB, random_params

from rlvr_jax.advantages import ADVANTAGES
from rlvr_jax.batch import AdvantageInputs
from rlvr_jax.experience import AggregationConfig, Experience, micro_batches
from rlvr_jax.generate import Address, DecodeConfig, make_sampler
from rlvr_jax.learner import (
    OptimConfig,
    init_state,
    make_optimizer,
    make_schedule,
    make_update,
    restart_optimizer,
)
from rlvr_jax.losses import KL, LOSSES, Objective
from rlvr_jax.masking import AGGREGATIONS
from rlvr_jax.models.lora import LoraConfig, init_adapters
from rlvr_jax.packing import PackConfig, Sequences
from rlvr_jax.sampling import SamplingConfig
from rlvr_jax.sharding import MeshConfig, make_mesh, tree_shardings

MODEL = dataclasses.replace(PLAIN, layers=1)
SAMPLING = SamplingConfig(1.3)
ONE = make_mesh(MeshConfig(1, 1, 1), jax.devices()[:1])
ROWS, GROUP, WIDTH = 8, 2, 6
WHOLE, SPLIT = PackConfig(128, 4096), PackConfig(1, 16)
SGD = optax.sgd(0.01)


@functools.cache
def experience(seed=0, masked_rows=(3,)) -> Experience:
    """Four prompts with two completions each; off-policy log-probs, a row that is not trained."""
    rng = np.random.default_rng(seed)
    length_B = np.array([1, 6, 3, 4, 2, 6, 5, 1], np.int32)
    mask_BT = np.arange(WIDTH) < length_B[:, None]
    mask_BT[list(masked_rows)] = False
    prompts = [rng.integers(0, VOCAB, n).tolist() for n in (1, 5, 8, 3)]
    tokens_BT = rng.integers(0, VOCAB, (ROWS, WIDTH)).astype(np.int32)
    old_BT = np.zeros((ROWS, WIDTH), np.float32)
    for b, n in enumerate(length_B):
        ids = prompts[b // GROUP] + tokens_BT[b, :n].tolist()
        z = oracle.logits(MODEL, random_params(MODEL), ids)[-n - 1 : -1]
        logp = [oracle.log_distribution(r, SAMPLING)[t] for r, t in zip(z, ids[-n:], strict=True)]
        old_BT[b, :n] = logp + rng.normal(size=n) * 0.3  # a little off-policy
    return Experience(
        sequences=Sequences(prompts, np.repeat(np.arange(4), GROUP), tokens_BT, length_B),
        mask_BT=mask_BT,
        sampler_logp_BT=old_BT,
        old_logp_BT=old_BT,
        adv_BT=np.where(mask_BT, rng.normal(size=(ROWS, 1)), 0.0).astype(np.float32),
        reward_B=rng.integers(0, 2, ROWS).astype(np.float32),
        correct_B=rng.integers(0, 2, ROWS).astype(bool),
        ref_logp_BT=old_BT + np.float32(0.3),
    )


OBJECTIVES = {
    "policy gradient": Objective(loss=LOSSES.make("policy_gradient")),
    "clipped, every term": Objective(
        loss=LOSSES.make("clipped", eps_high=3.0),
        kl=KL(place="loss", estimator="k3", coef=0.1),
        entropy_coef=0.01,
        nll_coef=0.1,
        negative_scale=0.5,
    ),
    "gspo": Objective(loss=LOSSES.make("gspo")),
}


def fresh(mesh=ONE, tx=SGD):
    params = random_params(MODEL)
    state = init_state(lambda: jax.tree.map(jnp.zeros_like, params), tx, mesh)
    where = jax.tree.map(lambda a: a.sharding, state.params)
    return dataclasses.replace(state, params=jax.device_put(jax.tree.map(jnp.copy, params), where))


@functools.cache
def built(name, mesh=ONE, tx=SGD):
    return make_update(MODEL, SAMPLING, OBJECTIVES[name], tx, fresh(mesh, tx), mesh)


def updated(name, mode="token_mean", pack=WHOLE, mesh=ONE, e=None):
    """(parameters, metrics, number of micro-batches) after one update."""
    aggregation = AggregationConfig(mode, 7 if mode == "const" else 0)
    e = experience() if e is None else e
    batches = list(micro_batches(e, aggregation, pack, mesh, OBJECTIVES[name]))
    state, metrics = built(name, mesh)(fresh(mesh), batches)
    return jax.tree.map(np.asarray, state.params), metrics, len(batches)


def same(a, b, atol=1e-6):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=atol)


CASES = [("clipped, every term", mode) for mode in AGGREGATIONS]
CASES += [("policy gradient", "token_mean"), ("gspo", "seq_mean_token_mean")]


@pytest.mark.parametrize(("name", "mode"), CASES)
def test_any_number_of_micro_batches_is_one(name, mode):
    one, metrics, count = updated(name, mode)
    several, split_metrics, split = updated(name, mode, SPLIT)
    assert count == 1 and split >= 4
    same(one, several)
    assert metrics == pytest.approx(split_metrics, rel=1e-3, abs=1e-5)
    moved = jax.tree.map(lambda a, b: np.abs(a - b).max(), one, random_params(MODEL))
    assert min(jax.tree.leaves(moved)) > 1e-5


def test_aggregations_differ():
    results = [updated("clipped, every term", mode)[0]["embed"] for mode in AGGREGATIONS]
    for i, a in enumerate(results):
        assert all(np.abs(a - b).max() > 1e-4 for b in results[:i])


@pytest.mark.parametrize("shape", [(8, 1, 1), (2, 2, 2), (1, 4, 2)])
def test_any_mesh_is_one_device(shape):
    mesh = make_mesh(MeshConfig(*shape))
    name, mode = "clipped, every term", "prompt_token_mean"
    one, metrics, _ = updated(name, mode)
    many, many_metrics, _ = updated(name, mode, SPLIT, mesh)
    same(one, many, atol=3e-6)
    assert metrics == pytest.approx(many_metrics, rel=1e-3, abs=1e-5)


def test_a_masked_row_takes_no_part():
    """Whatever it holds, infinities included."""
    e = experience()
    row = np.arange(ROWS)[:, None] == 3
    junk = {
        name: np.where(row, np.float32(np.inf), getattr(e, name))
        for name in ("old_logp_BT", "sampler_logp_BT", "ref_logp_BT", "adv_BT")
    }
    name = "clipped, every term"
    plain, metrics, _ = updated(name)
    other, junk_metrics, _ = updated(name, e=dataclasses.replace(e, **junk))
    same(plain, other, atol=0)
    assert metrics == junk_metrics


@pytest.mark.parametrize("name", ["policy gradient", "clipped, every term", "gspo"])
def test_a_batch_without_trained_tokens_moves_nothing(name):
    e = experience(masked_rows=tuple(range(ROWS)))
    params, metrics, _ = updated(name, "seq_mean_token_mean", e=e)
    same(params, random_params(MODEL), atol=0)
    assert metrics["policy/grad_norm"] == 0 and np.isfinite(list(metrics.values())).all()


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_a_gradient_that_is_not_finite_moves_only_the_counters(bad):
    e, update = experience(), _guarded()
    broken = dataclasses.replace(e, adv_BT=np.where(e.mask_BT, np.float32(bad), 0))
    state = fresh(tx=_adam())
    before = jax.tree.map(np.array, (state.params, state.opt_state))
    aggregation = AggregationConfig()
    run = functools.partial(micro_batches, aggregation=aggregation, pack_config=WHOLE, mesh=ONE)
    objective = OBJECTIVES["policy gradient"]
    for i in (1, 2):
        state, metrics = update(state, run(broken, objective=objective))
        same((state.params, state.opt_state), before, atol=0)
        assert (int(state.step), int(state.bad_steps)) == (i, i)
        assert metrics["health/nonfinite"] == 1
    state, metrics = update(state, run(e, objective=objective))
    assert (int(state.step), int(state.bad_steps)) == (3, 0) and metrics["health/nonfinite"] == 0
    assert np.abs(np.asarray(state.params["embed"]) - before[0]["embed"]).max() > 0
    assert update.compiles() <= 2  # one gradient, one step: nothing was compiled for the second


@functools.cache
def _adam():
    return make_optimizer(OptimConfig(learning_rate=1e-2), 10)


@functools.cache
def _guarded():
    return make_update(
        MODEL, SAMPLING, OBJECTIVES["policy gradient"], _adam(), fresh(tx=_adam()), ONE
    )


def test_equal_shapes_compile_once():
    """Three steps of several micro-batches: a first gradient, one that adds, one step."""
    update, state = _guarded(), fresh(tx=_adam())
    objective = OBJECTIVES["policy gradient"]
    counts = []
    for seed in range(3):
        batches = micro_batches(experience(seed), AggregationConfig(), SPLIT, ONE, objective)
        state, _ = update(state, batches)
        counts.append(update.compiles())
    assert counts[0] == counts[2]


# The optimizer and the state.


def one_step(tx, grads, params):
    return jax.jit(lambda g, p: tx.update(g, tx.init(p), p))(grads, params)


def test_weight_decay_skips_vectors():
    tx = make_optimizer(OptimConfig(learning_rate=0.1, weight_decay=0.5), 10)
    config = dataclasses.replace(
        MODEL, attn=dataclasses.replace(MODEL.attn, qkv_bias=True, qk_norm=True)
    )
    params = random_params(config) | {"value_head": {"weight": jnp.ones(4), "bias": jnp.ones(())}}
    zero = jax.tree.map(jnp.zeros_like, params)
    updates, _ = one_step(tx, zero, params)
    for path, u in jax.tree_util.tree_leaves_with_path(updates):
        name = path[-1].key
        decayed = name in ("embed", "q", "k", "v", "o", "gate", "up", "down")
        assert bool(np.any(u)) == decayed, name
    np.testing.assert_allclose(updates["embed"], -0.05 * params["embed"], rtol=1e-5)


def test_clipping_is_by_the_norm_of_all_parameters():
    params = {"a": jnp.zeros((3, 3)), "b": jnp.zeros((3, 3))}
    grads = jax.tree.map(lambda x: x + 10.0, params)
    for clip, scale in ((1.0, 1.0), (0.0, np.sqrt(1800.0))):
        tx = make_optimizer(OptimConfig(clip_norm=clip, beta1=0.0, beta2=0.0, eps=1e3), 1)
        updates, _ = one_step(tx, grads, params)
        g = scale / np.sqrt(18)
        np.testing.assert_allclose(updates["a"], -1e-3 * g / (g + 1e3), rtol=1e-4)


def test_schedules_by_their_values():
    lr = dict(learning_rate=1.0, warmup_steps=4)
    at = {
        "constant": [0, 0.5, 1, 1, 1],
        "linear": [0, 0.5, 1, 0.55, 0.1],
        "cosine": [0, 0.5, 1, 0.55, 0.1],
    }
    for name, expected in at.items():
        s = make_schedule(OptimConfig(schedule=name, final_scale=0.1, **lr), 12)
        np.testing.assert_allclose(s(np.array([0, 2, 4, 8, 12])), expected, atol=1e-6)
    assert make_schedule(OptimConfig(learning_rate=0.3), 5)(0) == pytest.approx(0.3)


@pytest.mark.parametrize(
    "fields",
    [{"schedule": "step"}, {"beta1": 1.0}, {"beta2": np.nan}, {"eps": 0.0}]
    + [{name: value} for name in ("learning_rate", "clip_norm") for value in (-1.0, np.nan, np.inf)]
    + [{"weight_decay": -0.1}, {"final_scale": np.nan}, {"warmup_steps": -1}],
)
def test_impossible_optimizers_are_refused(fields):
    with pytest.raises(ValueError, match="optim"):
        OptimConfig(**fields)


def test_every_leaf_has_a_rule_and_moments_inherit_it():
    mesh = make_mesh(MeshConfig(2, 2, 2))
    state = fresh(mesh, _adam())
    specs = {
        jax.tree_util.keystr(path): leaf.spec
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree_shardings(state, mesh))
    }
    for field in ("mu", "nu"):
        (moments,) = [getattr(s, field) for s in jax.tree.leaves(
            state.opt_state, is_leaf=lambda x: hasattr(x, "mu")) if hasattr(s, "mu")]  # fmt: skip
        jax.tree.map(lambda m, p: _equal(m.sharding, p.sharding), moments, state.params)
    assert len(specs) == len(jax.tree.leaves(state))
    assert any(spec for spec in specs.values())


def _equal(a, b):
    assert a == b


def test_a_new_stage_keeps_the_parameters_and_forgets_the_rest():
    state = fresh(tx=_adam())
    objective = OBJECTIVES["policy gradient"]
    state, _ = _guarded()(
        state, micro_batches(experience(), AggregationConfig(), WHOLE, ONE, objective)
    )
    kept = jax.tree.map(np.array, state.params)
    again = restart_optimizer(state, _adam(), ONE)
    same(again.params, kept, atol=0)
    assert int(again.step) == 0
    assert not any(np.any(x) for x in jax.tree.leaves(again.opt_state))


def bandit(rank, tx):
    """(model, state): a policy that hardly prefers anything; adapters are trained if rank > 0."""
    params = jax.tree.map(lambda x: 0.2 * x, random_params(MODEL))
    if not rank:
        return MODEL, dataclasses.replace(fresh(tx=tx), params=params)
    # The head is frozen and tied to the embedding: with 0.2 it could not say anything clearly.
    params = random_params(MODEL) | {"embed": 0.5 * random_params(MODEL)["embed"]}
    lora = LoraConfig(rank=rank, alpha=16.0)
    state = init_state(lambda: init_adapters(lora, params, jax.random.key(0)), tx, ONE)
    model = dataclasses.replace(MODEL, lora_scale=lora.scale)
    return model, dataclasses.replace(state, frozen=params)


@pytest.mark.parametrize("rank", [0, 4], ids=["all", "adapters"])
def test_a_bandit_learns(rank):
    """Reward 1 for token 5, whatever the prompt: GRPO finds it within 20 updates."""
    tx = make_optimizer(OptimConfig(learning_rate=0.03), 20)
    objective, sampling = Objective(loss=LOSSES.make("clipped")), SamplingConfig()
    model, state = bandit(rank, tx)
    sampler = make_sampler(model, DecodeConfig(4, 1, 1), sampling, (0,))
    update = make_update(model, sampling, objective, tx, state, ONE)
    prompts, history = [[1, 2], [3, 4], [6, 7], [8, 9]], []
    for step in range(20):
        s = sampler(state.weights, prompts, range(4), 16, Address(0, 0, step))
        reward_B = (s.tokens_BT[:, 0] == 5).astype(np.float32)
        history.append(reward_B.mean())
        mask_BT = np.ones((64, 1), bool)
        adv_BT = ADVANTAGES.make("group")(
            AdvantageInputs(
                reward_NG=jnp.asarray(reward_B.reshape(4, 16)),
                valid_NG=jnp.ones((4, 16), bool),
                mask_BT=jnp.asarray(mask_BT),
            )
        )
        e = Experience(
            sequences=Sequences(prompts, np.repeat(np.arange(4), 16), s.tokens_BT, s.length_B),
            mask_BT=mask_BT,
            sampler_logp_BT=s.logp_BT,
            old_logp_BT=s.logp_BT,
            adv_BT=np.asarray(adv_BT),
            reward_B=reward_B,
            correct_B=reward_B > 0,
        )
        state, metrics = update(state, micro_batches(e, AggregationConfig(), WHOLE, ONE, objective))
        assert metrics["policy/ratio_max"] == pytest.approx(1.0, abs=1e-4)
        assert metrics["mismatch/abs_max"] < 1e-4
    assert np.mean(history[:3]) < 0.4 and np.mean(history[-3:]) > 0.9
