"""The pieces of the page: what is escaped, what is said when something is missing."""

import pathlib

import pytest

from rlvr_jax.analysis import page
from rlvr_jax.analysis.checks import Check
from rlvr_jax.analysis.page_style import STYLE
from rlvr_jax.analysis.run_folder import Run
from rlvr_jax.statistics import NOTHING, Estimate

HOSTILE = """<img src=x onerror="alert('1')">&amp;"""


def a_run(**fields):
    empty = {"metrics": (), "evals": (), "samples": (), "config": {}, "summary": {}}
    return Run(workdir=pathlib.Path("x"), **empty | fields)


def sample(step, index=0, **changes):
    row = {"step": step, "stage": "rl", "split": "test", "index": index, "sample": 0}
    row |= {"prompt": f"p{index}", "gold": "2", "completion": "2", "status": "scored"}
    row |= {"correct": True, "reward": 1.0, "num_tokens": 1, "stop_reason": "eos", "reason": ""}
    return row | changes


def test_escape_leaves_nothing_that_could_be_markup():
    text = page.escape(HOSTILE)
    assert not set("<>\"'") & set(text) and "&amp;amp;" in text
    assert page.escape("a\nb\tc") == "a\nb\tc"
    assert page.escape("\x00\x1b\u202e\u200b") == "\N{REPLACEMENT CHARACTER}" * 4
    assert page.escape("naïve ✓ 数学") == "naïve ✓ 数学"
    assert page.escape(3.5) == "3.5"


def test_estimates_with_and_without_a_value():
    assert page.estimate(Estimate(0.5, 0.4, 0.6, 9)).startswith("0.500 ")
    assert "[0.400, 0.600]" in page.estimate(Estimate(0.5, 0.4, 0.6, 9).to_json())
    for missing in (None, NOTHING, NOTHING.to_json()):
        assert "not measured" in page.estimate(missing)


def test_labels_heads_titles_and_captions_are_escaped():
    for text in (
        page.cards([(HOSTILE, "1")]),
        page.table([HOSTILE], []),
        page.picture(HOSTILE, b"png", HOSTILE),
        page.page(HOSTILE, "fine", []),
        page.checks_table([Check(HOSTILE, False, HOSTILE, HOSTILE)]),
    ):
        assert "<img src=x" not in text and "onerror=&quot;" in text


def test_a_stage_without_numbers_says_so():
    stage = dict.fromkeys(("pass1_before", "pass1_after", "pass1_change", "tokens_per_s"))
    text = page.stage_table([stage | {"stage": "sft", "steps": 0, "minutes": 0.0}])
    assert text.count("not measured") == 3 and text.count("n/a") == 1


def test_checks_show_good_and_bad():
    unknown = Check("c", None, "not known", "z")
    text = page.checks_table([Check("a", True, "1", "x"), Check("b", False, "2", "y"), unknown])
    assert text.count(">?</span>") == 1
    assert text.count('class="ok"') == 1 and text.count('class="bad"') == 1


def test_hostile_samples_stay_text():
    row = sample(0, prompt=HOSTILE, gold=HOSTILE, completion=HOSTILE, reason=HOSTILE, correct=False)
    text = page.samples_section(a_run(samples=(row,)), "rl")
    assert "<img" not in text and text.count("onerror=&quot;") == 4


def test_only_before_is_known():
    text = page.samples_section(a_run(samples=(sample(0),)), "rl")
    assert "not yet" in text and "0 went from wrong to right" in text


def test_samples_between_the_two_ends_are_left_to_the_file():
    rows = tuple(sample(step, completion=f"at {step}") for step in (0, 5, 10))
    text = page.samples_section(a_run(samples=rows), "rl")
    assert "at 0" in text and "at 10" in text and "at 5" not in text


def test_a_sample_nobody_could_judge_is_neither_right_nor_wrong():
    rows = (sample(0, status="unknown", correct=False), sample(3))
    text = page.samples_section(a_run(samples=rows), "rl")
    assert text.count("? not judged") == 1 and "✗" not in text


@pytest.mark.parametrize("count", [3, page.MAX_SAMPLES + 5])
def test_long_tables_are_cut_and_say_so(count):
    rows = tuple(sample(step, index) for step in (0, 1) for index in range(count))
    text = page.samples_section(a_run(samples=rows), "rl")
    assert text.count("<tr>") - 1 == min(count, page.MAX_SAMPLES)
    assert ("are shown" in text) == (count > page.MAX_SAMPLES)
    assert f"{count} stayed right" in text


def test_a_prompt_that_exists_in_two_splits_is_two_prompts():
    rows = (sample(0), sample(0, split="train"))
    assert len(page.pair_samples(a_run(samples=rows), "rl")) == 2
    assert page.pair_samples(a_run(samples=rows), "sft") == []


def test_the_record_folds_the_configuration():
    summary = {"command": "rlvr run", "seeds": {"run": 3}, "versions": {"jax": "0.10"}}
    text = page.record_section(a_run(config={"note": HOSTILE}, summary=summary))
    for piece in ("rlvr run", "seeds.run", "versions.jax", "<details>"):
        assert piece in text
    assert "<img" not in text
    assert page.record_section(a_run()) == ""


def test_the_style_knows_light_and_dark_and_fetches_nothing():
    assert "prefers-color-scheme: dark" in STYLE
    assert "url(" not in STYLE and "@import" not in STYLE and "</style" not in STYLE
