"""What the methods add around the loss: shaping, curriculum, controllers, references, memory.

Every knob has a test in which changing it changes the batch, the reward or a coefficient.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlvr_jax import controllers
from rlvr_jax.advantages import ADVANTAGES
from rlvr_jax.advantages.shaping import cosine_length, kimi_length, soft_overlong
from rlvr_jax.controllers import EntropyConfig, KLControlConfig
from rlvr_jax.curriculum import Curriculum, CurriculumConfig
from rlvr_jax.experience import Experience, Extras, make_experience
from rlvr_jax.learner import OptimConfig, make_optimizer, reset_moments, state_of
from rlvr_jax.losses import KL, LOSSES, Objective
from rlvr_jax.memory import account, size
from rlvr_jax.packing import Sequences
from rlvr_jax.reference import Reference, ReferenceConfig
from rlvr_jax.rollout import Judged, RolloutConfig
from rlvr_jax.shaping import ShapingConfig, shaped, shaping_metrics
from rlvr_jax.slots import Samples
from rlvr_jax.types import Completion, Problem, Verdict

GROUP, LIMIT = 3, 10


def judged(scores=(1, 0, 1, 0, 0, 0), lengths=(2, 10, 9, 4, 8, 6), status=None, parts=None):
    """Two prompts of three; a score of 1 is right."""
    count = len(scores)
    length_B = np.array(lengths, np.int32)
    width = int(length_B.max())
    inside_BT = np.arange(width) < length_B[:, None]
    status = status or ["scored" if s else "wrong" for s in scores]
    parts = parts or [{}] * count
    rows = zip(status, scores, parts, strict=True)
    return Judged(
        problems=[Problem(prompt=f"p{i}", answer="", index=7 + i) for i in range(count // GROUP)],
        prompts=[[1, 2]] * (count // GROUP),
        group=GROUP,
        samples=Samples(
            tokens_BT=np.where(inside_BT, 3, 0),
            logp_BT=np.where(inside_BT, np.float32(-1), np.float32(0)),
            forced_BT=np.zeros_like(inside_BT),
            length_B=length_B,
            eos_B=np.ones(count, bool),
            decode_steps=width,
            decode_rows=count,
        ),
        completions=[Completion(text="", num_tokens=int(n)) for n in lengths],
        verdicts=[Verdict(status=a, score=float(s), parts=p) for a, s, p in rows],
    )


def mask_of(j):
    return np.arange(j.samples.tokens_BT.shape[1]) < j.samples.length_B[:, None]


# Shaping.


def score(config, step=1, **fields):
    return shaped(judged(**fields), config, LIMIT, step).reward_NG.reshape(-1)


def test_nothing_is_shaped_by_default():
    j = judged()
    assert shaped(j, ShapingConfig(), LIMIT, 1) is j and shaping_metrics(j) == {}


def test_soft_overlong_is_the_papers_in_tokens():
    plain, length = judged().reward_NG.reshape(-1), judged().samples.length_B
    for share, scale in ((0.4, 1.0), (0.4, 0.1), (0.2, 1.0)):
        config = ShapingConfig(soft_overlong=share, soft_overlong_scale=scale)
        expected = plain + scale * soft_overlong(length, LIMIT, round(share * LIMIT))
        np.testing.assert_allclose(score(config), expected, rtol=1e-6)
    assert score(ShapingConfig(soft_overlong=0.4)).tolist() != plain.tolist()


def test_kimi_length_waits_for_its_warm_up():
    config = ShapingConfig(kimi_length=0.5, kimi_after=3)
    plain, j = judged().reward_NG, judged()
    assert score(config, 3).tolist() == plain.reshape(-1).tolist()
    term_NG = kimi_length(j.samples.length_B.reshape(-1, GROUP), j.correct_NG)
    np.testing.assert_allclose(score(config, 4), (plain + 0.5 * term_NG).reshape(-1), rtol=1e-6)


def test_the_last_token_is_punished_however_short_the_buffer():
    found = score(ShapingConfig(soft_overlong=0.01)) - judged().reward_NG.reshape(-1)
    assert found.tolist() == [0, -1, 0, 0, 0, 0]  # the one answer of 10 tokens


def test_overlong_punishment_comes_on_top_of_the_cosine():
    both = score(ShapingConfig(cosine_length=True, soft_overlong=0.4))
    punished = score(ShapingConfig(soft_overlong=0.4)) - judged().reward_NG.reshape(-1)
    np.testing.assert_allclose(both, score(ShapingConfig(cosine_length=True)) + punished, rtol=1e-6)


def test_cosine_takes_the_place_of_the_reward():
    j = judged()
    expected = cosine_length(j.samples.length_B, j.correct_NG.reshape(-1), LIMIT)
    np.testing.assert_allclose(score(ShapingConfig(cosine_length=True)), expected, rtol=1e-6)


def test_shaping_changes_neither_what_is_right_nor_what_is_unknown():
    status = ["scored", "wrong", "scored", "unknown", "wrong", "wrong"]
    config = ShapingConfig(soft_overlong=1.0, soft_overlong_scale=5.0)
    before = judged(status=status)
    after = shaped(before, config, LIMIT, 1)
    assert (after.correct_NG == before.correct_NG).all()
    assert (after.valid_NG == before.valid_NG).all() and after.verdicts[3] == before.verdicts[3]
    metrics = shaping_metrics(after)
    assert metrics["reward/length"] < 0 and metrics["reward/shaped"] < 0.4


@pytest.mark.parametrize("fields", [{"soft_overlong": 1.5}, {"kimi_length": -1.0}])
def test_impossible_shaping_is_refused(fields):
    with pytest.raises(ValueError, match="shaping"):
        ShapingConfig(**fields)


# Curriculum.


def chooser(**fields):
    fields = {"min_samples": 3, "retire_at": 0.6} | fields
    return Curriculum(CurriculumConfig(**fields), {}, seed=0)


def test_solved_prompts_are_retired_once_enough_is_known():
    c, problems = chooser(), judged().problems
    assert all(c.admits(i, p) for i, p in enumerate(problems))
    c.remember(judged())  # 2 of 3 right, 0 of 3 right
    assert c.pool == {"7": [3, 2], "8": [3, 0]}
    assert [c.admits(0, p) for p in problems] == [False, True]
    c.remember(judged((0, 0, 0, 0, 0, 0)))
    assert [c.admits(0, p) for p in problems] == [True, True]  # 2 of 6
    patient = Curriculum(CurriculumConfig(retire_at=0.1, min_samples=7), c.pool, 0)
    assert patient.admits(0, problems[0])


def test_a_prompt_at_the_bar_is_retired():
    at = Curriculum(CurriculumConfig(retire_at=0.6, min_samples=5), {"7": [5, 3], "8": [5, 2]}, 0)
    assert [at.admits(0, p) for p in judged().problems] == [False, True]


def test_hopeless_prompts_may_be_left_out_too():
    c = chooser(retire_below=0.1)
    c.remember(judged())
    assert [c.admits(0, p) for p in judged().problems] == [False, False]


def test_priority_is_the_failure_rate_and_repeats():
    c = chooser(retire_at=None, prioritised=True)
    c.remember(judged())
    first, second = judged().problems
    taken = [c.admits(i, first) for i in range(600)]
    assert sum(taken) / 600 == pytest.approx(1 / 3, abs=0.06)
    assert taken == [c.admits(i, first) for i in range(600)]
    assert all(c.admits(i, second) for i in range(50))


def test_unjudged_samples_do_not_count():
    c = chooser()
    c.remember(judged(status=["unknown"] * 3 + ["scored", "wrong", "wrong"]))
    assert c.pool == {"7": [0, 0], "8": [3, 0]}


def test_a_curriculum_that_is_off_says_so():
    assert not CurriculumConfig().active and CurriculumConfig(prioritised=True).active
    with pytest.raises(ValueError, match="curriculum"):
        CurriculumConfig(retire_at=0.1, retire_below=0.2)


# Staged lengths.


def test_the_limit_grows_by_stages():
    config = RolloutConfig(limits=(8, 16, 24), limit_steps=(2, 5))
    assert [config.limit_at(s) for s in range(1, 8)] == [8, 8, 16, 16, 16, 24, 24]
    assert RolloutConfig().limit_at(3) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"limits": (8, 16)},
        {"limits": (8, 16, 24), "limit_steps": (5, 2)},
        {"limits": (0,)},
        {"drop_unanimous": True, "dynamic_sampling": True},
        {"drop_unanimous": True, "group": 1},
    ],
)
def test_impossible_rollouts_are_refused(fields):
    with pytest.raises(ValueError, match="rollout"):
        RolloutConfig(**fields)


# Controllers.


def experience(entropy=0.3, drift=0.5):
    mask_BT = np.array([[True, True, True], [True, False, False]])
    zeros = np.zeros((2, 3), np.float32)
    return Experience(
        sequences=Sequences([[1]], np.zeros(2, int), np.zeros((2, 3), int), np.array([3, 1])),
        mask_BT=mask_BT,
        sampler_logp_BT=zeros,
        old_logp_BT=zeros - 1,
        adv_BT=zeros,
        reward_B=zeros[:, 0],
        correct_B=mask_BT[:, 1],
        ref_logp_BT=zeros - 1 - np.float32(drift),
        entropy_BT=np.where(mask_BT, np.float32(entropy), np.float32(99)),
    )


def test_the_kl_coefficient_follows_the_divergence_of_sequences():
    assert controllers.sequence_kl(experience(drift=0.5)) == pytest.approx(0.5 * (3 + 1) / 2)
    config = KLControlConfig(target=1.1, horizon=10.0)
    grown = controllers.next_kl(config, 0.1, experience(drift=0.5))
    assert grown == pytest.approx(0.1 * (1 + (1 / 1.1 - 1) * 2 / 10), rel=1e-5)
    assert controllers.next_kl(KLControlConfig(2.0, 10.0), 0.1, experience(drift=0.5)) < grown
    assert controllers.next_kl(KLControlConfig(1.1, 99.0), 0.1, experience(drift=0.5)) > grown
    assert controllers.next_kl(KLControlConfig(), 0.1, experience()) == 0.1


def test_the_entropy_coefficient_is_there_while_entropy_is_short():
    """The example of the specification: H = .5, .19, .15, .25 -> off, 1e-4, 2e-4, off."""
    config, carried, used = EntropyConfig(target=0.2, step=1e-4), 0.0, []
    for entropy in (0.5, 0.19, 0.15, 0.25):
        carried, now = controllers.next_entropy(config, carried, experience(entropy))
        used.append(now)
    assert used == pytest.approx([0, 1e-4, 2e-4, 0], abs=1e-9)
    assert carried == pytest.approx(1e-4)
    assert controllers.next_entropy(EntropyConfig(coef=0.3), 0.0, experience()) == (0.0, 0.3)


def test_controllers_look_at_trained_rows_alone():
    whole = experience(drift=0.5)
    first = dataclasses.replace(whole, mask_BT=whole.mask_BT & [[True], [False]])
    none = dataclasses.replace(whole, mask_BT=whole.mask_BT & False)
    assert controllers.sequence_kl(first) == pytest.approx(1.5)
    assert controllers.sequence_kl(none) == 0
    config = KLControlConfig(target=1.4, horizon=10.0)
    assert controllers.next_kl(config, 0.1, first) == pytest.approx(
        0.1 * (1 + (1.5 / 1.4 - 1) * 1 / 10), rel=1e-5
    )
    entropy = EntropyConfig(target=0.2, step=1e-4)
    assert controllers.next_entropy(entropy, 2e-4, none) == (pytest.approx(1e-4), 0.0)


def test_coefficients_are_arguments_only_where_something_moves():
    objective = Objective(loss=LOSSES.make("clipped"), kl=KL("loss", "k3", 0.1))
    none = controllers.coefs(objective, EntropyConfig(), KLControlConfig(), 0.1, 0.0)
    moving = controllers.coefs(objective, EntropyConfig(), KLControlConfig(target=1.0), 0.2, 0.0)
    assert none is None and moving.kl == np.float32(0.2) and moving.entropy == 0
    in_reward = dataclasses.replace(objective, kl=KL("reward", "k1", 0.1))
    held = controllers.coefs(in_reward, EntropyConfig(target=0.2), KLControlConfig(), 0.1, 0.003)
    assert held.kl == 0 and held.entropy == np.float32(0.003)


@pytest.mark.parametrize(
    "make",
    [
        lambda: EntropyConfig(coef=0.1, target=0.2),
        lambda: EntropyConfig(target=-1.0),
        lambda: KLControlConfig(target=0.0),
        lambda: ReferenceConfig(mode="frosen"),
        lambda: ReferenceConfig(mode="ema", decay=1.0),
    ],
)
def test_impossible_settings_are_refused(make):
    with pytest.raises(ValueError):
        make()


# Advantages that need more than the rewards.


def made(advantage, j=None, **extras):
    j = j or judged()
    return make_experience(j, mask_of(j), advantage, KL(), extras=Extras(**extras))[0]


def test_remax_compares_with_the_greedy_completion():
    greedy = np.array([1.0, np.nan], np.float32)
    e = made(ADVANTAGES.make("remax"), greedy_reward_N=greedy)
    assert e.adv_BT[:3, 0].tolist() == [0, -1, 0]
    assert not e.mask_BT[3:].any() and not e.adv_BT[3:].any()  # no baseline: not trained on


def test_the_running_mean_is_taken_before_it_moves():
    e = made(ADVANTAGES.make("running_mean", alpha=0.9), baseline=0.25)
    assert e.adv_BT[0, 0] == 0.75
    assert e.next_baseline == pytest.approx(0.9 * 0.25 + 0.1 * 2 / 6)
    assert made(ADVANTAGES.make("running_mean", alpha=0.5), baseline=0.25).next_baseline > 0.28


def test_a_cut_answer_has_the_cosine_of_too_long_ones():
    j = judged()
    ended_B = np.array([True, False, True, True, True, True])
    j = dataclasses.replace(j, samples=dataclasses.replace(j.samples, eos_B=ended_B))
    score_B = shaped(j, ShapingConfig(cosine_length=True), 12, 1).reward_NG.reshape(-1)
    assert score_B[1] == -10 and (score_B[[0, 2, 3, 4, 5]] > -10).all()


def test_an_answer_without_a_verdict_is_no_yardstick_of_length():
    """Lengths 2, 10, 9: without the one of 10 the longest is 9."""
    j = judged(status=["scored", "unknown", "scored", "wrong", "wrong", "wrong"])
    reward_NG = shaped(j, ShapingConfig(kimi_length=1.0), 12, 1).reward_NG
    assert reward_NG[0].tolist() == [1.5, 0.0, 0.5]


def test_opo_counts_the_length_of_answers_that_are_not_trained_on():
    """The loss leaves a cut answer out, its group's baseline does not."""
    j, opo = judged(), ADVANTAGES.make("opo")
    mask_BT = mask_of(j)
    mask_BT[1] = False
    adv_BT = make_experience(j, mask_BT, opo, KL())[0].adv_BT
    assert adv_BT[0, 0] == pytest.approx(1 - 11 / 21) == made(opo).adv_BT[0, 0]
    assert not adv_BT[1].any()


