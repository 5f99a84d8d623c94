"""summary.json and report.html: the numbers, the words, and text nobody may trust."""

import html.parser
import json
import re
import shutil
import subprocess
import sys

import pytest

from rlvr_jax.analysis import page
from rlvr_jax.analysis.run_folder import read_run
from rlvr_jax.report import (
    config_hash,
    final_lines,
    headline,
    summarize,
    verdict_of,
    versions,
    write_report,
    write_summary,
)
from rlvr_jax.statistics import Estimate


@pytest.fixture(scope="module")
def reported(finished, tmp_path_factory):
    workdir = shutil.copytree(finished, tmp_path_factory.mktemp("reported") / "run")
    write_summary(
        workdir,
        config=json.loads((workdir / "config.json").read_text()),
        command="rlvr run --config=configs/quickstart.py --note='<i>'",
        seeds={"run": 0},
        data_hashes={"arithmetic/test": "ab" * 32},
        hardware={"platform": "cpu", "devices": 1},
    )
    write_report(workdir)
    return workdir


def test_the_summary_has_one_entry_a_stage(reported):
    summary = json.loads((reported / "summary.json").read_text())
    sft, rl = summary["stages"]
    assert (sft["stage"], sft["steps"], rl["stage"], rl["steps"]) == ("sft", 900, "rl", 150)
    for entry in (sft, rl):
        for name in ("pass1_before", "pass1_after", "pass1_change"):
            assert set(entry[name]) == {"value", "ci95", "n"}
            assert entry[name]["ci95"][0] <= entry[name]["value"] <= entry[name]["ci95"][1]
    assert rl["pass1_before"]["ci95"][1] < rl["pass1_after"]["ci95"][0]
    assert sft["minutes"] == pytest.approx(36 * 2.01 / 60)
    assert rl["tokens_per_s"] == pytest.approx(5600 / 1.06, rel=0.01)
    assert rl["reward_last"] > rl["reward_first"]
    for name in ("pass1_before", "pass1_after", "steps", "minutes", "tokens_per_s"):
        assert summary[name] == rl[name]


def test_the_summary_says_how_to_repeat_the_run(reported):
    summary = json.loads((reported / "summary.json").read_text())
    assert summary["config_sha256"] == config_hash(
        json.loads((reported / "config.json").read_text())
    )
    assert summary["seeds"] == {"run": 0} and summary["command"].startswith("rlvr run")
    assert {"python", "numpy", "rlvr-jax", "jax"} <= set(summary["versions"])
    assert summary["hardware"]["platform"] == "cpu" and summary["hardware"]["cores"] >= 1


def test_the_config_hash_sees_values_not_order():
    assert config_hash({"a": 1, "b": 2}) == config_hash({"b": 2, "a": 1})
    assert config_hash({"a": 1}) != config_hash({"a": 1.5})
    assert versions()["python"].startswith("3.")


class Tags(html.parser.HTMLParser):
    """Every tag and attribute of a page, and whether the tags close."""

    def __init__(self):
        super().__init__()
        self.tags, self.open, self.links = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [v for k, v in attrs if k in ("src", "href") or k.startswith("on")]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_stands_alone_and_is_well_formed(reported):
    text = (reported / "report.html").read_text(encoding="utf-8")
    tags = Tags()
    tags.feed(text)
    assert tags.open == [] and {"script", "iframe", "link", "a", "form"}.isdisjoint(tags.tags)
    assert tags.tags.count("img") == 10
    assert all(link.startswith("data:image/png;base64,") for link in tags.links)
    assert "default-src 'none'" in text
    assert len(list((reported / "plots").glob("*.png"))) == 10


def test_text_of_models_is_shown_not_obeyed(reported):
    text = (reported / "report.html").read_text(encoding="utf-8")
    assert "<script>alert" not in text and "&lt;script&gt;alert" in text
    assert "&lt;i&gt;" in text and "<i>" not in text
    assert "\x1b" not in text and "\u202e" not in text


