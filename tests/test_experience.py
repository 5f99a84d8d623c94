"""From judged rollouts to micro-batches: nothing lost, nothing doubled, addresses respected."""

import dataclasses

import jax
import numpy as np
import pytest
from tiny_models import VOCAB

from rlvr_jax.advantages import ADVANTAGES
from rlvr_jax.experience import (
    AggregationConfig,
    Experience,
    LearnerConfig,
    make_experience,
    micro_batches,
    minibatches,
)
from rlvr_jax.losses import KL, LOSSES, Objective
from rlvr_jax.masking import AGGREGATIONS, token_weights
from rlvr_jax.packing import PackConfig, Sequences
from rlvr_jax.rollout import Judged
from rlvr_jax.sharding import MeshConfig, make_mesh
from rlvr_jax.slots import Samples
from rlvr_jax.types import Completion, Problem, Verdict

N, G, T = 6, 4, 8
SMALL = PackConfig(16, 64, "rows")
MESH = make_mesh(MeshConfig(2, 2, 2))
OBJECTIVE = Objective(loss=LOSSES.make("policy_gradient"))


def experience(**fields) -> Experience:
    rng = np.random.default_rng(0)
    length_B = rng.integers(1, T + 1, N * G).astype(np.int32)
    mask_BT = np.arange(T) < length_B[:, None]
    prompts = [rng.integers(0, VOCAB, n + 1).tolist() for n in range(N)]
    random_BT = rng.normal(size=(4, N * G, T)).astype(np.float32)
    given = {
        "sequences": Sequences(
            prompts,
            np.repeat(np.arange(N), G),
            rng.integers(0, VOCAB, (N * G, T)).astype(np.int32),
            length_B,
        ),
        "mask_BT": mask_BT,
        "sampler_logp_BT": random_BT[0],
        "old_logp_BT": random_BT[1],
        "adv_BT": random_BT[2],
        "reward_B": np.arange(N * G, dtype=np.float32),
        "correct_B": rng.integers(0, 2, N * G).astype(bool),
        "ref_logp_BT": random_BT[3],
    }
    return Experience(**given | fields)


def order_of(parts):
    return [part.reward_B.astype(int).tolist() for part in parts]


