"""Losses over random shapes and masks: loops, splits, and order."""

import dataclasses
import functools

import jax
import loss_oracle as oracle
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr_jax.losses import LOSSES

SHAPES = ((5, 1), (5, 4), (8, 7))  # one-token rows, and two ordinary ones


@functools.cache
def compiled(loss):
    return jax.jit(lambda x: loss(x)[0])


def value(loss, x):
    with jax.enable_x64(True):
        return float(compiled(loss)(x))


def take(x, index):
    return jax.tree.map(lambda a: a[index], x)


cases = st.tuples(st.integers(0, 10_000), st.sampled_from(SHAPES), st.floats(0.0, 3.0))


@pytest.mark.parametrize("name", list(LOSSES))
@settings(max_examples=15, deadline=None)
@given(case=cases)
def test_equal_to_the_loop_over_compacted_sequences(name, case):
    seed, (rows, width), spread = case
    loss, x = LOSSES[name](), oracle.make_inputs(seed, rows=rows, width=width, spread=spread)
    expected = oracle.value(name, loss, x, x.logp_BT, x.logp_BT)
    np.testing.assert_allclose(value(loss, x), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", list(LOSSES))
@settings(max_examples=10, deadline=None)
@given(case=cases, order=st.randoms(use_true_random=False))
def test_order_and_holes_are_irrelevant(name, case, order):
    """Rows in any order, and each row's tokens moved to other columns in the same sequence."""
    seed, (rows, width), spread = case
    loss, x = LOSSES[name](), oracle.make_inputs(seed, rows=rows, width=width, spread=spread)
    perm = list(range(rows))
    order.shuffle(perm)
    np.testing.assert_allclose(value(loss, take(x, perm)), value(loss, x), rtol=1e-9, atol=1e-12)
    dense = compact(x)
    np.testing.assert_allclose(value(loss, dense), value(loss, x), rtol=1e-9, atol=1e-12)


def compact(x):
    """Unmasked tokens moved to the left, in order."""
    index_BT = np.argsort(~x.mask_BT, axis=1, kind="stable")

    def move(a):
        return a if a.ndim != 2 else np.take_along_axis(a, index_BT, axis=1)

    return jax.tree.map(move, x)


@pytest.mark.parametrize("name", list(LOSSES))
@settings(max_examples=10, deadline=None)
@given(case=cases)
def test_rows_add_up(name, case):
    seed, (rows, width), spread = case
    loss, x = LOSSES[name](), oracle.make_inputs(seed, rows=rows, width=width, spread=spread)
    total = sum(value(loss, alone(x, row)) for row in range(rows))
    np.testing.assert_allclose(total, value(loss, x), rtol=1e-9, atol=1e-12)


def alone(x, row):
    """The batch with every other row masked: a micro-batch in the shape of the whole."""
    only_B1 = (np.arange(x.mask_BT.shape[0]) == row)[:, None]
    return dataclasses.replace(
        x, mask_BT=x.mask_BT & only_B1, weight_BT=np.where(only_B1, x.weight_BT, 0.0)
    )