def test_gdpo_sees_the_parts_that_it_names():
    parts = [{"b": float(i % 2), "a": float(i), "diagnostic": float(i == 3)} for i in range(6)]
    j = judged(parts=parts)
    assert j.parts_CNG(("a", "b"))[0].reshape(-1).tolist() == list(range(6))
    assert j.parts_CNG(("b", "a"))[1].reshape(-1).tolist() == list(range(6))
    made_of = {names: made(ADVANTAGES.make("gdpo", parts=names), j).adv_BT for names in "ab"}
    both = made(ADVANTAGES.make("gdpo", parts=("a", "b")), j).adv_BT
    weighed = made(ADVANTAGES.make("gdpo", parts=("a", "b"), weights=(0.0, 1.0)), j).adv_BT
    assert np.abs(made_of["a"] - made_of["b"]).max() > 0.1 < np.abs(both - made_of["a"]).max()
    np.testing.assert_allclose(weighed, made_of["b"])
    with pytest.raises(ValueError, match='not every verdict has a part "c"'):
        j.parts_CNG(("c",))


def test_the_critic_gives_advantages_and_targets():
    def value(sequences, width):
        return np.full((6, width), 0.25, np.float32)

    e = made(ADVANTAGES.make("gae"), value=value)
    assert e.adv_BT[0, :2].tolist() == [0.75, 0.75] and e.return_BT[0, :2].tolist() == [1, 1]
    assert e.value_BT[0, 0] == 0.25


