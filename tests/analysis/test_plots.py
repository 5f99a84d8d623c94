"""Pictures: drawn when there is data, None when there is none, nothing global touched."""

import io
import math

import matplotlib
import numpy as np
import pytest

from rlvr_jax.analysis.plots import PLOTS, eval_curve, smooth
from rlvr_jax.analysis.run_folder import read_run


def png(figure):
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=40)
    return buffer.getvalue()


@pytest.mark.parametrize("name", PLOTS)
def test_every_picture_of_a_finished_and_a_partial_run(name, finished, partial):
    before = dict(matplotlib.rcParams)
    for workdir in (finished, partial):
        figure = PLOTS[name].draw(read_run(workdir))
        assert png(figure).startswith(b"\x89PNG")
        assert figure.get_suptitle() and figure.patch.get_alpha() == 0
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("name", PLOTS)
def test_no_data_no_picture(name, tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "stage": "rl", "other": 1}\n')
    assert PLOTS[name].draw(read_run(tmp_path)) is None


@pytest.mark.parametrize("name", PLOTS)
def test_one_single_row_and_nulls_are_drawn(name, tmp_path):
    names = ("reward/mean", "sft/loss", "len/correct", "policy/entropy", "policy/kl_ref_k3")
    names += ("mismatch/abs_max", "group/all_right_frac", "group/all_wrong_frac", "time/update")
    row = ", ".join(f'"{name}": 0' for name in names)
    (tmp_path / "metrics.jsonl").write_text(
        f'{{"step": 1, "stage": "rl", {row}, "len/incorrect": null}}\n'
    )
    figure = PLOTS[name].draw(read_run(tmp_path))
    assert figure is None or png(figure)


def test_the_pipeline_has_a_panel_for_each_stage(finished):
    axes = eval_curve(read_run(finished)).axes
    assert [a.get_xlabel() for a in axes] == ["sft step", "rl step"]
    texts = [float(t.get_text()) for t in axes[1].texts]
    assert texts[0] < 0.65 and texts[-1] > 0.85


def test_smoothing_keeps_constants_lengths_and_short_series():
    np.testing.assert_allclose(smooth(np.full(100, 3.0)), 3.0)
    for count in (1, 2, 5):
        np.testing.assert_allclose(smooth(np.arange(count, dtype=float)), np.arange(count))
    line = smooth(np.arange(200, dtype=float))
    np.testing.assert_allclose(line[20:-20], np.arange(200)[20:-20])
    noise = np.random.default_rng(0).normal(size=1000)
    assert smooth(noise).std() < 0.3 and math.isclose(noise[:31].mean(), smooth(noise)[0])


def test_the_kl_is_found_under_either_name(tmp_path):
    rows = [f'{{"step": {i}, "stage": "rl", "policy/kl_ref_k3": {i / 10}}}' for i in range(5)]
    (tmp_path / "metrics.jsonl").write_text("\n".join(rows) + "\n")
    assert png(PLOTS["kl"].draw(read_run(tmp_path)))
