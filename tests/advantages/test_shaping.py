"""Shaping on the host."""

import numpy as np
import pytest

from rlvr_jax.advantages import shaping


def test_soft_overlong(vectors):
    lengths = [16384, 17408, 18432, 20480, 20481]
    np.testing.assert_allclose(shaping.soft_overlong(lengths, 20480, 4096), vectors["sop"])
    assert shaping.soft_overlong(0, 100, 100) == 0.0
    for buffer in (0, 101):
        with pytest.raises(ValueError, match="buffer"):
            shaping.soft_overlong(5, 100, buffer)


def test_cosine(vectors):
    lengths, correct = [0, 50, 100] * 2, [True] * 3 + [False] * 3
    np.testing.assert_allclose(
        shaping.cosine_length(lengths, correct, 100), vectors["cosine"], atol=1e-9
    )
    np.testing.assert_allclose(shaping.cosine_length([101, 101], [True, False], 100), -10.0)


def test_kimi_length():
    lengths = np.array([[100, 200, 300], [5, 5, 5], [100, 200, 300]])
    correct = np.array([[1, 1, 0], [1, 0, 1], [0, 1, 1]], bool)
    expected = [[0.5, 0.0, -0.5], [0, 0, 0], [0.0, 0.0, -0.5]]
    np.testing.assert_allclose(shaping.kimi_length(lengths, correct), expected)


def test_being_cut_off_is_no_way_out_of_the_cosine():
    at_limit = shaping.cosine_length(
        [24, 24, 23], [False, True, False], 24, cut=[True, True, False]
    )
    assert at_limit[0] == at_limit[1] == -10.0 < at_limit[2]


def test_what_could_not_be_judged_is_no_yardstick_of_length():
    length, right = [[10, 20, 30, 1000]], [[True, True, False, False]]
    valid = [[True, True, True, False]]
    assert shaping.kimi_length(length, right, valid).tolist() == [[0.5, 0.0, -0.5, 0.0]]


def test_magistral():
    """Specification A8: right, formatted, in language, halfway into the ramp: 1.05."""
    reward = shaping.magistral_reward([1, 1, 0], [1, 0, 1], [1, 1, 0], [-0.5, -0.5, 0.0])
    np.testing.assert_allclose(reward, [1.05, 0.0, 0.1])


def test_varied_groups():
    metric = np.array([[1, 0, 1], [1, 1, 1], [0, 0, 0], [1, 1, 0], [0.1 + 0.2, 0.3, 0.3]])
    valid = np.ones_like(metric, bool)
    valid[3, 2] = False
    kept = shaping.varied_groups(metric, valid)
    assert kept.tolist() == [True, False, False, False, False]
    assert not shaping.varied_groups(metric, np.zeros_like(valid)).any()


def test_overlong_filter_drops_whole_rows():
    mask_BT = np.array([[1, 1, 1], [1, 1, 0]], bool)
    out = shaping.overlong_filter(mask_BT, [True, False])
    np.testing.assert_array_equal(out, [[False] * 3, [True, True, False]])


def test_priorities():
    np.testing.assert_allclose(shaping.priorities([1.0, 0.5, 0.0]), [0, 1 / 3, 2 / 3])
    np.testing.assert_allclose(shaping.priorities([1.0, 1.0]), [0.5, 0.5])