def test_rescored_log_probs_serve_as_the_old_policy_too():
    def rescore(sequences, width):
        return np.full((6, width), -2.0, np.float32), np.full((6, width), 0.7, np.float32)

    def never(sequences, width):
        raise AssertionError("scored twice")

    j, group = judged(), ADVANTAGES.make("group")
    extras = Extras(rescore=rescore)
    e, _ = make_experience(j, mask_of(j), group, KL(), old_logp=never, extras=extras)
    assert (e.old_logp_BT == -2).all() and np.allclose(e.entropy_BT, 0.7)
    kept, _ = make_experience(j, mask_of(j), group, KL(), extras=extras)
    assert (kept.old_logp_BT == kept.sampler_logp_BT).all()


def test_an_adaptive_coefficient_reaches_the_reward():
    j, rloo, kl = judged(), ADVANTAGES.make("rloo"), KL("reward", "k1", 0.1)

    def ref(sequences, width):
        return np.arange(6, dtype=np.float32)[:, None] * np.ones(width, np.float32) - 3

    advs = [
        make_experience(j, mask_of(j), rloo, kl, None, ref, Extras(kl_coef=coef))[0].adv_BT
        for coef in (None, 0.1, 0.4)
    ]
    np.testing.assert_allclose(advs[0], advs[1], rtol=1e-6)
    assert np.abs(advs[2] - advs[0]).max() > 0.1


