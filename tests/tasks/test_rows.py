"""JSON lines: what is accepted, and that every fault names the file and the line."""

import gzip
import json
import os
import time

import pytest

from rlvr_jax.tasks.rows import Row, came, file_sha256, read_rows, write_rows

GOOD = b'{"a": 1}\n'


def file(tmp_path, content: bytes, name="data.jsonl") -> str:
    path = tmp_path / name
    path.write_bytes(content)
    return str(path)


def test_rows_know_their_line(tmp_path):
    path = file(tmp_path, b'{"a": 1}\n\n  \n{"a": "x"}')
    rows = read_rows(path)
    assert [r.columns for r in rows] == [{"a": 1}, {"a": "x"}]
    assert [r.where for r in rows] == [f"{path}:1", f"{path}:4"]


@pytest.mark.parametrize("name", ["data.jsonl.gz", "data.jsonl"])
def test_gzip_by_content_not_by_name(tmp_path, name):
    path = file(tmp_path, gzip.compress(GOOD * 3), name)
    assert len(read_rows(path)) == 3
    assert file_sha256(path) == file_sha256(file(tmp_path, GOOD * 3, "plain"))


def test_line_separators_inside_strings_do_not_cut(tmp_path):
    row = {"a": "x\u2028y\u2029z\x85\x0c"}
    write_rows(str(tmp_path / "x"), [row, row])
    assert [r.columns for r in read_rows(str(tmp_path / "x"))] == [row, row]


def test_windows_line_ends_and_byte_order_mark(tmp_path):
    path = file(tmp_path, b"\xef\xbb\xbf" + b'{"a": 1}\r\n{"a": 2}\r\n')
    assert [r.columns["a"] for r in read_rows(path)] == [1, 2]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"a": 1', r"not JSON: Expecting ',' delimiter at column 8, in \{\"a\": 1"),
        (b"a,b,c", "not JSON: Expecting value at column 1"),
        (b"[1, 2]", r"must be a JSON object, got list: \[1, 2\]"),
        (b'"text"', "must be a JSON object, got str"),
        (b'{"a": "\xff"}', "not UTF-8 at byte 8"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", "holds a number of more than 4300 digits"),
        (b'{"a": "\\ud800"}', "surrogate pair"),
        (b'{"a": 1, "b": {"digits": 2, "digits": 3}}', 'has the key "digits" twice'),
        (b'{"a": 1} {"a": 2}', "not JSON: Extra data at column 10"),
    ],
)
def test_malformed_line_is_named(tmp_path, line, message):
    path = file(tmp_path, GOOD + b"\n" + line + b"\n" + GOOD)
    with pytest.raises(ValueError, match=message) as error:
        read_rows(path)
    assert str(error.value).startswith(f"{path}:3: ")
    assert "\n" not in str(error.value) and len(str(error.value)) < len(path) + 300


def test_whole_surrogate_pairs_are_text(tmp_path):
    path = file(tmp_path, b'{"a": "\\ud83d\\ude00"}')
    assert read_rows(path)[0].columns["a"] == "\U0001f600"


@pytest.mark.parametrize("content", [b"", b"\n \n", gzip.compress(b"", mtime=0)])
def test_empty_file(tmp_path, content):
    with pytest.raises(ValueError, match="data.jsonl: the file holds no records"):
        read_rows(file(tmp_path, content))


def test_missing_file_names_the_near_one(tmp_path):
    file(tmp_path, GOOD, "train.jsonl")
    with pytest.raises(ValueError, match='no such file; did you mean "train.jsonl"'):
        read_rows(str(tmp_path / "trian.jsonl"))
    with pytest.raises(ValueError, match="no such file$"):
        read_rows(str(tmp_path / "nowhere" / "train.jsonl"))
    with pytest.raises(ValueError, match="is a device or a pipe, not a file$"):
        read_rows(os.devnull)
    with pytest.raises(ValueError, match="is a folder, not a file$"):
        read_rows(str(tmp_path))
    with pytest.raises(ValueError, match="no such file"):
        file_sha256(str(tmp_path / "absent"))


def test_damaged_gzip(tmp_path):
    whole = gzip.compress(GOOD * 1000)
    for content in (whole[:-12], whole[:20] + b"\0\0\0\0" + whole[24:]):
        with pytest.raises(ValueError, match="cannot be read"):
            read_rows(file(tmp_path, content, f"{len(content)}.gz"))


def test_file_is_read_once_while_unchanged(tmp_path):
    path = file(tmp_path, GOOD)
    first = read_rows(path)
    assert read_rows(path) is first
    file(tmp_path, GOOD * 2)
    assert len(read_rows(path)) == 2


def test_hundred_thousand_lines_are_fast(tmp_path):
    line = json.dumps({"question": "How many? " * 10, "answer": "#### 7", "level": 3}).encode()
    path = file(tmp_path, (line + b"\n") * 100_000)
    start = time.perf_counter()
    assert len(read_rows(path)) == 100_000
    assert time.perf_counter() - start < 10  # about 0.7 s on a free core


def row(**columns) -> Row:
    return Row("f.jsonl:7", columns)


def test_missing_column_names_the_near_one():
    with pytest.raises(ValueError, match='f.jsonl:7: no column "anser"; did you mean "answer"'):
        row(question="?", answer=1).text("anser")
    with pytest.raises(ValueError, match=r"\(there are: none\)"):
        row().text("answer")


@pytest.mark.parametrize(("value", "text"), [(" 7 ", "7"), (7, "7"), (-1.5, "-1.5"), ("", "")])
def test_text_column(value, text):
    assert row(a=value).text("a") == text


@pytest.mark.parametrize("value", [None, True, [1], {"b": 1}])
def test_text_column_of_a_wrong_type(value):
    with pytest.raises(ValueError, match='column "a" must be text or a number, got'):
        row(a=value).text("a")


def test_prompt_column():
    assert row(a="why? ").prompt("a") == "why? "
    messages = [{"role": "user", "content": "why?", "name": "Ann"}]
    assert row(a=messages).prompt("a") == ({"role": "user", "content": "why?"},)


@pytest.mark.parametrize("value", [None, "", "  ", [], 7, {"role": "user", "content": "x"}])
def test_prompt_column_of_a_wrong_type(value):
    with pytest.raises(ValueError, match="must be non-empty text or a list of messages, got"):
        row(a=value).prompt("a")


@pytest.mark.parametrize("second", ["text", {"role": "user"}, {"role": "user", "content": ["x"]}])
def test_malformed_message_is_counted(second):
    messages = [{"role": "user", "content": "x"}, second]
    with pytest.raises(ValueError, match='column "a", message 1 must be an object with "role"'):
        row(a=messages).prompt("a")


def test_what_came_is_cut_short():
    assert came("x" * 500) == "got str: '" + "x" * 56 + "..."
