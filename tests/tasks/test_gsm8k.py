"""GSM8K: gold, working, faults; and the real files where they are."""

import gzip
import pathlib
import re
import sys
import types

import pytest

from rlvr_jax.tasks import TASKS
from rlvr_jax.tasks.rows import write_rows

SHARED = pathlib.Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "gsm8k"
TRAIN = [
    {
        "question": "Ann sells 48 clips, then half as many. How many in all?",
        "answer": "Then 48/2 = <<48/2=24>>24 clips.\nIn all 48+24 = <<48+24=72>>72.\n#### 72",
    },
    {"question": "Big?", "answer": "1000*2=$<<1000*2=2000>>2000\n#### 2,000"},
    {"question": "Below?", "answer": "It fell.\n#### -3.50 "},
]
TEST = [{"question": "Two and two?", "answer": "#### 4"}]


def gsm8k(tmp_path, train=TRAIN, **fields):
    write_rows(tmp_path / "train.jsonl", train)
    write_rows(tmp_path / "test.jsonl", TEST)
    return TASKS.make("gsm8k", path=str(tmp_path), **fields)


def test_gold_has_no_commas(tmp_path):
    assert [p.answer for p in gsm8k(tmp_path).split("train")] == ["72", "2000", "-3.50"]
    assert [p.answer for p in gsm8k(tmp_path).split("test")] == ["4"]


def test_solution_is_the_working_in_the_answer_form(tmp_path):
    problem = gsm8k(tmp_path).split("train")[0]
    assert problem.solution == (
        "<think>Then 48/2 = 24 clips.\nIn all 48+24 = 72.</think><answer>72</answer>"
    )
    kept = gsm8k(tmp_path, annotations=True).split("train")[0]
    assert "= <<48/2=24>>24 clips" in kept.solution
    assert problem.meta == TRAIN[0]


def test_limit_and_gzip(tmp_path):
    task = gsm8k(tmp_path, limit=2)
    assert len(task.split("train")) == 2
    assert task.files == (f"{tmp_path}/train.jsonl", f"{tmp_path}/test.jsonl")
    plain = (tmp_path / "train.jsonl").read_bytes()
    (tmp_path / "train.jsonl").unlink()
    (tmp_path / "train.jsonl.gz").write_bytes(gzip.compress(plain))
    assert len(task.split("train")) == 2
    assert task.files == (f"{tmp_path}/train.jsonl.gz", f"{tmp_path}/test.jsonl")
    assert TASKS.make("gsm8k").files == ()  # the hub's


@pytest.mark.parametrize("answer", ["72", "#### ", "####", ""])
def test_answer_without_gold_is_named(tmp_path, answer):
    task = gsm8k(tmp_path, [TRAIN[0], {"question": "?", "answer": answer}])
    with pytest.raises(ValueError, match=r'train.jsonl:2: column "answer" lacks "#### number"'):
        task.split("train")


def test_faults_of_the_configuration(tmp_path):
    with pytest.raises(ValueError, match="path must be a folder with train.jsonl"):
        TASKS.make("gsm8k", path=str(tmp_path / "absent")).split("train")
    with pytest.raises(ValueError, match="test.jsonl: no such file"):
        TASKS.make("gsm8k", path=str(tmp_path)).split("test")
    with pytest.raises(ValueError, match="both empty"):
        TASKS.make("gsm8k", dataset="")
    with pytest.raises(ValueError, match="limit must be at least 0"):
        TASKS.make("gsm8k", limit=-1)


def test_without_the_extra_the_message_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(
        ValueError, match=r'extra "hub" \(pip install "rlvr-jax\[hub\]"\), or set path'
    ):
        TASKS.make("gsm8k").split("train")


def hub(monkeypatch, load):
    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load))


def test_from_the_hub_equals_from_files(monkeypatch, tmp_path):
    asked = []

    def load(name, subset, split):
        asked.append((name, subset, split))
        return TRAIN if split == "train" else TEST

    hub(monkeypatch, load)
    split = TASKS.make("gsm8k").split("train")
    assert asked == [("openai/gsm8k", "main", "train"), ("openai/gsm8k", "main", "test")]
    files = gsm8k(tmp_path).split("train")
    assert list(split) == list(files) and split.fingerprint() == files.fingerprint()


def test_hub_that_cannot_be_reached_is_one_line(monkeypatch):
    def load(name, subset, split):
        raise ConnectionError("no route to the hub\nand a second line")

    hub(monkeypatch, load)
    with pytest.raises(ValueError, match=r'"openai/gsm8k" \(main\): no route to the hub$'):
        TASKS.make("gsm8k").split("test")


@pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/data/gsm8k is absent")
@pytest.mark.parametrize(("name", "size"), [("train", 7473), ("test", 1319)])
def test_real_files(name, size):
    split = TASKS.make("gsm8k", path=str(SHARED)).split(name)
    assert len(split) == size
    for problem in split:
        assert re.fullmatch(r"-?\d+(\.\d+)?", problem.answer), problem
        assert "<<" not in problem.solution and "####" not in problem.solution
        assert problem.solution.endswith(f"</think><answer>{problem.answer}</answer>")
