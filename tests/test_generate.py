"""Generation against the oracle and the scorer, replay whatever the layout, and stop reasons."""

import dataclasses
import functools

import jax
import numpy as np
import pytest
import transformer_oracle as oracle
from tiny_models import DEEPSEEK, EVERYTHING, PLAIN, VOCAB, random_params

from rlvr_jax.generate import Address, DecodeConfig, make_sampler
from rlvr_jax.learner import make_scorer
from rlvr_jax.packing import PackConfig, Sequences
from rlvr_jax.sampling import SamplingConfig
from rlvr_jax.sharding import MeshConfig, make_mesh, put, tree_shardings

PROMPTS = [[1, 2, 3], [4], [5, 6, 7, 8, 9, 10, 11], [12, 0, 1, 2, 3]]
UIDS = [70, 71, 72, 2**31 + 5]
GROUP, LIMIT = 4, 7
STOPS = (5, 8)
HERE = Address(seed=5, stream=0, step=17)
ONE = make_mesh(MeshConfig(1, 1, 1), jax.devices()[:1])


def sampler(config, sampling=None, chunk=4, mesh=None):
    sampling = sampling or SamplingConfig()
    return make_sampler(config, DecodeConfig(8, LIMIT, chunk), sampling, STOPS, mesh)


CASES = {  # model, sampling, samples a prompt
    "plain": (PLAIN, SamplingConfig(), GROUP),
    "cool, cut off, unrolled": (
        dataclasses.replace(PLAIN, unroll=True),
        SamplingConfig(0.6, top_k=9, top_p=0.9),
        2,
    ),
    "hot, every feature": (EVERYTHING, SamplingConfig(1.3), 2),
    "latent attention, experts": (dataclasses.replace(DEEPSEEK, unroll=True), SamplingConfig(), 2),
    "greedy": (PLAIN, SamplingConfig(0.0), 2),
}


@functools.cache
def plain():
    return sampler(PLAIN)


@functools.cache
def samples_of(name):
    config, sampling, group = CASES[name]
    run = plain() if name == "plain" else sampler(config, sampling)
    return run(random_params(config), PROMPTS, UIDS, group, HERE)


