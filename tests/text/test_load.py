"""Which tokenizer is loaded, and every id that ends a completion."""

import json
import logging
import subprocess
import sys

import pytest
from huggingface_hub.errors import HfHubHTTPError

from rlvr_jax.text import PromptFormat, char_tokenizer, end_id, load_tokenizer, pad_id, stop_ids
from rlvr_jax.text import load as load_module


def saved(tmp_path, eos=None, text=None):
    """A tokenizer loaded from a folder whose generation_config.json names `eos`."""
    char_tokenizer().save_pretrained(tmp_path)
    if text is None:
        text = json.dumps({"eos_token_id": eos})
    (tmp_path / "generation_config.json").write_text(text)
    return load_tokenizer(str(tmp_path))


def with_chat(terminator: str):
    """The template closes an assistant turn with `terminator`, other turns with another token."""
    pytest.importorskip("jinja2")
    tokenizer = char_tokenizer()
    tokenizer.add_tokens(["<|im_start|>", "<|im_end|>", "<|user_end|>"], special_tokens=True)
    tokenizer.chat_template = (
        "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}"
        "{% if m['role'] == 'assistant' %}" + terminator + "{% else %}<|user_end|>{% endif %}"
        "\n{% endfor %}"
    )
    return tokenizer


def test_char_by_name():
    assert load_tokenizer("char").get_vocab() == char_tokenizer().get_vocab()


@pytest.mark.parametrize("name", ["", "/nowhere/at/all", "./nowhere", "~/nowhere-at-all", "a/b/c"])
def test_missing_folder_is_one_line(name):
    with pytest.raises(ValueError, match='no tokenizer folder "') as error:
        load_tokenizer(name)
    assert "\n" not in str(error.value)


def test_folder_without_a_tokenizer_is_one_line(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ValueError, match='no tokenizer "') as error:
        load_tokenizer(str(tmp_path))
    assert "\n" not in str(error.value)


def test_misspelt_char_does_not_ask_the_hub(monkeypatch):
    monkeypatch.setattr(load_module, "load_transformers", None)
    with pytest.raises(ValueError, match='no tokenizer "chra"; did you mean "char"'):
        load_tokenizer("chra")


def test_hub_name_that_does_not_load_is_one_line(monkeypatch):
    class Hub:
        class AutoTokenizer:
            @staticmethod
            def from_pretrained(name, local_files_only):
                assert not local_files_only
                raise OSError(f"{name} is not there\nand a second line")

    monkeypatch.setattr(load_module, "hub_is_silent", lambda name: False)
    monkeypatch.setattr(load_module, "load_transformers", lambda: Hub)
    with pytest.raises(ValueError, match='no tokenizer "o/m".*: o/m is not there$') as error:
        load_tokenizer("o/m")
    assert "\n" not in str(error.value)


class Missing(HfHubHTTPError):
    """What the hub answers of a name it does not have."""

    def __init__(self):
        Exception.__init__(self, "404")


@pytest.mark.parametrize(
    ("error", "silent"),
    [
        (ConnectionError("no route"), True),
        (TimeoutError(), True),
        (Missing(), False),
        (None, False),
    ],
)
def test_a_hub_that_does_not_answer_is_asked_once(monkeypatch, error, silent):
    asked, loaded = [], []

    def metadata(url, timeout):
        asked.append(timeout)
        if error is not None:
            raise error

    class Hub:
        class AutoTokenizer:
            @staticmethod
            def from_pretrained(name, local_files_only):
                loaded.append(local_files_only)
                raise OSError("nothing here")

    load_module.hub_is_silent.cache_clear()
    monkeypatch.setattr("huggingface_hub.get_hf_file_metadata", metadata)
    monkeypatch.setattr(load_module, "load_transformers", lambda: Hub)
    for _ in range(2):
        with pytest.raises(ValueError, match="does not answer" if silent else "nothing here"):
            load_tokenizer("o/m")
    load_module.hub_is_silent.cache_clear()
    assert len(asked) == 1 and asked[0] <= 10 and loaded == [silent] * 2


def test_stop_ids_of_the_char_tokenizer():
    assert stop_ids(char_tokenizer()) == (1,)


