"""Text that becomes the unknown token."""

from rlvr_jax.text import char_tokenizer, name_characters, unknown_characters, unknown_id


def test_characters_that_the_tokenizer_lacks():
    tokenizer = char_tokenizer()
    assert unknown_id(tokenizer) == 3
    assert unknown_characters(tokenizer, "1+\u4e2d=\u0416\u4e2d") == "\u0416\u4e2d"
    assert unknown_characters(tokenizer, "1+2= \n") == unknown_characters(tokenizer, "") == ""


def test_an_unknown_token_that_is_also_the_end_tells_nothing():
    tokenizer = char_tokenizer()
    tokenizer.unk_token = tokenizer.eos_token
    assert unknown_id(tokenizer) is None and unknown_characters(tokenizer, "\u4e2d") == ""
    tokenizer.unk_token = None
    assert unknown_id(tokenizer) is None


def test_names_for_messages():
    assert name_characters("\u4e2d") == 'U+4E2D "\u4e2d"'
    assert name_characters("\u200b") == "U+200B"  # cannot be seen
    assert name_characters("\u4e2d" * 6).endswith(", ...") and name_characters("") == ""
