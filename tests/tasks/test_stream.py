"""The order of training: every problem once an epoch, by position alone."""

import pytest

from rlvr_jax.tasks import TASKS, stream


def split(size=20, **fields):
    return TASKS.make("arithmetic", size_train=size, **fields).split("train")


def epoch(ordered, size, number):
    return [ordered[number * size + i].index for i in range(size)]


def test_every_problem_once_an_epoch_in_a_new_order():
    ordered = stream(split(), seed=0)
    epochs = [epoch(ordered, 20, e) for e in range(4)]
    assert all(sorted(e) == list(range(20)) for e in epochs)
    assert len({tuple(e) for e in epochs}) == 4
    assert epochs[0] != list(range(20))


def test_without_shuffle_the_file_order_repeats():
    ordered = stream(split(), seed=0, shuffle=False)
    assert [ordered[i].index for i in range(45)] == [i % 20 for i in range(45)]


def test_a_position_is_all_there_is_to_save():
    straight = stream(split(), seed=5)
    taken = [straight[i] for i in range(50)]
    resumed = stream(split(), seed=5)
    assert [resumed[i] for i in range(33, 50)] == taken[33:]


def test_neighbouring_seeds_share_no_epoch():
    """grain's epochs are seeds in a row: taken as they are, epoch 1 of seed 0 is epoch 0 of 1."""
    orders = [epoch(stream(split(), seed=s), 20, e) for s in range(4) for e in range(4)]
    assert len({tuple(o) for o in orders}) == len(orders)


def test_problem_is_the_split_s_own():
    source = split()
    ordered = stream(source, seed=1)
    assert all(ordered[i] == source[ordered[i].index] for i in range(20))


def test_positions_far_out_and_splits_of_one():
    ordered = stream(split(), seed=0)
    assert 0 <= ordered[10**9].index < 20
    assert [stream(split(1), seed=0)[i].index for i in range(3)] == [0, 0, 0]


def test_negative_seed_is_as_good_as_another():
    assert epoch(stream(split(), seed=-1), 20, 0) != epoch(stream(split(), seed=1), 20, 0)


def test_empty_split():
    with pytest.raises(ValueError, match="empty"):
        stream([], seed=0)
