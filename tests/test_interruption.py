"""A forced phrase: where it stands, what is drawn around it, what is trained, what is refused."""

import dataclasses
import functools

import jax
import numpy as np
import pytest
import transformer_oracle as oracle
from tiny_models import DEEPSEEK, PLAIN, random_params

from rlvr_jax.config import base, build
from rlvr_jax.evaluate import report
from rlvr_jax.experience import make_experience
from rlvr_jax.generate import Address, DecodeConfig, make_sampler
from rlvr_jax.interruption import Interruption
from rlvr_jax.learner import make_scorer
from rlvr_jax.packing import PackConfig
from rlvr_jax.phrase import InterruptionConfig, check_limits, resolve
from rlvr_jax.preflight import check_data
from rlvr_jax.rollout import Judged, RolloutConfig, rollout_metrics, trained_mask
from rlvr_jax.sampling import SamplingConfig
from rlvr_jax.sharding import MeshConfig, make_mesh, put, tree_shardings
from rlvr_jax.text import char_tokenizer
from rlvr_jax.types import Completion, Problem, Verdict

PROMPTS = [[1, 2, 3], [4], [5, 6, 7, 8, 9, 10, 11], [12, 0, 1, 2, 3]]
UIDS = [70, 71, 72, 73]
GROUP, LIMIT = 4, 12
STOPS = (5,)
PHRASE = (13, 13, 11)
HERE = Address(seed=5, stream=0, step=17)
ONE = make_mesh(MeshConfig(1, 1, 1), jax.devices()[:1])
TOKENIZER = char_tokenizer()

CASES = {
    "off": None,
    "at once": Interruption(1, 1, PHRASE),
    "at one place": Interruption(3, 3, PHRASE),
    "anywhere": Interruption(2, 7, PHRASE),
    "unless it said 12": Interruption(4, 6, PHRASE, (12,)),
}


@functools.cache
def sampler(name, chunk=4, mesh=None, limit=LIMIT):
    decode = DecodeConfig(8, limit, chunk)
    return make_sampler(PLAIN, decode, SamplingConfig(), STOPS, mesh, interruption=CASES[name])


@functools.cache
def samples_of(name):
    return sampler(name)(random_params(PLAIN), PROMPTS, UIDS, GROUP, HERE)


