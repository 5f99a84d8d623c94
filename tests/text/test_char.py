"""The built-in tokenizer: ids, exact round trips, and what leaves the vocabulary."""

import json
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_jax.text import char_tokenizer, load_tokenizer
from rlvr_jax.text.char import CHARACTERS, SPECIAL, TAGS, VOCABULARY

SHARED = pathlib.Path(__file__).resolve().parents[2] / ".." / "shared"
TOKENIZER = char_tokenizer()


def ids(text: str) -> list[int]:
    return TOKENIZER(text)["input_ids"]


def test_vocabulary_is_exactly_128_distinct_ids():
    assert len(TOKENIZER) == TOKENIZER.vocab_size == len(set(VOCABULARY)) == 128
    assert TOKENIZER.get_vocab() == {token: i for i, token in enumerate(VOCABULARY)}


def test_special_ids_are_fixed():
    t = TOKENIZER
    assert (t.pad_token_id, t.eos_token_id, t.bos_token_id, t.unk_token_id) == (0, 1, 2, 3)
    assert [ids(tag) for tag in TAGS] == [[4], [5], [6], [7]]
    assert set(t.all_special_tokens) == set(SPECIAL)


def test_worked_sum_by_hand():
    text = "7+12=<think>7+12=19</think><answer>19</answer>"
    # 5 characters, tag, 7 characters, tag, tag, 2 digits, tag
    assert len(ids(text)) == 5 + 1 + 7 + 1 + 1 + 2 + 1
    assert TOKENIZER.decode(ids(text)) == text


def test_no_bos_or_eos_is_added():
    assert ids("") == []
    assert ids("1") == [8 + CHARACTERS.index("1")]


def test_tags_survive_skip_special_tokens():
    marked = ids("<think>1</think><answer>2</answer>") + [TOKENIZER.eos_token_id]
    assert TOKENIZER.decode(marked, skip_special_tokens=True) == (
        "<think>1</think><answer>2</answer>"
    )


def test_special_tokens_are_recognised_in_text():
    assert ids("1<eos>") == [*ids("1"), 1]


def test_unknown_characters_become_unk_one_by_one():
    assert ids("a\u4e2d\u6587b") == [*ids("a"), 3, 3, *ids("b")]


@given(st.lists(st.sampled_from(TAGS + tuple(CHARACTERS)), max_size=60))
def test_round_trip_is_exact(tokens):
    text = "".join(tokens)
    assert TOKENIZER.decode(ids(text), skip_special_tokens=False) == text


@given(st.lists(st.integers(4, 127), max_size=40))
def test_every_id_sequence_decodes_to_its_tokens(sequence):
    assert TOKENIZER.decode(sequence) == "".join(VOCABULARY[i] for i in sequence)


@pytest.mark.parametrize("loader", ["fast", "auto"])
def test_save_and_load(tmp_path, loader):
    from transformers import PreTrainedTokenizerFast

    TOKENIZER.save_pretrained(tmp_path)
    load = PreTrainedTokenizerFast.from_pretrained if loader == "fast" else load_tokenizer
    again = load(str(tmp_path))
    text = " <think>\t3\u00d74 = 12\n</think>  <answer>12</answer>."
    assert again.get_vocab() == TOKENIZER.get_vocab()
    assert again(text)["input_ids"] == ids(text)
    assert again.decode(ids(text)) == text
    assert (again.pad_token_id, again.eos_token_id) == (0, 1)


def test_gsm8k_is_covered():
    folder = SHARED / "data" / "gsm8k"
    if not folder.is_dir():
        pytest.skip("../shared/data/gsm8k is absent")
    lines = (folder / "train.jsonl").read_bytes().split(b"\n")[:2000]
    rows = [json.loads(line) for line in lines if line]
    for row in rows:
        for text in row.values():
            known = "".join(c for c in text if c in CHARACTERS)
            assert len(text) - len(known) <= text.count("\u2028") + text.count("\u200b")
            assert TOKENIZER.decode(ids(known)) == known