def rows(samples):
    """(row, prompt, completion ids, reported log-probs) of every row."""
    for b in range(len(samples.length_B)):
        n = int(samples.length_B[b])
        ids = samples.tokens_BT[b, :n].tolist()
        yield b, PROMPTS[b * len(PROMPTS) // len(samples.length_B)], ids, samples.logp_BT[b, :n]


@pytest.mark.parametrize("name", CASES)
def test_reported_logp_is_that_of_the_sampling_distribution(name):
    config, sampling, _ = CASES[name]
    params = random_params(config)
    for _, prompt, ids, logp in rows(samples_of(name)):
        z = oracle.logits(config, params, prompt + ids)[len(prompt) - 1 : -1]
        expected = [oracle.log_distribution(r, sampling)[t] for r, t in zip(z, ids, strict=True)]
        np.testing.assert_allclose(logp, expected, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("name", CASES)
def test_reported_logp_equals_the_scorer(name):
    config, sampling, group = CASES[name]
    s = samples_of(name)
    sequences = Sequences(PROMPTS, np.repeat(np.arange(4), group), s.tokens_BT, s.length_B)
    scorer = make_scorer(config, sampling, PackConfig(48, 4096), ONE)
    scored = scorer(random_params(config), sequences, s.tokens_BT.shape[1])
    np.testing.assert_allclose(scored, s.logp_BT, atol=2e-4)


@pytest.mark.parametrize("name", CASES)
def test_rows_end_at_the_first_end_token_and_say_why(name):
    s = samples_of(name)
    for b, _, ids, _ in rows(s):
        assert not set(ids[:-1]) & set(STOPS)
        assert (ids[-1] in STOPS) == s.eos_B[b]
        assert s.eos_B[b] or len(ids) == LIMIT
        assert not s.tokens_BT[b, len(ids) :].any() and not s.logp_BT[b, len(ids) :].any()


def test_the_cases_hold_what_they_should():
    """Rows that stop, rows at the limit, and compaction along the way."""
    s = samples_of("plain")
    assert s.eos_B.any() and not s.eos_B.all()
    assert s.decode_steps == LIMIT and s.decode_rows < LIMIT * 16


def test_greedy_takes_the_best_token():
    params = random_params(PLAIN)
    for _, prompt, ids, logp in rows(samples_of("greedy")):
        z = oracle.logits(PLAIN, params, prompt + ids)[len(prompt) - 1 : -1]
        assert ids == z.argmax(-1).tolist()
        np.testing.assert_allclose(logp, 0.0, atol=1e-6)


# The same coordinates, the same draws.


def same(a, b):
    for name in ("tokens_BT", "forced_BT", "length_B", "eos_B"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    np.testing.assert_allclose(a.logp_BT, b.logp_BT, atol=2e-5)


def pick(samples, index):
    width = int(samples.length_B[index].max())
    return dataclasses.replace(
        samples,
        tokens_BT=samples.tokens_BT[index, :width],
        logp_BT=samples.logp_BT[index, :width],
        forced_BT=samples.forced_BT[index, :width],
        length_B=samples.length_B[index],
        eos_B=samples.eos_B[index],
    )


def test_a_rollout_repeats_exactly():
    again = plain()(random_params(PLAIN), PROMPTS, UIDS, GROUP, HERE)
    same(again, samples_of("plain"))
    np.testing.assert_array_equal(again.logp_BT, samples_of("plain").logp_BT)


def test_prompts_can_come_one_by_one():
    for n, (prompt, uid) in enumerate(zip(PROMPTS, UIDS, strict=True)):
        alone = plain()(random_params(PLAIN), [prompt], [uid], GROUP, HERE)
        same(alone, pick(samples_of("plain"), np.arange(GROUP) + n * GROUP))


def test_a_group_can_be_split():
    for start in (0, 2):
        half = plain()(random_params(PLAIN), PROMPTS, UIDS, 2, HERE, sample_start=start)
        index = (np.arange(4)[:, None] * GROUP + start + np.arange(2)).reshape(-1)
        same(half, pick(samples_of("plain"), index))


def test_prompts_can_come_in_any_order():
    order = [2, 0, 3, 1]
    moved = plain()(
        random_params(PLAIN), [PROMPTS[i] for i in order], [UIDS[i] for i in order], GROUP, HERE
    )
    index = np.concatenate([np.arange(GROUP) + i * GROUP for i in order])
    same(moved, pick(samples_of("plain"), index))


def test_chunks_and_compaction_change_nothing():
    whole = sampler(PLAIN, chunk=LIMIT)(random_params(PLAIN), PROMPTS, UIDS, GROUP, HERE)
    same(whole, samples_of("plain"))


def test_the_mesh_changes_nothing():
    mesh = make_mesh(MeshConfig(2, 2, 2))
    params = random_params(PLAIN)
    params = put(params, tree_shardings(params, mesh))
    same(sampler(PLAIN, mesh=mesh)(params, PROMPTS, UIDS, GROUP, HERE), samples_of("plain"))


@pytest.mark.parametrize(
    "there",
    [Address(5, 0, 18), Address(5, 1, 17), Address(6, 0, 17)],
    ids=["step", "stream", "seed"],
)
def test_another_address_is_another_rollout(there):
    other = plain()(random_params(PLAIN), PROMPTS, UIDS, GROUP, there)
    here = samples_of("plain")
    assert not np.array_equal(other.length_B, here.length_B)


def test_samples_of_a_group_and_prompts_of_a_batch_differ():
    """One prompt under two uids: neither the samples nor the prompts share their noise."""
    s = plain()(random_params(PLAIN), [PROMPTS[0]] * 4, [1, 2, 3, 4], GROUP, HERE)
    assert len({tuple(r) for r in s.tokens_BT.tolist()}) > 8


# Limits and errors.


def test_a_smaller_limit_cuts_and_compiles_nothing():
    short = plain()(random_params(PLAIN), PROMPTS, UIDS, GROUP, HERE, limit=3)
    full = samples_of("plain")
    np.testing.assert_array_equal(short.tokens_BT, full.tokens_BT[:, :3])
    np.testing.assert_array_equal(short.length_B, np.minimum(full.length_B, 3))
    np.testing.assert_array_equal(short.eos_B, full.eos_B & (full.length_B <= 3))


@pytest.mark.parametrize("limit", [1, 4])
def test_limits_at_the_edges_of_a_chunk(limit):
    short = plain()(random_params(PLAIN), PROMPTS, UIDS, GROUP, HERE, limit=limit)
    np.testing.assert_array_equal(short.tokens_BT, samples_of("plain").tokens_BT[:, :limit])


@pytest.mark.parametrize(
    ("prompts", "said"), [([[1] * 9], "max_prompt_tokens allows 8"), ([[]], "no tokens")]
)
def test_prompts_that_cannot_be_continued_are_refused(prompts, said):
    with pytest.raises(ValueError, match=said):
        plain()(random_params(PLAIN), prompts, [0], GROUP, HERE)


def test_a_sampler_without_an_end_is_refused():
    with pytest.raises(ValueError, match="at least one end token"):
        make_sampler(PLAIN, DecodeConfig(), SamplingConfig(), ())


@pytest.mark.parametrize("field", ["max_prompt_tokens", "max_new_tokens", "chunk"])
def test_lengths_are_positive(field):
    with pytest.raises(ValueError, match=f"{field} must be at least 1, got 0"):
        DecodeConfig(**{field: 0})


# The law of the draws.


def chi_square(counts, p):
    expected = counts.sum() * p
    return np.sum((counts - expected) ** 2 / expected)


def test_frequencies_are_the_probabilities():
    """First tokens, and second tokens given the first, over 4,096 samples of one prompt.

    Bounds are the 0.9999 quantiles of chi-square, for the second by Fisher's approximation.
    """
    sampling = SamplingConfig(temperature=2.5)
    draws = make_sampler(PLAIN, DecodeConfig(8, 2, 2), sampling, STOPS)
    params = random_params(PLAIN)
    s = draws(params, [PROMPTS[0]], [9], 4096, HERE)
    p = np.exp(oracle.log_distribution(oracle.logits(PLAIN, params, PROMPTS[0])[-1], sampling))
    first = s.tokens_BT[:, 0]
    ends = np.isin(first, STOPS)  # an end token as the first token ends the row at length 1
    assert set(first[ends].tolist()) == set(STOPS)
    np.testing.assert_array_equal(s.length_B, np.where(ends, 1, 2))
    np.testing.assert_array_equal(s.eos_B[ends], True)
    assert chi_square(np.bincount(first, minlength=VOCAB), p) < 40.9
    total = freedom = 0
    for token in set(range(VOCAB)) - set(STOPS):
        second = s.tokens_BT[first == token, 1]
        if len(second) < 100:
            continue
        z = oracle.logits(PLAIN, params, [*PROMPTS[0], token])[-1]
        p = np.exp(oracle.log_distribution(z, sampling))
        total += chi_square(np.bincount(second, minlength=VOCAB), p)
        freedom += VOCAB - 1
    assert freedom >= 36 and np.sqrt(2 * total) < np.sqrt(2 * freedom - 1) + 3.72
