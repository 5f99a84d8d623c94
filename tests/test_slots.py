"""Which device slot holds which row: sizes, grids, and where rows go."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_jax.slots import MIN_ROWS, Output, bucket, place_rows, plan_grid, prompt_batch


@given(n=st.integers(1, 5000), unit=st.sampled_from([1, 2, 3, 8, 64]))
def test_bucket_holds_n_with_at_most_half_as_much_again(n, unit):
    size = bucket(n, unit)
    assert size >= n and size % unit == 0
    assert size <= max(1.5 * n, n + unit)
    assert bucket(size, unit) == size


def test_bucket_has_few_sizes():
    assert sorted({bucket(n) for n in range(1, 65)}) == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64]


live_counts = st.lists(st.integers(1, 8), min_size=1, max_size=12)


@given(live=live_counts, shards=st.sampled_from([1, 2, 4, 8]))
def test_a_grid_holds_the_live_rows(live, shards):
    height, width = plan_grid(np.array(live), 8, shards)
    assert height % shards == 0 and height * width >= max(MIN_ROWS, sum(live))
    assert int(np.sum(-(-np.array(live) // width))) <= height


@given(data=st.data(), prompts=st.integers(1, 6), group=st.integers(1, 8))
def test_every_live_row_is_placed_once_beside_its_prompt(data, prompts, group):
    cells = st.lists(st.booleans(), min_size=prompts * group, max_size=prompts * group)
    live = np.array(data.draw(cells)).reshape(prompts, group)
    if not live.any():
        live[0, 0] = True
    row = np.arange(prompts * group).reshape(prompts, group) + 100
    grid = plan_grid(live.sum(1)[live.any(1)], group, 1)
    prompt, slot, placed = place_rows(row, live, grid)
    assert sorted(placed[placed >= 0]) == sorted(row[live])
    assert ((slot >= 0) == (placed >= 0)).all()
    assert (row.reshape(-1)[slot[slot >= 0]] == placed[placed >= 0]).all()
    lines, _ = np.nonzero(placed >= 0)
    assert (prompt[lines] == (placed[placed >= 0] - 100) // group).all()


def test_prompts_are_padded_and_unused_slots_marked():
    (tokens, length, uid, sample), row = prompt_batch([[5, 6, 7], [8]], [40, 41], 2, 3, 8, 4)
    assert tokens.shape == (4, 8) and length.tolist() == [3, 1, 1, 1]
    assert tokens[0, :4].tolist() == [5, 6, 7, 0] and uid.tolist() == [40, 41, 0, 0]
    assert row.tolist() == [[0, 1], [2, 3], [-1, -1], [-1, -1]]
    assert sample.tolist() == [[3, 4], [3, 4], [-1, -1], [-1, -1]]


@pytest.mark.parametrize(
    ("prompts", "said"),
    [([[1] * 9], "9 tokens; decode.max_prompt_tokens allows 8"), ([[1], []], "has no tokens")],
)
def test_prompts_that_cannot_be_continued_are_refused(prompts, said):
    with pytest.raises(ValueError, match=said):
        prompt_batch(prompts, range(len(prompts)), 2, 0, 8, 1)


def test_output_files_columns_under_rows_and_clears_what_comes_after_the_end():
    out = Output.start(2, 4)
    row = np.array([[1, -1], [0, -1]])
    tokens = np.array([[[7, 8], [9, 9]], [[5, 6], [9, 9]]])
    length, done = np.array([[1, 0], [2, 0]]), np.array([[True, True], [False, True]])
    out.take(row, 0, (tokens, tokens / 10, tokens > 5, length, done, 2))
    assert not out.complete(4) and out.complete(2)
    samples = out.finish()
    assert samples.tokens_BT.tolist() == [[5, 6], [7, 0]]
    assert samples.logp_BT[1].tolist() == pytest.approx([0.7, 0.0])
    assert samples.forced_BT.tolist() == [[False, True], [True, False]]
    assert samples.drawn_BT.tolist() == [[True, False], [False, False]]
    assert samples.eos_B.tolist() == [False, True]
    assert (samples.decode_steps, samples.decode_rows) == (2, 8)