def test_minibatches_partition_the_prompts_and_keep_groups_whole():
    parts = list(minibatches(experience(), LearnerConfig(minibatches=4, epochs=2), (0, 1)))
    assert len(parts) == 8
    for epoch in (parts[:4], parts[4:]):
        rows = sum(order_of(epoch), [])
        assert sorted(rows) == list(range(N * G))
        for part in order_of(epoch):
            assert {b // G for b in part} == {b // G for b in part if b % G == 0}
            assert len(part) % G == 0 and len(part) >= G
    for part in parts:
        b = part.reward_B.astype(int)
        whole = experience()
        for name in ("mask_BT", "adv_BT", "old_logp_BT", "ref_logp_BT", "correct_B"):
            np.testing.assert_array_equal(getattr(part, name), getattr(whole, name)[b])
        np.testing.assert_array_equal(part.sequences.tokens_BT, whole.sequences.tokens_BT[b])
        np.testing.assert_array_equal(part.sequences.prompt_of_B, b // G)


def test_the_shuffle_is_addressed():
    two = LearnerConfig(minibatches=3, epochs=2)
    first = order_of(minibatches(experience(), two, (5, 7)))
    assert first == order_of(minibatches(experience(), two, (5, 7)))
    assert first[:3] != first[3:]  # epochs differ
    assert first != order_of(minibatches(experience(), two, (5, 8)))
    assert first != order_of(minibatches(experience(), two, (6, 7)))
    assert first[:3] == order_of(minibatches(experience(), LearnerConfig(minibatches=3), (5, 7)))


def test_more_minibatches_than_prompts_are_one_a_prompt():
    parts = order_of(minibatches(experience(), LearnerConfig(minibatches=50), (0, 1)))
    assert len(parts) == N and all(len(p) == G for p in parts)


def test_one_minibatch_is_everything_every_epoch():
    parts = list(minibatches(experience(), LearnerConfig(epochs=3), (0, 1)))
    assert len(parts) == 3 and all(len(p.reward_B) == N * G for p in parts)


def collected(e, aggregation, pack=SMALL, objective=OBJECTIVE):
    """The LossInputs of all micro-batches, rows that are no padding, in order of reward."""
    parts = [jax.device_get(x) for _, x in micro_batches(e, aggregation, pack, MESH, objective)]
    rows = [np.flatnonzero(x.mask_BT.any(1)) for x in parts]
    out = {
        f.name: np.concatenate([getattr(x, f.name)[r] for x, r in zip(parts, rows, strict=True)])
        for f in dataclasses.fields(parts[0])
        if getattr(parts[0], f.name) is not None
    }
    order = np.argsort(out["reward_B"])
    return {name: a[order] for name, a in out.items()}, parts


@pytest.mark.parametrize("mode", AGGREGATIONS)
def test_weights_are_those_of_the_whole_minibatch(mode):
    e = experience()
    aggregation = AggregationConfig(mode, 20 if mode == "const" else 0)
    out, parts = collected(e, aggregation)
    assert len(parts) > 2
    expected = token_weights(
        e.mask_BT, mode, group_B=np.repeat(np.arange(N), G), num_groups=N, length_limit=20
    )
    np.testing.assert_allclose(out["weight_BT"], expected, rtol=1e-6)
    assert not any(x.weight_BT[~x.mask_BT].any() for x in parts)


def test_micro_batches_hold_every_row_once_and_zeros_elsewhere():
    e = experience()
    out, parts = collected(e, AggregationConfig())
    for name in ("old_logp_BT", "sampler_logp_BT", "adv_BT", "ref_logp_BT", "mask_BT"):
        np.testing.assert_array_equal(out[name], getattr(e, name))
    np.testing.assert_array_equal(out["correct_B"], e.correct_B)
    for x in parts:
        unused = ~x.mask_BT.any(1)
        assert not x.old_logp_BT[unused].any() and not x.reward_B[unused].any()
        assert x.mask_BT.dtype == bool and x.mask_BT.shape[0] % 4 == 0


def test_fields_come_only_where_something_reads_them():
    e = experience(ref_logp_BT=None)
    out, _ = collected(e, AggregationConfig())
    assert {"ref_logp_BT", "nll_weight_BT", "picked_BT"}.isdisjoint(out)
    out, _ = collected(e, AggregationConfig(), objective=dataclasses.replace(OBJECTIVE, nll_coef=1))
    chosen = e.mask_BT & e.correct_B[:, None]
    np.testing.assert_allclose(out["nll_weight_BT"], chosen / chosen.sum(), rtol=1e-6)


@pytest.mark.parametrize("loss", ["clip_cov", "kl_cov"])
def test_covariance_losses_pick_from_the_whole_minibatch(loss):
    """The picked tokens of a split batch are those of the batch as one."""
    fields = {"share": 0.1} | ({"cov_low": 0.01, "cov_high": 9.0} if loss == "clip_cov" else {})
    objective = Objective(loss=LOSSES.make(loss, **fields))
    split, parts = collected(experience(), AggregationConfig(), objective=objective)
    whole, one = collected(
        experience(), AggregationConfig(), PackConfig(512, 4096, "rows"), objective=objective
    )
    assert len(one) == 1 < len(parts) and split["picked_BT"].any()
    np.testing.assert_array_equal(split["picked_BT"], whole["picked_BT"])


def test_ranking_by_entropies_nobody_recorded_is_refused():
    objective = dataclasses.replace(OBJECTIVE, top_entropy=0.2)
    with pytest.raises(ValueError, match="top_entropy"):
        list(micro_batches(experience(), AggregationConfig(), PackConfig(), MESH, objective))


@pytest.mark.parametrize(
    "fields", [{"minibatches": 0}, {"epochs": 0}, {"max_bad_updates": 0}, {"old_logp": "guess"}]
)
def test_impossible_settings_are_refused(fields):
    with pytest.raises(ValueError):
        LearnerConfig(**fields)


# From the rollout to the experience.


def judged(rewards, unknown=()) -> tuple[Judged, np.ndarray]:
    """Two prompts with two completions of 3 tokens; the mask without the rows not judged."""
    verdicts = [
        Verdict(status="unknown") if b in unknown else Verdict(status="scored", score=r)
        for b, r in enumerate(rewards)
    ]
    samples = Samples(
        tokens_BT=np.full((4, 3), 5, np.int32),
        logp_BT=np.full((4, 3), -1.0, np.float32),
        forced_BT=np.zeros((4, 3), bool),
        length_B=np.full(4, 3, np.int32),
        eos_B=np.ones(4, bool),
        decode_steps=3,
        decode_rows=12,
    )
    j = Judged(
        problems=[Problem(prompt="p", answer="", index=i) for i in range(2)],
        prompts=[[1], [2, 3]],
        group=2,
        samples=samples,
        completions=[Completion(text="x")] * 4,
        verdicts=verdicts,
    )
    mask_BT = np.zeros((4, 4), bool)
    mask_BT[:, :3] = j.valid_NG.reshape(-1, 1)
    return j, mask_BT


def test_log_probs_come_from_where_they_should():
    j, mask_BT = judged([1, 0, 1, 0])
    asked = []

    def scorer(value):
        def run(sequences, width):
            asked.append((sequences.tokens_BT.shape, width))
            return np.full((4, width), value, np.float32)

        return run

    group = ADVANTAGES.make("group")
    own, metrics = make_experience(j, mask_BT, group, KL())
    np.testing.assert_array_equal(own.old_logp_BT, own.sampler_logp_BT)
    assert own.ref_logp_BT is None and not asked
    assert own.old_logp_BT.shape == (4, 4) and not own.old_logp_BT[:, 3].any()
    e, _ = make_experience(j, mask_BT, group, KL(), scorer(-2.0), scorer(-3.0))
    assert e.old_logp_BT[0, 0] == -2 and e.ref_logp_BT[0, 0] == -3 and e.sampler_logp_BT[0, 0] == -1
    assert asked == [((4, 4), 4)] * 2
    assert metrics["adv/max"] > 0 > metrics["adv/min"] and metrics["data/tokens"] == 12


def test_kl_in_the_reward_reaches_the_advantages():
    j, mask_BT = judged([1, 1, 0, 0])

    def at(value, sequences, width):
        return np.full((4, width), value, np.float32) * np.arange(1, 5)[:, None]

    rloo = ADVANTAGES.make("rloo")
    kl = KL(place="reward", estimator="k1", coef=0.1)
    ref = lambda s, w: at(-1.0, s, w)  # noqa: E731
    e, _ = make_experience(j, mask_BT, rloo, kl, None, ref)
    # row b pays 0.1 * 3 tokens * (-1 + (b + 1)); its advantage is against the other of the group
    np.testing.assert_allclose(e.adv_BT[:, 0], [0.3, -0.3, 0.3, -0.3], rtol=1e-5)
    plain, _ = make_experience(j, mask_BT, rloo, KL())
    assert not plain.adv_BT.any()


def test_kl_in_the_reward_is_that_of_the_old_policy_not_of_the_sampler():
    j, mask_BT = judged([1, 1, 0, 0])

    def at(value):
        return lambda sequences, width: np.full((4, width), value, np.float32)

    kl, constant = KL(place="reward", estimator="k1", coef=0.1), ADVANTAGES.make("constant")
    e, metrics = make_experience(j, mask_BT, constant, kl, at(-2.0), at(-3.0))
    # 3 tokens, each log pi_old - log pi_ref = 1 (the sampler's -1 would make it 2)
    np.testing.assert_allclose(e.adv_BT[:, 0], [0.7, 0.7, -0.3, -0.3], rtol=1e-5)
    assert metrics["adv/mean"] == pytest.approx(0.2) and metrics["adv/std"] == pytest.approx(0.5)


def test_a_completion_that_could_not_be_judged_is_in_no_mean():
    j, mask_BT = judged([1, 0, 1, 0], unknown=(3,))
    e, _ = make_experience(j, mask_BT, ADVANTAGES.make("group", std="none"), KL())
    np.testing.assert_allclose(e.adv_BT[:, 0], [0.5, -0.5, 0, 0])
    x, _ = collected(e, AggregationConfig("seq_mean_token_mean"))
    assert len(x["weight_BT"]) == 3
    np.testing.assert_allclose(x["weight_BT"].sum(), 1.0, rtol=1e-6)
    np.testing.assert_allclose(x["weight_BT"][0, 0], 1 / 9, rtol=1e-6)


def test_without_a_single_verdict_there_is_nothing_to_learn():
    j, mask_BT = judged([0, 0, 0, 0], unknown=(0, 1, 2, 3))
    e, metrics = make_experience(j, mask_BT, ADVANTAGES.make("group"), KL())
    assert not e.adv_BT.any() and metrics["data/tokens"] == 0
    assert all(np.isfinite(v) for v in metrics.values())
