"""The aggregators and the sums under a mask."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rlvr_jax import masking

F32 = np.float32

masks = hnp.arrays(bool, st.tuples(st.integers(1, 7), st.integers(1, 6)))


def loop_weights(mask_BT, mode, group_B, limit):
    """The table of the docstring, row by row, in float64."""
    length = [int(row.sum()) for row in mask_BT]
    rows = max(sum(n > 0 for n in length), 1)
    prompts = {g for g, n in zip(group_B, length, strict=True) if n > 0}
    out = np.zeros(mask_BT.shape)
    for i, n in enumerate(length):
        if n == 0:
            continue
        mates = sum(m for g, m in zip(group_B, length, strict=True) if g == group_B[i])
        out[i, mask_BT[i]] = {
            "seq_mean_token_mean": 1 / (rows * n),
            "token_mean": 1 / sum(length),
            "prompt_token_mean": 1 / (len(prompts) * mates),
            "seq_mean_token_sum": 1 / rows,
            "const": 1 / (rows * limit),
        }[mode]
    return out


@pytest.mark.parametrize("mode", masking.AGGREGATIONS)
@settings(max_examples=60, deadline=None)
@given(mask_BT=masks, seed=st.integers(0, 99))
def test_weights_against_the_loop(mode, mask_BT, seed):
    group_B = np.random.default_rng(seed).integers(0, 3, len(mask_BT))
    weight_BT = masking.token_weights(mask_BT, mode, group_B=group_B, num_groups=3, length_limit=9)
    assert isinstance(weight_BT, np.ndarray) and weight_BT.dtype == F32
    np.testing.assert_allclose(weight_BT, loop_weights(mask_BT, mode, group_B, 9), rtol=1e-6)
    if mode in ("seq_mean_token_mean", "token_mean", "prompt_token_mean") and mask_BT.any():
        assert weight_BT.sum() == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("mode", masking.AGGREGATIONS)
def test_host_and_device_agree(mode):
    rng = np.random.default_rng(0)
    mask_BT, group_B = rng.uniform(size=(6, 5)) < 0.6, np.arange(6) // 2

    def weights(mask_BT, group_B):
        return masking.token_weights(mask_BT, mode, group_B=group_B, num_groups=3, length_limit=7)

    on_device = jax.jit(weights)(mask_BT, group_B)
    np.testing.assert_allclose(on_device, weights(mask_BT, group_B), rtol=1e-6)
    eager = weights(jnp.asarray(mask_BT), jnp.asarray(group_B))
    assert isinstance(eager, jax.Array) and eager.dtype == jnp.float32


@settings(max_examples=40, deadline=None)
@given(mask_BT=masks, extra=st.integers(1, 3))
def test_padding_changes_no_weight(mask_BT, extra):
    wider_BT = np.pad(mask_BT, ((0, extra), (0, extra)))
    for mode in masking.AGGREGATIONS:
        narrow, wide = (
            masking.token_weights(m, mode, group_B=np.arange(len(m)) // 2, length_limit=5)
            for m in (mask_BT, wider_BT)
        )
        np.testing.assert_array_equal(wide[: len(mask_BT), : mask_BT.shape[1]], narrow)


def test_huge_batches_do_not_overflow():
    """65,536 rows of 40,000 tokens: the product outgrows int32."""
    mask_BT = np.broadcast_to(np.ones((1, 1), bool), (65536, 2))
    weight_BT = jax.jit(lambda m: masking.token_weights(m, "const", length_limit=40_000))(mask_BT)
    np.testing.assert_allclose(weight_BT[0, 0], 1 / (65536 * 40_000), rtol=1e-6)


def test_const_does_not_depend_on_the_padded_width():
    """Two rows of 2 and 4 tokens, C = 8: 1 / (2 * 8) each, whatever the width."""
    mask_BT = np.arange(4) < np.array([[2], [4]])
    weight_BT = masking.token_weights(mask_BT, "const", length_limit=8)
    np.testing.assert_allclose(weight_BT, np.where(mask_BT, 1 / 16, 0))


@pytest.mark.parametrize(
    "arguments, reason",
    [
        (("token_men",), 'did you mean "token_mean"'),
        (("const",), "length_limit is None"),
        (("prompt_token_mean",), "group_B"),
    ],
)
def test_senseless_arguments_are_refused(arguments, reason):
    with pytest.raises(ValueError, match=reason):
        masking.token_weights(np.ones((2, 2), bool), *arguments)


def test_masks_are_boolean():
    with pytest.raises(ValueError, match="must be bool"):
        masking.token_weights(np.ones((2, 2), F32), "token_mean")


def test_traced_groups_need_their_number():
    def weights(group_B):
        mask_BT = jnp.ones((2, 2), bool)
        return masking.token_weights(mask_BT, "prompt_token_mean", group_B=group_B)

    with pytest.raises(ValueError, match="num_groups"):
        jax.jit(weights)(np.zeros(2, int))


def test_nll_weights():
    mask_BT = np.array([[1, 1, 0], [1, 1, 1], [1, 0, 0]], bool)
    weight_BT = masking.nll_weights(mask_BT, np.array([True, False, True]))
    np.testing.assert_allclose(
        weight_BT, np.array([[1, 1, 0], [0, 0, 0], [1, 0, 0]]) / 3, rtol=1e-6
    )
    assert np.all(masking.nll_weights(mask_BT, np.zeros(3, bool)) == 0)
    on_device = jax.jit(masking.nll_weights)(mask_BT, np.array([True, False, True]))
    np.testing.assert_allclose(on_device, weight_BT)


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("ddof", [0, 1])
def test_moments_against_numpy(axis, ddof):
    rng = np.random.default_rng(1)
    x, mask = rng.normal(size=(5, 6)).astype(F32) + 3, rng.uniform(size=(5, 6)) < 0.6
    spoiled = np.where(mask, x, F32(np.nan))
    masked = np.ma.array(x, mask=~mask)
    np.testing.assert_allclose(
        masking.masked_mean(spoiled, mask, axis), masked.mean(axis), rtol=1e-5
    )
    np.testing.assert_allclose(
        masking.masked_std(spoiled, mask, axis, ddof=ddof), masked.std(axis, ddof=ddof), rtol=1e-4
    )
    np.testing.assert_allclose(masking.masked_sum(spoiled, mask, axis), masked.sum(axis), rtol=1e-5)


def test_empty_and_single_selections():
    x, none = np.full((1, 3), np.inf, F32), np.zeros((1, 3), bool)
    one = np.array([[True, False, False]])
    assert masking.masked_mean(x, none) == 0 and masking.masked_std(x, none, ddof=1) == 0
    assert masking.masked_std(np.ones((1, 3), F32), one, ddof=1) == 0
    assert masking.masked_count(none) == 1
    assert masking.unanimous(x, none, tol=0.0) and masking.unanimous(np.ones((1, 3)), one, tol=0.0)


@settings(max_examples=60, deadline=None)
@given(base=st.floats(-100, 100, width=32), gap=st.floats(0, 1, width=32))
def test_unanimity_is_a_matter_of_range(base, gap):
    x = np.array([base, base + gap, base], F32)
    actual = float(x.max()) - float(x.min())
    allowed = 1e-3 * max(1.0, float(np.abs(x).max()))
    if abs(actual - allowed) > 1e-5:
        verdict = masking.unanimous(x, np.ones(3, bool), tol=1e-3)
        assert bool(verdict[0]) == (actual <= allowed)


def test_per_token():
    mask_BT = np.array([[1, 0], [1, 1]], bool)
    np.testing.assert_array_equal(
        masking.per_token(np.array([[2.0, 3.0]]), mask_BT), [[2.0, 0.0], [3.0, 3.0]]
    )


def test_a_number_that_is_none_is_no_agreement():
    """A NaN that nobody masked stays visible; as "unanimous" it would silence the whole batch."""
    x, mask = jnp.array([[1.0, jnp.nan], [2.0, 2.0]]), jnp.ones((2, 2), bool)
    assert masking.unanimous(x, mask, axis=1, tol=1e-6)[:, 0].tolist() == [False, True]
    assert masking.unanimous(x, mask.at[0, 1].set(False), axis=1, tol=1e-6)[0, 0]