def rows(s):
    """(prompt, ids, log-probs, forced columns) of every row."""
    for b, n in enumerate(s.length_B):
        ids, logp = s.tokens_BT[b, :n].tolist(), s.logp_BT[b, :n]
        yield PROMPTS[b // GROUP], ids, logp, np.flatnonzero(s.forced_BT[b]).tolist()


def same(a, b):
    for name in ("tokens_BT", "forced_BT", "length_B", "eos_B"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    np.testing.assert_allclose(a.logp_BT, b.logp_BT, atol=2e-5)


# What the sampler writes.


@pytest.mark.parametrize("name", ["at once", "at one place", "anywhere"])
def test_a_completion_that_runs_long_holds_the_phrase_once(name):
    found, places = CASES[name], set()
    for (_, ids, logp, forced), free in zip(
        rows(samples_of(name)), rows(samples_of("off")), strict=True
    ):
        if not forced:
            assert (ids, ids[-1] in STOPS) == (free[1], True) and len(ids) <= found.high
            continue
        start = forced[0]
        places.add(start)
        assert forced == list(range(start, start + len(PHRASE)))
        assert tuple(ids[start : start + len(PHRASE)]) == PHRASE
        assert ids[:start] == free[1][:start] and not set(ids[:start]) & set(STOPS)
        assert (
            not logp[forced].any() and logp[[t for t in range(len(ids)) if t not in forced]].all()
        )
        assert ids[-1] in STOPS or len(ids) == LIMIT
    assert min(places) == found.low and max(places) == found.high


def test_each_place_of_a_range_is_as_likely():
    s = sampler("anywhere")(random_params(PLAIN), [PROMPTS[1]], [3], 4096, HERE)
    place, long = s.forced_BT.argmax(1), s.forced_BT.any(1)
    counts = np.array([np.sum(place[long] == t) for t in range(2, 8)])
    # A row is seen at place t if it lived so long: 4096 / 6 * P(no end among the first t tokens).
    free = sampler("off")(random_params(PLAIN), [PROMPTS[1]], [3], 4096, HERE)
    lives = [np.mean((free.length_B > t) | ~free.eos_B) for t in range(2, 8)]
    expected = 4096 / 6 * np.array(lives)
    assert np.sum((counts - expected) ** 2 / expected) < 27.9  # 0.9999 quantile, 6 degrees


def test_what_follows_is_drawn_given_the_phrase():
    params, seen = random_params(PLAIN), 0
    for prompt, ids, logp, forced in rows(samples_of("anywhere")):
        z = oracle.logits(PLAIN, params, prompt + ids)[len(prompt) - 1 : -1]
        want = [
            oracle.log_distribution(r, SamplingConfig())[t] for r, t in zip(z, ids, strict=True)
        ]
        drawn = [t for t in range(len(ids)) if t not in forced]
        np.testing.assert_allclose(logp[drawn], np.array(want)[drawn], rtol=2e-4, atol=2e-4)
        seen += bool(forced) and drawn[-1] > forced[-1]
    assert seen > 4


def test_a_completion_that_has_the_token_is_left_alone():
    spared = 0
    for (_, ids, _, forced), free in zip(
        rows(samples_of("unless it said 12")), rows(samples_of("off")), strict=True
    ):
        before = ids[: forced[0]] if forced else ids[:6]
        assert not forced or 12 not in before
        if not forced and len(ids) > 6:
            assert ids == free[1] and 12 in ids[:6]
            spared += 1
    assert spared and samples_of("unless it said 12").forced_BT.any()


def test_a_phrase_with_the_token_in_it_is_written_whole():
    found = Interruption(2, 2, (2, 13, 2), (2,))
    run = make_sampler(PLAIN, DecodeConfig(8, LIMIT), SamplingConfig(), STOPS, interruption=found)
    s = run(random_params(PLAIN), PROMPTS, UIDS, GROUP, HERE)
    assert set(s.forced_BT.sum(1)) == {0, 3}


def test_latent_caches_and_unrolled_layers_read_the_phrase():
    config = dataclasses.replace(DEEPSEEK, unroll=True)
    params, found = random_params(config), Interruption(3, 5, PHRASE)
    run = make_sampler(config, DecodeConfig(8, 10, 4), SamplingConfig(), STOPS, interruption=found)
    s = run(params, PROMPTS, UIDS, 2, HERE)
    scorer = make_scorer(config, SamplingConfig(), PackConfig(48, 4096), ONE)
    scored = scorer(params, judged_of(s, 2).sequences(), s.tokens_BT.shape[1])
    assert s.forced_BT.any() and (~s.forced_BT[:, 6:] & s.drawn_BT[:, 6:]).any()
    np.testing.assert_allclose(np.where(s.drawn_BT, scored, 0), s.logp_BT, atol=2e-4)


def test_order_splits_chunks_limits_and_the_mesh_change_nothing():
    params, whole = random_params(PLAIN), samples_of("anywhere")
    same(sampler("anywhere")(params, PROMPTS, UIDS, GROUP, HERE), whole)
    same(sampler("anywhere", chunk=LIMIT)(params, PROMPTS, UIDS, GROUP, HERE), whole)
    for n, (prompt, uid) in enumerate(zip(PROMPTS, UIDS, strict=True)):
        alone = sampler("anywhere")(params, [prompt], [uid], 2, HERE, sample_start=2)
        width = alone.tokens_BT.shape[1]
        np.testing.assert_array_equal(
            alone.forced_BT, whole.forced_BT[n * GROUP + 2 : n * GROUP + 4, :width]
        )
    short = sampler("anywhere")(params, PROMPTS, UIDS, GROUP, HERE, limit=6)
    np.testing.assert_array_equal(short.forced_BT, whole.forced_BT[:, :6])
    mesh = make_mesh(MeshConfig(2, 2, 2))
    spread = put(params, tree_shardings(params, mesh))
    same(sampler("anywhere", mesh=mesh)(spread, PROMPTS, UIDS, GROUP, HERE), whole)


# What is trained.


def judged_of(s, group=GROUP):
    count = len(s.length_B)
    return Judged(
        problems=[Problem(prompt="p", answer="", index=n) for n in range(len(PROMPTS))],
        prompts=PROMPTS,
        group=group,
        samples=s,
        completions=[Completion(text="", num_tokens=int(n)) for n in s.length_B],
        verdicts=[Verdict(status="scored", score=float(b % 2)) for b in range(count)],
    )


def test_nobody_trains_on_the_phrase():
    s = samples_of("anywhere")
    judged = judged_of(s)
    mask = trained_mask(judged, RolloutConfig())
    width = s.tokens_BT.shape[1]
    np.testing.assert_array_equal(mask[:, :width], s.drawn_BT)
    assert not (mask[:, :width] & s.forced_BT).any() and not mask[:, width:].any()
    inside = np.arange(width) < s.length_B[:, None]
    np.testing.assert_array_equal(inside, s.drawn_BT | s.forced_BT)
    share = rollout_metrics(judged)["len/interrupted_frac"]
    assert share == pytest.approx(s.forced_BT.any(1).mean()) and 0 < share < 1
    assert report(judged).lengths["interrupted_frac"] == share
    some = judged.take([2, 0])
    np.testing.assert_array_equal(
        some.samples.forced_BT[:GROUP], s.forced_BT[2 * GROUP : 3 * GROUP]
    )


def test_a_baseline_by_length_counts_what_was_drawn():
    """OPO weighs by the length because the gradient does; the phrase has none."""
    seen = {}

    class Advantage:
        needs = ()

        def __call__(self, x):
            seen["length"] = np.asarray(x.length_NG)
            return np.zeros(x.mask_BT.shape, np.float32)

    judged = judged_of(samples_of("anywhere"))
    kl = build({"task": {"name": "arithmetic"}}).objective.kl
    make_experience(judged, trained_mask(judged, RolloutConfig()), Advantage(), kl)
    np.testing.assert_array_equal(
        seen["length"].reshape(-1), judged.samples.length_B - judged.samples.forced_BT.sum(1)
    )


# What is refused.


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"after": (3, 4, 5), "text": "x"}, "the lowest and the highest"),
        ({"after": (4, 3), "text": "x"}, "the lowest and the highest"),
        ({"after": (0, 3), "text": "x"}, "at least 1"),
        ({"after": (3,)}, "needs interruption.text"),
        ({"text": "x"}, "no effect without"),
        ({"unless": "x"}, "no effect without"),
    ],
)
def test_settings_that_cannot_be_meant(given, said):
    with pytest.raises(ValueError, match=said):
        InterruptionConfig(**given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"text": "☃"}, "cannot spell interruption.text"),
        ({"text": "so<eos>"}, "holds an end token"),
        ({"text": "so", "unless": "no"}, "not one token"),
        ({"text": "so", "unless": "<eos>"}, "ends a completion anyway"),
        ({"text": "so", "unless": "☃"}, "not one token"),
    ],
)
def test_texts_that_the_tokenizer_cannot_take(given, said):
    config = InterruptionConfig(after=(3,), **given)
    with pytest.raises(ValueError, match=said):
        resolve(config, TOKENIZER, (TOKENIZER.eos_token_id,))