@pytest.mark.parametrize(("eos", "expected"), [(5, (1, 5)), ([5, 1, 9], (1, 5, 9)), (None, (1,))])
def test_stop_ids_of_a_generation_config(tmp_path, eos, expected):
    assert stop_ids(saved(tmp_path, eos)) == expected


@pytest.mark.parametrize("text", ["{", "[1]", '{"eos_token_id": "x"}', '{"eos_token_id": [[1]]}'])
def test_broken_generation_config_is_named(tmp_path, text):
    said = "generation_config.json( is not JSON| holds no JSON object|.*: eos_token_id must be)"
    with pytest.raises(ValueError, match=said):
        stop_ids(saved(tmp_path, text=text))


def test_generation_config_of_a_folder_that_is_gone_or_holds_none(tmp_path):
    for name in ("", str(tmp_path), str(tmp_path / "gone")):
        assert load_module.generation_config(name) == {}


def test_template_terminator_is_a_stop_id_and_other_roles_are_not():
    tokenizer = with_chat("<|im_end|>")
    assert stop_ids(tokenizer) == (1, tokenizer.convert_tokens_to_ids("<|im_end|>"))


@pytest.mark.parametrize("terminator", ["", "###", "<eos>"])
def test_template_without_a_token_of_its_own(terminator):
    assert stop_ids(with_chat(terminator)) == (1,)


def test_template_that_drops_the_content_has_no_terminator():
    tokenizer = with_chat("<|im_end|>")
    tokenizer.chat_template = "<|im_start|>{{ messages[0]['role'] }}"
    assert stop_ids(tokenizer) == (1,)


def test_template_that_raises_is_reported(caplog):
    tokenizer = with_chat("<|im_end|>")
    tokenizer.chat_template = "{{ raise_exception('only with tools') }}"
    with caplog.at_level(logging.WARNING):
        assert stop_ids(tokenizer) == (1,)
    assert "only with tools" in caplog.text


def test_extra_stop_tokens():
    assert stop_ids(char_tokenizer(), extra=("</answer>", "+")) == (
        1,
        *sorted(char_tokenizer().convert_tokens_to_ids(["</answer>", "+"])),
    )


def test_tokens_that_begin_with_a_stop_text_end_a_completion_too():
    tokenizer = char_tokenizer()
    tokenizer.add_tokens(["+=", "-+"])
    plus, longer = tokenizer.convert_tokens_to_ids(["+", "+="])
    assert stop_ids(tokenizer, extra=("+",)) == (1, plus, longer)


@pytest.mark.parametrize(
    ("format", "end"),
    [
        (PromptFormat(), "<eos>"),
        (PromptFormat(stop=("+", "-")), "+"),
        (PromptFormat(template="chat"), "<|im_end|>"),
        (PromptFormat(template="chat", stop=("-",)), "-"),
    ],
)
def test_what_a_demonstration_ends_with(format, end):
    tokenizer = with_chat("<|im_end|>")
    assert tokenizer.convert_ids_to_tokens(end_id(tokenizer, format)) == end


@pytest.mark.parametrize(
    ("extra", "message"),
    [("</answr>", "not one token"), ("\u4e2d", "not one token"), ("", "not one token")],
)
def test_extra_stop_token_errors(extra, message):
    with pytest.raises(ValueError, match=message):
        stop_ids(char_tokenizer(), extra=(extra,))


def test_no_end_token_at_all():
    tokenizer = char_tokenizer()
    tokenizer.eos_token = None
    with pytest.raises(ValueError, match="no end token"):
        stop_ids(tokenizer)


def test_pad_falls_back_to_eos():
    tokenizer = char_tokenizer()
    assert pad_id(tokenizer) == 0
    tokenizer.pad_token = None
    assert pad_id(tokenizer) == 1
    tokenizer.eos_token = None
    with pytest.raises(ValueError, match="neither"):
        pad_id(tokenizer)


def test_text_never_imports_jax_and_says_nothing():
    code = (
        "import sys, rlvr_jax.text as t; assert 'transformers' not in sys.modules; "
        "k = t.load_tokenizer('char'); t.stop_ids(k); "
        "sys.exit(any(m.split('.')[0] in ('jax', 'flax', 'torch') for m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