def test_the_headline_says_what_was_learned(reported):
    text = (reported / "report.html").read_text(encoding="utf-8")
    plain = re.sub(r"<[^>]+>", "", re.search(r"<h1>(.*?)</h1>", text).group(1))
    assert re.fullmatch(
        r"pass@1 on test rose from 0\.\d\d \[0\.\d\d, 0\.\d\d\] to 0\.\d\d \[0\.\d\d, 0\.\d\d\] "
        r"in 150 steps of rl, 3\.\d minutes\.",
        plain,
    )
    assert "not finished" not in text


def test_the_same_prompts_stand_side_by_side(reported):
    run = read_run(reported)
    pairs = page.pair_samples(run, "rl")
    assert len(pairs) == 12
    for before, after in pairs:
        assert before[0]["prompt"] == after[0]["prompt"]
        assert (before[0]["step"], after[0]["step"]) == (0, 150)
    section = page.samples_section(run, "rl")
    right = sum(after[0]["correct"] for _, after in pairs)
    wrong = sum(not before[0]["correct"] for before, _ in pairs)
    assert section.count("✓ right") >= right and section.count("✗ wrong") >= wrong


def test_several_samples_of_a_prompt_are_counted_not_repeated(tmp_path):
    base = {"stage": "rl", "split": "test", "index": 0, "prompt": "1+1=", "gold": "2"}
    base |= {"completion": "2", "status": "scored", "reward": 1.0, "num_tokens": 2, "reason": ""}
    rows = [
        base | {"step": step, "sample": i, "correct": i < 3, "stop_reason": "length"}
        for step in (0, 5)
        for i in range(4)
    ]
    (tmp_path / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "stage": "rl"}\n')
    section = page.samples_section(read_run(tmp_path), "rl")
    assert section.count("3 of 4 right") == 2 and section.count("cut off at the limit") == 2


def test_a_partial_run_has_a_report_too(partial):
    text = write_report(partial).read_text(encoding="utf-8")
    assert "has not finished" in text and "60 steps of rl" in text


def test_a_run_of_one_row_has_a_report(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "stage": "<rl>", "reward/mean": 0.5}\n')
    text = write_report(tmp_path).read_text(encoding="utf-8")
    assert "no evaluation before and after yet" in text and "<rl>" not in text
    assert final_lines(tmp_path)[0].startswith("1 steps of <rl>")


def test_reports_can_be_repeated(reported):
    first = (reported / "report.html").read_bytes()
    assert write_report(reported).read_bytes() == first


def test_the_last_lines_of_a_run(reported):
    lines = final_lines(reported)
    assert lines[0].startswith("pass@1 on test rose from") and "900 steps of sft" in lines[0]
    assert "150 steps of rl" in lines[1] and "█" in lines[2]
    assert lines[-2] == f"report: {reported / 'report.html'}"


def entry(before, after, difference):
    return {
        "stage": "rl",
        "set": "test",
        "steps": 10,
        "minutes": 1.0,
        "pass1_before": Estimate(*before, 50).to_json(),
        "pass1_after": Estimate(*after, 50).to_json(),
        "pass1_change": difference and Estimate(*difference, 50).to_json(),
    }


def test_words_follow_the_interval_not_the_wish():
    up = entry((0.5, 0.4, 0.6), (0.6, 0.5, 0.7), (0.1, 0.02, 0.18))
    same = entry((0.5, 0.4, 0.6), (0.6, 0.5, 0.7), (0.1, -0.02, 0.22))
    down = entry((0.5, 0.4, 0.6), (0.1, 0.0, 0.2), None)
    overlap = entry((0.5, 0.4, 0.6), (0.6, 0.5, 0.7), None)
    assert [verdict_of(e) for e in (up, same, down, overlap)] == [
        "rose",
        "did not measurably change",
        "fell",
        "did not measurably change",
    ]
    assert headline(same).startswith("pass@1 on test did not measurably change: from 0.500")


def test_no_run_is_one_clear_error(tmp_path):
    with pytest.raises(ValueError, match="no run in"):
        write_report(tmp_path)


def test_stages_come_in_the_order_of_the_run(finished):
    assert [stage["stage"] for stage in summarize(read_run(finished))] == ["sft", "rl"]


def test_the_report_needs_no_jax_and_no_pyplot():
    code = (
        "import sys, rlvr_jax.report\n"
        "assert not {'jax', 'tensorflow', 'matplotlib.pyplot'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
