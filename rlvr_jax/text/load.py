"""Which tokenizer, and its ids that mean something: every end token, the pad token."""

from __future__ import annotations

import functools
import json
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlvr_jax.registry import nearest
from rlvr_jax.text.char import char_tokenizer, load_transformers

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from rlvr_jax.text.encode import PromptFormat

log = logging.getLogger(__name__)

HUB_TIMEOUT_S = 10.0
_PROBE = "20260101"  # content that no template writes by itself


def load_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """The tokenizer called `name`: "char", a local folder, or a name on the Hugging Face hub.

    ValueError in one line when there is none.
    """
    if name == "char":
        return char_tokenizer()
    folder = Path(os.path.expanduser(name))
    if not name or (_looks_local(name) and not folder.is_dir()):
        raise ValueError(f'no tokenizer folder "{name}" (allowed: "char", a folder, a hub name)')
    if not folder.is_dir() and nearest(name, ["char"]):  # not worth a minute of hub retries
        raise ValueError(f'no tokenizer "{name}"{nearest(name, ["char"])}')
    silent = not folder.is_dir() and hub_is_silent(name)
    try:
        return load_transformers().AutoTokenizer.from_pretrained(
            str(folder) if folder.is_dir() else name, local_files_only=silent
        )
    # What the hub client raises differs by cause: OSError (missing, no network), ValueError
    # (unknown tokenizer class), KeyError and ImportError (a dependency of that class).
    except (OSError, ValueError, KeyError, ImportError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        if silent:
            reason = "the hub does not answer, and this machine holds no copy of it"
        raise ValueError(
            f'no tokenizer "{name}" (allowed: "char", a folder that holds tokenizer files, '
            f"a hub name): {reason}"
        ) from error


def _looks_local(name: str) -> bool:
    return name.startswith((".", "~", os.sep)) or name.count("/") > 1


@functools.cache
def hub_is_silent(name: str) -> bool:
    """Whether the hub cannot be reached, by one request; what it says of `name` does not matter.

    The loaders ask for one file after the other and try each six times over, which without a
    network takes a minute and a half until a misspelt name is an error.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.errors import HfHubHTTPError

    try:
        get_hf_file_metadata(hf_hub_url(name, "config.json"), timeout=HUB_TIMEOUT_S)
    except (HfHubHTTPError, ValueError):  # it answered; or the name cannot be one, says the loader
        return False
    except Exception:  # of whichever HTTP library the client is built on; offline mode
        return True
    return False


def pad_id(tokenizer: PreTrainedTokenizerBase) -> int:
    """The id that fills unused positions: the pad token, else the end token.

    It may equal an end id, so no mask may be read off it.
    """
    for token in (tokenizer.pad_token_id, tokenizer.eos_token_id):
        if token is not None:
            return int(token)
    raise ValueError("the tokenizer has neither a pad token nor an end token")


def ordinary_size(tokenizer: PreTrainedTokenizerBase) -> int:
    """Ids of a tokenizer without the special tokens at its end: Gemma 3 has one for images, which
    its text models have no embedding for and which text does not contain."""
    size, special = len(tokenizer), set(tokenizer.all_special_ids)
    added = tokenizer.added_tokens_decoder
    while size - 1 in added and (size - 1 in special or added[size - 1].special):
        size -= 1
    return size


def stop_ids(tokenizer: PreTrainedTokenizerBase, extra: Iterable[str] = ()) -> tuple[int, ...]:
    """Every id that ends a completion, sorted: the tokenizer's end token, those of the
    ``generation_config.json`` beside it, the one its chat template ends an answer with, and every
    token that begins with a text of `extra` (with "\\n" also the token "\\n\\n").

    ValueError: a text that is not a single token; no end token at all.
    """
    found = {*_ints(tokenizer.eos_token_id), *_generation_config_ids(tokenizer)}
    found.update(_template_terminator(tokenizer))
    for text in extra:
        found.update(_ids_beginning(tokenizer, text))
    if not found:
        raise ValueError('the tokenizer has no end token: name one with text.stop=("...",)')
    return tuple(sorted(found))


def end_id(tokenizer: PreTrainedTokenizerBase, format: PromptFormat) -> int:
    """The id that a demonstration ends with: the first of `format.stop`, the one that the chat
    template ends an answer with where it writes the prompt, the tokenizer's end token."""
    if format.stop:
        return _single_id(tokenizer, format.stop[0])
    closing = _template_terminator(tokenizer) if format.template == "chat" else []
    return [*closing, *_ints(tokenizer.eos_token_id), *stop_ids(tokenizer)][0]


def _ints(value: int | list[int] | None) -> list[int]:
    if value is None:
        return []
    return [int(v) for v in (value if isinstance(value, list | tuple) else [value])]


def _single_id(tokenizer: PreTrainedTokenizerBase, text: str) -> int:
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    if len(ids) != 1 or ids[0] == tokenizer.unk_token_id:
        raise ValueError(f"stop text {text!r} is not one token of this tokenizer but {ids}")
    return ids[0]


def _ids_beginning(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Ids of the tokens whose written form begins with that of `text`."""
    token = tokenizer.convert_ids_to_tokens(_single_id(tokenizer, text))
    return [i for other, i in tokenizer.get_vocab().items() if other.startswith(token)]


def _generation_config_ids(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """eos_token_id of the generation_config.json where the tokenizer came from, if there is one."""
    name = tokenizer.name_or_path
    try:
        return _ints(generation_config(name).get("eos_token_id"))
    except (ValueError, TypeError) as error:
        raise ValueError(
            f'generation_config.json of "{name}": eos_token_id must be an id or a list of ids: '
            f"{error}"
        ) from error


def generation_config(name: str) -> dict[str, Any]:
    """What the generation_config.json in this folder or under this hub name says; {} where there
    is none.  ValueError if it is no JSON object."""
    path = _generation_config_path(name)
    try:
        found = {} if path is None else json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds no JSON object")
    return found


def _generation_config_path(name: str) -> Path | None:
    folder = Path(os.path.expanduser(name))
    if not name or folder.is_dir():
        path = folder / "generation_config.json"
        return path if name and path.is_file() else None
    if _looks_local(name):  # a folder that was
        return None
    load_transformers()
    from transformers.utils import cached_file

    try:
        kept = {"local_files_only": hub_is_silent(name)}
        return Path(cached_file(name, "generation_config.json", **kept))
    except (OSError, ValueError) as error:  # the hub has no such file or name, or does not answer
        log.warning("no generation_config.json of %s: %s", name, str(error).splitlines()[0])
        return None


def _template_terminator(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The added token with which the chat template closes an assistant turn, if any.

    Rendered rather than looked up by name: <|im_end|>, <|eot_id|>, <end_of_turn>, <|return|> and
    whatever comes next are found alike, and tokens that only close other roles are not.
    """
    if not tokenizer.chat_template:
        return []
    from jinja2 import TemplateError

    turns = [{"role": "user", "content": "?"}, {"role": "assistant", "content": _PROBE}]
    try:
        text = tokenizer.apply_chat_template(turns, tokenize=False)
    except TemplateError as error:
        log.warning("stop tokens: the chat template does not render (%s)", error)
        return []
    before, _, rest = text.rpartition(_PROBE)
    if not before or not rest.strip():  # content not rendered as text, or the turn left open
        return []
    ids = tokenizer(rest.strip(), add_special_tokens=False)["input_ids"]
    return [i for i in ids[:1] if i in tokenizer.added_tokens_decoder]
