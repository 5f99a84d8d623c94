"""Faults of the data are found before the first step, with file and line, split and size."""

import dataclasses
import json
import logging

import pytest

from rlvr_jax import preflight
from rlvr_jax.config import build
from rlvr_jax.preflight import check_data
from rlvr_jax.setup import open_run
from rlvr_jax.tasks import TASKS
from rlvr_jax.text import char_tokenizer

TOKENIZER = char_tokenizer()


def config(tmp_path, train, test=None, **sections):
    """A run on these rows; a train row is (prompt, gold) or (prompt, gold, solution)."""
    task = {"name": "jsonl", "prompt_column": "q", "answer_column": "a"}
    for name, rows in (("train", train), ("test", test or [("9+9=", "18")])):
        keys = ("q", "a", "s")
        lines = [json.dumps(dict(zip(keys, row, strict=False))) for row in rows]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
        task[f"{name}_path"] = str(tmp_path / f"{name}.jsonl")
    if len(train[0]) == 3:
        task["solution_column"] = "s"
    decode = {"max_prompt_tokens": 10, "max_new_tokens": 8, "chunk": 8}
    return build({"task": task, "decode": decode} | sections)


def check(run):
    return check_data(run, TOKENIZER, run.task.split("train"), run.task.split("test"))


GOOD = [(f"{i}+1=", str(i + 1)) for i in range(9)]


def test_sound_data_pass(tmp_path):
    assert check(config(tmp_path, GOOD)) == 10


def test_a_long_prompt_is_placed_and_the_longest_is_told(tmp_path):
    run = config(tmp_path, [*GOOD[:2], ("1" * 11, "1"), GOOD[3], ("1" * 14, "1")])
    said = (
        r"train.jsonl:3 \(train\): the prompt has 11 tokens, decode.max_prompt_tokens allows 10; "
        r"the longest has 14 \(this fault is in 2 of the 5 problems looked at\)"
    )
    with pytest.raises(ValueError, match=said):
        check(run)


def test_the_folder_stays_free_for_the_raised_limit(tmp_path):
    run = config(tmp_path, [*GOOD, ("1" * 11, "1")])
    with pytest.raises(ValueError, match="max_prompt_tokens"), open_run(run, str(tmp_path / "w")):
        pass
    assert not (tmp_path / "w").exists()


def test_the_test_split_is_looked_at_as_far_as_it_is_evaluated(tmp_path):
    test = [("9+9=", "18"), ("1" * 12, "1")]
    with pytest.raises(ValueError, match=r"test.jsonl:2 \(test\): the prompt has 12 tokens"):
        check(config(tmp_path, GOOD, test))
    assert check(config(tmp_path, GOOD, test, eval={"problems": 1})) == 10


@pytest.mark.parametrize("gold", ["seven", "", "1/0", "3 apples"])
def test_a_gold_that_is_no_number_is_refused_under_the_numeric_reward(tmp_path, gold):
    said = r"train.jsonl:2 \(train\): reward Numeric cannot read the gold answer: '.*' \(bad_gold\)"
    with pytest.raises(ValueError, match=said):
        check(config(tmp_path, [GOOD[0], ("1+1=", gold), *GOOD[2:]]))
    sft = {"stages": ("sft",)}  # the gold is not looked at where nothing is rewarded
    assert check(config(tmp_path, [GOOD[0], ("1+1=", gold), *GOOD[2:]], **sft)) == 10


def test_other_rewards_say_what_they_can_at_once(tmp_path):
    rows = [("1+1=", "\\frac{1"), *GOOD]
    with pytest.raises(ValueError, match="train.jsonl:1 .*gold_unparsable"):
        check(config(tmp_path, rows, reward={"name": "math"}))
    with pytest.raises(ValueError, match="train.jsonl:1 .*code: no mode"):
        check(config(tmp_path, [("q", '{"mode": "x"}'), *GOOD], reward={"name": "code"}))
    path = "rlvr_jax.rewards.user_function:exact_match"
    assert check(config(tmp_path, rows, reward={"name": "function", "path": path})) == 11


def test_a_prompt_the_tokenizer_cannot_spell_is_refused(tmp_path):
    rows = [*GOOD, ("1\u4e2d1=", "2")]
    said = r'train.jsonl:10 \(train\): tokenizer "char" has no token for U\+4E2D'
    with pytest.raises(ValueError, match=said):
        check(config(tmp_path, rows))
    with pytest.raises(ValueError, match="has no token for <unk>"):
        check(config(tmp_path, [*GOOD, ("1<unk>", "2")]))


def test_a_few_such_prompts_of_many_are_told(tmp_path, caplog):
    rows = [("1\u200b1=", "2"), *GOOD * 12]
    with caplog.at_level(logging.WARNING):
        assert check(config(tmp_path, rows)) == 110
    assert "train.jsonl:1 (train)" in caplog.text and "U+200B" in caplog.text


def test_solutions_the_tokenizer_cannot_spell_are_told(tmp_path, caplog):
    rows = [("1+1=", "2", "2"), ("1+2=", "3", "\u221a9\u4e2d")]
    with caplog.at_level(logging.WARNING):
        check(config(tmp_path, rows, [("9+9=", "18", "18")], stages=("sft",)))
    assert "train.jsonl:2 (train)" in caplog.text and "U+4E2D" in caplog.text
    assert "U+221A" not in caplog.text and len(caplog.records) == 1


def test_a_curriculum_that_meets_no_prompt_twice_is_told(tmp_path, caplog):
    rl = {"curriculum": {"retire_at": 0.9}, "rollout": {"prompts": 3}}
    check(config(tmp_path, GOOD, rl={"steps": 4}, **rl))
    assert "nothing to do" not in caplog.text
    check(config(tmp_path, GOOD, rl={"steps": 3}, **rl))
    assert "3 steps of 3 prompts meet each of 9 problems once" in caplog.text


def test_what_cannot_be_encoded_is_placed(tmp_path):
    with pytest.raises(ValueError, match=r"train.jsonl:2 \(train\): .*BOS"):
        check(config(tmp_path, [GOOD[0], ("1<bos>1", "2")]))


def test_of_a_huge_file_the_longest_are_looked_at(tmp_path, monkeypatch):
    monkeypatch.setattr(preflight, "MOST", 3)
    with pytest.raises(ValueError, match="train.jsonl:10 .*1 of the 3 problems"):
        check(config(tmp_path, [*GOOD, ("1" * 11, "1")]))


def test_a_generator_is_looked_at_in_part():
    run = build({"task": {"name": "arithmetic", "size_test": 20}})
    assert check(run) == 64 + 20
    short = dataclasses.replace(run, decode=dataclasses.replace(run.decode, max_prompt_tokens=2))
    with pytest.raises(ValueError, match=r"problem 0 \(train\): the prompt has"):
        check(short)


def test_one_shot_names_the_place_in_the_inner_task(tmp_path):
    inner = TASKS["jsonl"].example(str(tmp_path)).split("train")
    shots = TASKS["one_shot"](first=3, shots=2)
    split = dataclasses.replace(shots.split("train"), split=inner)
    assert [split.where(i) for i in (0, 1, 2)] == [inner.where(i) for i in (3, 4, 3)]
    assert split.preview == 2
