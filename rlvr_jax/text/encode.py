"""Prompts and demonstrations to token ids; sampled ids to a view for people and verifiers.

Ids of a prompt come from one tokenizer call on the rendered text.  Rendered text is never
tokenised a second time, and a completion is never re-tokenised.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from rlvr_jax.registry import nearest
from rlvr_jax.types import Problem

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# Plain templates for base models; "{prompt}" is where the problem goes.
#   none        the problem alone
#   r1_zero     think and answer tags asked for in words, as in DeepSeek-AI 2025 (R1), Table 1; the
#               wording is ours
#   qwen_boxed  what the Qwen2.5-Math models were tuned on, usable without their chat template
TEMPLATES = {
    "none": "{prompt}",
    "r1_zero": (
        "Below, a User asks and an Assistant replies. First the Assistant thinks the problem "
        "through, then it states the answer. The thinking stands between <think> and </think>, "
        "the answer between <answer> and </answer>.\nUser: {prompt}\nAssistant:"
    ),
    "qwen_boxed": (
        "<|im_start|>system\nPlease reason step by step, and put your final answer within "
        "\\boxed{}.<|im_end|>\n<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"
    ),
}

NO_TOKEN = "\ufffd"

# What a chat template is told of the clock: always this date, or a run that is resumed on another
# day would go on with other prompts.  It is the date that Llama 3.2's template writes where there
# is no clock.  A macro, since a template may be handed plain data but no function.
DATE = datetime.datetime(2024, 7, 26)
_CODES = (*"aAbBcdDeFHIjmMpSTuwxXyY", "-d", "-m", "-I")
_CLOCK = (
    "{% macro strftime_now(format) %}{{ format"
    + "".join(f"|replace('%{c}', '{DATE.strftime('%' + c)}')" for c in _CODES)
    + " }}{% endmacro %}\n"
)


@dataclasses.dataclass(frozen=True)
class PromptFormat:
    """How a problem becomes the prompt's text.

    template: "chat" (the tokenizer's own chat template), a row of `TEMPLATES`, or any text that
        contains "{prompt}".
    bos: "auto" (what the tokenizer or its chat template does by itself), "always" or "never".
        Whatever it is, a prompt holds at most one.
    system: a system message, for "chat" only.
    stop: texts of one token each that end a completion, beside the end tokens: with "\\n" for a
        few-shot prompt of a base model an answer is one line.  Tokens that begin so count as well.
    """

    template: str = "none"
    bos: str = "auto"
    system: str = ""
    stop: tuple[str, ...] = ()

    def __post_init__(self):
        if self.bos not in ("auto", "always", "never"):
            raise ValueError(f'bos = "{self.bos}" is none of "auto", "always", "never"')
        known = ["chat", *TEMPLATES]
        if self.template not in known and "{prompt}" not in self.template:
            raise ValueError(
                f'no prompt template "{self.template}"{nearest(self.template, known)} '
                f'(there are: {", ".join(known)}, or any text that contains "{{prompt}}")'
            )
        if self.system and self.template != "chat":
            raise ValueError(f'system has no effect with template "{self.template}", only "chat"')
        if "" in self.stop:
            raise ValueError("stop: an empty text would end every completion at once")


def encode_prompt(
    tokenizer: PreTrainedTokenizerBase, problem: Problem, format: PromptFormat
) -> list[int]:
    """Token ids of the prompt of `problem`, at most one BOS, never an end token added.

    ValueError: messages without template "chat", "chat" without a chat template or with one that
    refuses the messages, bos "always" without a BOS token, a BOS token in the middle of the prompt.
    """
    return encode_prompts(tokenizer, [problem], format)[0]


def encode_prompts(
    tokenizer: PreTrainedTokenizerBase, problems: Sequence[Problem], format: PromptFormat
) -> list[list[int]]:
    """The token ids of many prompts, each as by `encode_prompt`, in a fraction of the time."""
    if format.template == "chat":
        rows = [_render_chat(tokenizer, p, format.system) for p in problems]
        adds = False  # the chat template writes it
    else:
        text = TEMPLATES.get(format.template, format.template)
        advice = (
            f'template "{format.template}" takes plain text or one user message; '
            'use template "chat"'
        )
        texts = [text.replace("{prompt}", _plain_prompt(p, advice)) for p in problems]
        rows = tokenizer(texts, add_special_tokens=False)["input_ids"] if texts else []
        adds = format.bos == "auto" and _adds_bos(tokenizer)
    rows = [_one_bos(list(ids), tokenizer, format.bos, adds) for ids in rows]
    for problem, ids in zip(problems, rows, strict=True):
        if not ids:
            raise ValueError(f"problem {problem.index} has an empty prompt")
    return rows


def encode_completion(tokenizer: PreTrainedTokenizerBase, text: str, eos: int) -> list[int]:
    """Token ids of a demonstration, ended by exactly one `eos`; no BOS."""
    ids = list(tokenizer(text, add_special_tokens=False)["input_ids"])
    while ids and ids[-1] == eos:
        ids.pop()
    return [*ids, eos]


def encode_answered(tokenizer: PreTrainedTokenizerBase, problem: Problem, answer: str) -> list[int]:
    """Token ids of a prompt and its answer, as a model that judges them is shown them: in the
    tokenizer's chat template, without one the answer right behind the prompt.

    The answer may hold anything, special tokens too.  ValueError: messages that cannot be rendered.
    """
    if tokenizer.chat_template:
        turns = [*_messages(problem), {"role": "assistant", "content": answer}]
        return _render(tokenizer, problem, turns, asks=False)
    advice = "a tokenizer without a chat template takes plain text or one user message"
    text = _plain_prompt(problem, advice) + answer
    ids = list(tokenizer(text, add_special_tokens=False)["input_ids"])
    bos = [tokenizer.bos_token_id]
    return bos + ids if _adds_bos(tokenizer) and ids[:1] != bos else ids


def decode(
    tokenizer: PreTrainedTokenizerBase, ids: Sequence[int], stop_ids: Collection[int]
) -> str:
    """The text of sampled ids without the end token they stopped with.

    Other special tokens stay visible: a verifier that reads "3<unk>9" as 39 could be gamed.  So do
    ids that the tokenizer has no token for, which padded embeddings let a model sample: as U+FFFD.
    """
    ids = [int(i) for i in ids]
    if ids and ids[-1] in stop_ids:
        ids.pop()
    parts = [[]]
    for i, token in zip(ids, tokenizer.convert_ids_to_tokens(ids), strict=True):
        if token is None:  # the decoder would leave it out
            parts.append([])
        else:
            parts[-1].append(i)
    plain = {"skip_special_tokens": False, "clean_up_tokenization_spaces": False}
    return NO_TOKEN.join(tokenizer.decode(part, **plain) for part in parts)


def _plain_prompt(problem: Problem, advice: str) -> str:
    if isinstance(problem.prompt, str):
        return problem.prompt
    if [m["role"] for m in problem.prompt] == ["user"]:
        return problem.prompt[0]["content"]
    roles = ", ".join(m["role"] for m in problem.prompt)
    raise ValueError(f"problem {problem.index} is a conversation ({roles}): {advice}")


def _messages(problem: Problem) -> list[dict[str, str]]:
    if isinstance(problem.prompt, str):
        return [{"role": "user", "content": problem.prompt}]
    return [dict(m) for m in problem.prompt]


def _render_chat(tokenizer: PreTrainedTokenizerBase, problem: Problem, system: str) -> list[int]:
    if not tokenizer.chat_template:
        raise ValueError(
            f'template "chat": this tokenizer has no chat template (plain ones: '
            f"{', '.join(TEMPLATES)})"
        )
    messages = _messages(problem)
    if system:
        if messages[0]["role"] == "system":
            raise ValueError(f"problem {problem.index} brings a system message; set system to ''")
        messages.insert(0, {"role": "system", "content": system})
    return _render(tokenizer, problem, messages, asks=True)


def _render(
    tokenizer: PreTrainedTokenizerBase, problem: Problem, messages: list, asks: bool
) -> list[int]:
    """Ids of messages in the chat template; `asks`: up to where the assistant's turn begins."""
    from jinja2 import TemplateError

    template = tokenizer.get_chat_template()
    if "strftime_now" in template:
        template = _CLOCK + template  # the newline is the block's: it is not written
    try:
        return list(
            tokenizer.apply_chat_template(
                messages,
                chat_template=template,
                add_generation_prompt=asks,
                tokenize=True,
                return_dict=False,
            )
        )
    except TemplateError as error:  # templates refuse roles they do not know, and their order
        roles = ", ".join(m["role"] for m in messages)
        raise ValueError(
            f"problem {problem.index}: the tokenizer's chat template does not take the messages "
            f"({roles}): {error}"
        ) from error


def _adds_bos(tokenizer: PreTrainedTokenizerBase) -> bool:
    bos = tokenizer.bos_token_id
    return bos is not None and list(tokenizer("0")["input_ids"])[:1] == [bos]


def _one_bos(
    ids: list[int], tokenizer: PreTrainedTokenizerBase, mode: str, adds: bool
) -> list[int]:
    """`ids` with one leading BOS or none: the text's own, or as `adds` and `mode` say."""
    bos = tokenizer.bos_token_id
    if bos is None:
        if mode == "always":
            raise ValueError('bos = "always", but the tokenizer has no BOS token')
        return ids
    body = list(ids)
    while body and body[0] == bos:
        body.pop(0)
    # Where one token is both BOS and EOS, the end of an earlier turn is not a second BOS.
    if bos in body and bos != tokenizer.eos_token_id:
        raise ValueError(f'the prompt contains the BOS token "{tokenizer.bos_token}" in its text')
    had = len(body) < len(ids)
    wanted = mode == "always" or (mode == "auto" and (had or adds))
    return [bos, *body] if wanted else body
