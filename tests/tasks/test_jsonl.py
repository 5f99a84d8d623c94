"""A user's own files through configuration alone."""

import logging

import pytest

from rlvr_jax.tasks import TASKS
from rlvr_jax.tasks.rows import write_rows


def rows(numbers, **extra):
    return [{"ask": f"{n}?", "gold": f"so #### {n}", "level": n % 3, **extra} for n in numbers]


def jsonl(tmp_path, train, test=None, **fields):
    """A task over these rows, its columns named ask and gold."""
    write_rows(tmp_path / "train.jsonl", train)
    paths = {"train_path": str(tmp_path / "train.jsonl")}
    if test is not None:
        write_rows(tmp_path / "test.jsonl", test)
        paths["test_path"] = str(tmp_path / "test.jsonl")
    elif "test_fraction" not in fields:
        fields["test_fraction"] = 0.2
    return TASKS.make(
        "jsonl", **paths, **{"prompt_column": "ask", "answer_column": "gold"} | fields
    )


def prompts(task, name):
    return [p.prompt for p in task.split(name)]


def test_two_files(tmp_path):
    task = jsonl(tmp_path, rows(range(5)), rows(range(10, 13)), answer_pattern="#### (.*)")
    assert [(p.index, p.prompt, p.answer) for p in task.split("test")] == [
        (0, "10?", "10"),
        (1, "11?", "11"),
        (2, "12?", "12"),
    ]
    assert prompts(task, "train") == ["0?", "1?", "2?", "3?", "4?"]


def test_every_column_is_in_meta(tmp_path):
    problem = jsonl(tmp_path, rows([4], tags=["x", None]), rows([1])).split("train")[0]
    assert problem.meta == {"ask": "4?", "gold": "so #### 4", "level": 1, "tags": ["x", None]}
    assert problem.answer == "so #### 4" and problem.solution is None


def test_solution_column(tmp_path):
    task = jsonl(tmp_path, rows([4], how="easy"), rows([1], how="so"), solution_column="how")
    assert task.split("train")[0].solution == "easy"


def test_task_without_gold(tmp_path):
    task = jsonl(tmp_path, [{"ask": "a"}], [{"ask": "b"}], answer_column="")
    assert task.split("train")[0].answer == ""


def test_conversations(tmp_path):
    turns = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    task = jsonl(tmp_path, [{"ask": turns, "gold": 1}], [{"ask": turns[1:], "gold": 2}])
    assert task.split("train")[0].prompt == tuple(turns)


def test_fraction_is_split_by_content(tmp_path):
    task = jsonl(tmp_path, rows(range(1000)), test_fraction=0.2)
    train, test = prompts(task, "train"), prompts(task, "test")
    assert len(train) + len(test) == 1000 and not set(train) & set(test)
    assert 150 < len(test) < 250
    # Neither the order of the file nor rows added later move a problem to the other side.
    more = jsonl(tmp_path, rows(reversed(range(1100))), test_fraction=0.2)
    assert set(test) <= set(prompts(more, "test")) and set(train) <= set(prompts(more, "train"))


def test_equal_prompts_stay_on_one_side(tmp_path):
    task = jsonl(tmp_path, rows(range(50)) * 3, test_fraction=0.3)
    assert not set(prompts(task, "train")) & set(prompts(task, "test"))


def test_train_rows_that_are_in_the_test_file_are_left_out(tmp_path, caplog):
    task = jsonl(tmp_path, rows(range(6)), rows([2, 4, 9]))
    with caplog.at_level(logging.WARNING):
        assert prompts(task, "train") == ["0?", "1?", "3?", "5?"]
    assert "2 train rows are also in the test file" in caplog.text
    assert [p.index for p in task.split("train")] == [0, 1, 2, 3]


def test_limit(tmp_path):
    task = jsonl(tmp_path, rows(range(9)), rows(range(10, 15)), limit=3)
    assert prompts(task, "train") == ["0?", "1?", "2?"] and len(task.split("test")) == 3