def test_texts_become_ids():
    config = InterruptionConfig(after=(3,), text="so</think>", unless="</think>")
    found = resolve(config, TOKENIZER, (1,))
    think = TOKENIZER.convert_tokens_to_ids("</think>")
    assert (found.low, found.high, found.unless) == (3, 3, (think,))
    assert TOKENIZER.decode(found.phrase) == "so</think>" and found.phrase[-1] == think
    assert resolve(InterruptionConfig(), TOKENIZER, (1,)) is None


def test_room_for_an_answer():
    found = Interruption(3, 5, (9, 9))
    check_limits(found, (20, 8))
    check_limits(None, (1,))
    with pytest.raises(ValueError, match="5 tokens and a phrase of 2 leave no room .* at most 7"):
        check_limits(found, (20, 7))


@pytest.mark.parametrize("limits", [(), (6, 16)])
def test_a_run_without_room_is_refused_before_it_begins(limits):
    c = base()
    c.task.name = "arithmetic"
    c.decode.max_new_tokens = 16 if limits else 6
    c.rollout.limits, c.rollout.limit_steps = limits, (3,) if limits else ()
    c.interruption.after, c.interruption.text = (4,), "so"
    config = build(c)
    with pytest.raises(ValueError, match="no room"):
        check_data(config, TOKENIZER, config.task.split("train"), config.task.split("test"))