# References.


def state(value=1.0):
    tx = make_optimizer(OptimConfig(schedule="linear"), 10)
    s = state_of({"embed": jnp.full((2, 2), value)}, tx)
    for _ in range(3):
        grads = jax.tree.map(jnp.ones_like, s.params)
        updates, opt_state = tx.update(grads, s.opt_state, s.params)
        params = optax.apply_updates(s.params, updates)
        s = dataclasses.replace(s, params=params, opt_state=opt_state, step=s.step + 1)
    return s


def adam_of(s):
    parts = jax.tree.leaves(s.opt_state, is_leaf=lambda x: isinstance(x, optax.ScaleByAdamState))
    return next(p for p in parts if isinstance(p, optax.ScaleByAdamState))


def test_a_reset_forgets_the_moments_and_keeps_the_schedule():
    before, after = state(), reset_moments(state())
    assert np.any(adam_of(before).mu["embed"])
    assert not any(np.any(x) for x in jax.tree.leaves(adam_of(after)))
    assert int(after.step) == 3
    np.testing.assert_array_equal(after.params["embed"], before.params["embed"])
    schedule = [s for s in jax.tree.leaves(after.opt_state) if s.shape == ()]
    assert 3 in [int(s) for s in schedule]


def follow(config, steps, reset=None):
    reference, s = Reference(config, {"embed": jnp.zeros((2, 2))}, 0), state()
    for i in range(1, steps + 1):
        s = reference.follow(s, i, 40 + i)
    return reference, s