def test_fingerprint_is_of_content_and_options_not_of_paths(tmp_path):
    (tmp_path / "moved").mkdir()
    base = jsonl(tmp_path, rows(range(5)), rows([9])).split("train").fingerprint()
    moved = jsonl(tmp_path / "moved", rows(range(5)), rows([9])).split("train").fingerprint()
    assert base == moved
    for changed in (
        jsonl(tmp_path, rows(range(5)), rows([8])),
        jsonl(tmp_path, rows(range(5)), rows([9]), answer_pattern="#### (.*)"),
        jsonl(tmp_path, rows(range(5)), rows([9]), limit=2),
        jsonl(tmp_path, rows(range(6)), rows([9])),
    ):
        assert changed.split("train").fingerprint() != base


@pytest.mark.parametrize(
    ("bad", "fields", "message"),
    [
        ({"ask": "x"}, {}, 'no column "gold"'),
        ({"ask": "x", "golde": 1}, {}, 'no column "gold"; did you mean "golde"'),
        ({"gold": 1}, {}, 'no column "ask"'),
        ({"ask": 3, "gold": 1}, {}, 'column "ask" must be non-empty text or a list'),
        ({"ask": "x", "gold": None}, {}, 'column "gold" must be text or a number, got NoneType'),
        ({"ask": "x", "gold": "7"}, {"answer_pattern": "#### (.*)"}, "does not match.*'7'"),
        ({"ask": "x", "gold": "9"}, {"answer_pattern": "(8)|9"}, "does not match"),
        ({"ask": "x", "gold": 1, "how": []}, {"solution_column": "how"}, 'column "how" must'),
        ({"ask": "x", "gold": 1, "how": " "}, {"solution_column": "how"}, 'column "how" is empty'),
    ],
)
def test_faulty_row_is_named(tmp_path, bad, fields, message):
    good = {"ask": "good", "gold": "7 #### 8", "how": "so"}
    task = jsonl(tmp_path, [good, good, bad], [{**good, "ask": "t"}], **fields)
    with pytest.raises(ValueError, match=message) as error:
        task.split("train")
    assert str(error.value).startswith(str(tmp_path / "train.jsonl") + ":3: ")


def test_fraction_that_leaves_a_side_empty(tmp_path):
    with pytest.raises(ValueError, match="no problem is left for this split"):
        task = jsonl(tmp_path, rows([1]), test_fraction=0.5)
        task.split("train"), task.split("test")


def test_home_folder_is_expanded(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    write_rows(tmp_path / "a.jsonl", [{"prompt": f"{i}", "answer": i} for i in range(50)])
    with pytest.raises(ValueError, match="test_path is train_path"):
        TASKS.make("jsonl", train_path="~/a.jsonl", test_path=str(tmp_path / "a.jsonl"))
    task = TASKS.make("jsonl", train_path="~/a.jsonl", test_fraction=0.5)
    assert task.files == ("~/a.jsonl",)
    assert len(task.split("train")) + len(task.split("test")) == 50


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"train_path": ""}, "train_path is empty"),
        ({}, r"give test_path or test_fraction \(neither is set\)"),
        ({"test_path": "b", "test_fraction": 0.1}, r"\(both are set\)"),
        ({"test_path": "./a"}, "test_path is train_path"),
        ({"test_fraction": 0.95}, "test_fraction must be a number in 0..0.9, got 0.95"),
        ({"test_fraction": 0.1, "prompt_column": ""}, "prompt_column is empty"),
        ({"test_fraction": 0.1, "limit": -1}, "limit must be at least 0"),
        ({"test_fraction": 0.1, "answer_pattern": "("}, "answer_pattern '\\('"),
        ({"test_fraction": 0.1, "answer_pattern": "x"}, "has no group"),
        ({"test_fraction": 0.1, "answer_pattern": "(x)", "answer_column": ""}, "has no effect"),
        ({"test_fraction": 0.1, "promt_column": "x"}, 'did you mean "prompt_column"'),
    ],
)
def test_wrong_values_say_what_is_allowed(fields, message):
    with pytest.raises(ValueError, match=message):
        TASKS.make("jsonl", **{"train_path": "a"} | fields)
