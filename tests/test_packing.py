"""Packed rows: every sequence once, nothing seen that should not be, the same numbers as alone."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import transformer_oracle as oracle
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import EVERYTHING, VOCAB, random_params

from rlvr_jax.packing import PackConfig, Sequences, pack
from rlvr_jax.sampling import SamplingConfig
from rlvr_jax.scoring import allowed_pairs, score

MODEL = dataclasses.replace(EVERYTHING, layers=2)
PLAIN = SamplingConfig()
WIDTH = 8


def sequences(prompts=(3, 1, 6), completions=((2, 5, 8), (1,), (7, 3)), seed=0):
    """Random ids, 0 and 1 among them; sizes of the prompts and of the completions of each."""
    rng = np.random.default_rng(seed)
    of_B = np.repeat(np.arange(len(prompts)), [len(c) for c in completions])
    length_B = np.array([n for c in completions for n in c], np.int32)
    tokens_BT = rng.integers(0, VOCAB, (len(length_B), WIDTH)).astype(np.int32)
    tokens_BT[:, ::3] = rng.integers(0, 2, tokens_BT[:, ::3].shape)
    ids = [rng.integers(0, VOCAB, n).tolist() for n in prompts]
    return Sequences(ids, of_B, tokens_BT, length_B)


@st.composite
def any_sequences(draw):
    prompts = draw(st.lists(st.integers(1, 9), min_size=1, max_size=5))
    lengths = st.lists(st.integers(1, WIDTH), min_size=1, max_size=5)
    return sequences(prompts, [draw(lengths) for _ in prompts], draw(st.integers(0, 99)))


@settings(max_examples=80, deadline=None)
@given(
    s=any_sequences(),
    row_tokens=st.integers(1, 64),
    rows=st.integers(1, 4),
    shards=st.sampled_from([1, 2, 4]),
    layout=st.sampled_from(["auto", "lines", "rows"]),
)
def test_every_token_is_scored_exactly_once(s, row_tokens, rows, shards, layout):
    batches = pack(s, PackConfig(row_tokens, rows * row_tokens, layout), WIDTH, shards)
    assert len({tuple(jax.tree.map(np.shape, jax.tree.leaves(p))) for p, _ in batches}) == 1
    found = []
    for packed, index in batches:
        assert packed.tokens_RS.shape[0] % shards == 0 and len(index) % shards == 0
        used = index[index >= 0]
        found += used.tolist()
        r, m = np.nonzero(packed.slot_RM < len(index) * WIDTH)
        b, t = np.divmod(packed.slot_RM[r, m], WIDTH)
        at = packed.source_RM[r, m]
        np.testing.assert_array_equal(packed.target_RM[r, m], s.tokens_BT[index[b], t])
        prompt = np.array([len(s.prompts[n]) for n in s.prompt_of_B[index[b]]])
        np.testing.assert_array_equal(packed.position_RS[r, at], prompt + t - 1)
        previous = [s.tokens_BT[row, i - 1] if i else s.prompts[s.prompt_of_B[row]][-1]
                    for row, i in zip(index[b], t, strict=True)]  # fmt: skip
        np.testing.assert_array_equal(packed.tokens_RS[r, at], previous)
        assert len(r) == s.length_B[used].sum() == len({*zip(b.tolist(), t.tolist(), strict=True)})
    assert sorted(found) == list(range(len(s.length_B)))


def test_a_prompt_is_stored_once_for_the_completions_beside_it():
    s = sequences(prompts=(6,), completions=((2, 2, 2, 2),))
    ((packed, _),) = pack(s, PackConfig(16, 16, "rows"), WIDTH)
    assert (packed.group_RS > 0).sum() == 6 + 8
    alone = pack(s, PackConfig(8, 8, "rows"), WIDTH)
    assert sum((p.group_RS > 0).sum() for p, _ in alone) == 4 * 8


def test_a_token_sees_its_prompt_and_itself_only():
    s = sequences(prompts=(2, 1), completions=((2, 1), (1,)))
    ((packed, _),) = pack(s, PackConfig(8, 8, "rows"), WIDTH)
    assert packed.segment_RS[0].tolist() == [0, 0, 1, 1, 2, 0, 1, 0]
    seen = np.asarray(allowed_pairs(jax.tree.map(jnp.asarray, packed)))[0].astype(int)
    assert ["".join(map(str, r)) for r in seen] == [
        "10000000",
        "11000000",
        "11100000",
        "11110000",
        "11001000",
        "00000100",
        "00000110",
        "00000000",
    ]


@jax.jit
def _scores(params, rows, shape_of):
    return score(MODEL, PLAIN, params, rows, shape_of.shape)


def scored(params, s, config, shards=1):
    """log-probs and entropies [B, WIDTH] by way of packed rows."""
    logp, entropy = (np.zeros((len(s.length_B), WIDTH), np.float32) for _ in range(2))
    for rows, index in pack(s, config, WIDTH, shards):
        out = _scores(params, rows, np.zeros((len(index), WIDTH), bool))
        used = index >= 0
        logp[index[used]] = np.asarray(out.logp_BT)[used]
        entropy[index[used]] = np.asarray(out.entropy_BT)[used]
    return logp, entropy


PACKS = {
    "one sequence a row": PackConfig(1, 16, "rows"),
    "shared": PackConfig(24, 48, "rows"),
    "one row": PackConfig(64, 64, "rows"),
    "lines": PackConfig(64, 64, "lines"),
    "short lines": PackConfig(8, 24, "lines"),
}


@pytest.mark.parametrize("name", PACKS)
def test_scores_equal_each_sequence_alone(name):
    s, params = sequences(), random_params(MODEL)
    logp, entropy = scored(params, s, PACKS[name], shards=2 if name == "shared" else 1)
    for b, n in enumerate(s.length_B):
        prompt, ids = s.prompts[s.prompt_of_B[b]], s.tokens_BT[b, :n].tolist()
        z = oracle.logits(MODEL, params, prompt + ids)[len(prompt) - 1 : -1]
        z = np.array([oracle.log_distribution(r, PLAIN) for r in z])
        np.testing.assert_allclose(logp[b, :n], z[np.arange(n), ids], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(entropy[b, :n], -(np.exp(z) * z).sum(-1), rtol=1e-4, atol=1e-4)
        assert not logp[b, n:].any() and not entropy[b, n:].any()


def gradient(s, config):
    weight = np.random.default_rng(3).normal(size=(len(s.length_B), WIDTH)).astype(np.float32)

    @jax.jit
    def grad(params, rows, weight_BT):
        def loss(params):
            out = score(MODEL, PLAIN, params, rows, weight_BT.shape)
            return jnp.sum(out.logp_BT * weight_BT)

        return jax.grad(loss)(params)

    total = None
    for rows, index in pack(s, config, WIDTH):
        taken = np.where(index[:, None] >= 0, weight[np.maximum(index, 0)], 0.0)
        part = grad(random_params(MODEL), rows, taken.astype(np.float32))
        total = part if total is None else jax.tree.map(jnp.add, total, part)
    return total


def test_gradients_do_not_depend_on_the_packing():
    s = sequences()
    alone = gradient(s, PACKS["one sequence a row"])
    for name in ("one row", "lines"):
        for a, b in zip(*map(jax.tree.leaves, (alone, gradient(s, PACKS[name]))), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=2e-5 * np.abs(a).max())


def test_what_lies_under_padding_is_irrelevant():
    s, params = sequences(), random_params(MODEL)
    ((rows, index),) = pack(s, PACKS["one row"], WIDTH)
    shape = np.zeros((len(index), WIDTH), bool)
    rng = np.random.default_rng(0)
    pad_RS, free_RM = rows.group_RS == 0, rows.slot_RM == len(index) * WIDTH
    assert pad_RS.any() and free_RM.any()
    other = dataclasses.replace(
        rows,
        tokens_RS=np.where(pad_RS, rng.integers(0, VOCAB, pad_RS.shape), rows.tokens_RS),
        position_RS=np.where(pad_RS, rng.integers(0, 99, pad_RS.shape), rows.position_RS),
        segment_RS=np.where(pad_RS, rng.integers(0, 3, pad_RS.shape), rows.segment_RS),
        source_RM=np.where(free_RM, rng.integers(0, 64, free_RM.shape), rows.source_RM),
        target_RM=np.where(free_RM, rng.integers(0, VOCAB, free_RM.shape), rows.target_RM),
    )
    other = jax.tree.map(lambda x: x.astype(np.int32), other)
    a, b = _scores(params, rows, shape), _scores(params, other, shape)
    np.testing.assert_array_equal(a.logp_BT, b.logp_BT)
    np.testing.assert_array_equal(a.entropy_BT, b.entropy_BT)


def test_columns_after_the_end_are_irrelevant():
    s = sequences()
    after = np.arange(WIDTH) >= s.length_B[:, None]
    noise = np.where(after, 5, s.tokens_BT).astype(np.int32)
    for (a, i), (b, j) in zip(
        pack(s, PACKS["shared"], WIDTH),
        pack(dataclasses.replace(s, tokens_BT=noise), PACKS["shared"], WIDTH),
        strict=True,
    ):
        np.testing.assert_array_equal(i, j)
        jax.tree.map(np.testing.assert_array_equal, a, b)


@pytest.mark.parametrize("sizes", [(0, 10), (11, 10)])
def test_impossible_sizes_are_refused(sizes):
    with pytest.raises(ValueError, match="1 <= row_tokens <= micro_tokens"):
        PackConfig(*sizes)