def test_a_frozen_reference_stays():
    reference, s = follow(ReferenceConfig(mode="frozen"), 5)
    assert not np.any(reference.params["embed"]) and reference.version == 0
    assert reference.fresh(1) and not reference.fresh(2) and np.any(adam_of(s).mu["embed"])


def test_every_n_takes_the_policy_and_may_reset_the_optimizer():
    config = ReferenceConfig(mode="every_n", every=2)
    early, s = follow(config, 1)
    assert not np.any(early.params["embed"]) and early.version == 0
    reference, s = follow(config, 3)
    np.testing.assert_array_equal(reference.params["embed"], s.params["embed"])
    assert reference.version == 42 and np.any(adam_of(s).mu["embed"])
    assert [reference.fresh(i) for i in (1, 2, 3, 4)] == [True, False, True, False]
    _, s = follow(dataclasses.replace(config, reset_optimizer=True), 3)
    assert not np.any(adam_of(s).mu["embed"])


def test_the_average_follows_by_its_decay():
    for decay in (0.5, 0.9):
        reference, s = follow(ReferenceConfig(mode="ema", decay=decay), 2)
        expected = (1 - decay**2) * np.asarray(s.params["embed"])
        np.testing.assert_allclose(reference.params["embed"], expected, rtol=1e-6)
        assert reference.version is None


# Memory.


def test_a_trained_parameter_takes_sixteen_bytes():
    s, frozen = state(), {"embed": jnp.ones((2, 2), jnp.bfloat16)}
    lines = account({"policy": s, "reference": frozen, "critic": None})
    assert "4 parameters x 16 B = 64 B planned" in lines[0]
    assert "4 parameters x 2 B = 8 B planned, 8 B allocated" in lines[1]
    assert "72 B planned" in lines[2] and not any("critic" in line for line in lines)
    assert size(1536) == "1.5 KiB" and size(3 * 2**30) == "3.0 GiB"
