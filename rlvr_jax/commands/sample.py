"""rlvr sample: talk to a run's checkpoint in the terminal, token by token.

  rlvr sample --workdir=runs/q                            a prompt a line, until Ctrl-D
  rlvr sample --workdir=runs/q --prompt="7+12="           one completion
  printf '7+12=\\n3+4=\\n' | rlvr sample --workdir=runs/q   one completion a line

Prompts are written as in training (config.text); a run that gave its tokenizer no template talks
in the tokenizer's own chat template where there is one, and the conversation goes on: /new begins
another.  Settings that are not given are those of the run's evaluation.  The same seed draws the
same replies.
"""

from __future__ import annotations

import dataclasses
import pathlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from absl import flags as absl_flags

from rlvr_jax.commands import flags

NEW = "/new"
CHUNK = 256  # columns by which the cache grows


def main(args: Sequence[str]) -> int:
    values = _flags()
    flags.parse(values, args, __doc__, ("workdir",))
    flags.prepare_process()
    talk = open_talk(flags.saved_config(values.workdir), values)
    if values.prompt is not None:
        talk.reply(values.prompt)
        return 0
    live = sys.stdin.isatty()
    for line in _lines():
        if line.strip() == NEW:
            talk.turns = []
        elif line.strip():
            try:
                talk.reply(line)
            except (ValueError, KeyboardInterrupt) as error:  # ends a reply, not a conversation
                if not live:
                    raise
                print(f"({error or 'interrupted'})", file=sys.stderr)
    if not talk.count and not live:
        raise ValueError("no prompt: give --prompt, or a line for each on the standard input")
    return 0


def _flags() -> absl_flags.FlagValues:
    values = flags.make_flags()
    flags.workdir_flag(values)
    for name, about in (
        ("prompt", "answer this one prompt"),
        ("template", '"chat", "none", "r1_zero", "qwen_boxed", or text that contains {prompt}'),
    ):
        absl_flags.DEFINE_string(name, None, about, flag_values=values)
    newest = "an index, newest or best"
    absl_flags.DEFINE_string("checkpoint", "newest", newest, flag_values=values)
    absl_flags.DEFINE_float("temperature", None, "0 is greedy", flag_values=values)
    absl_flags.DEFINE_float("top_p", None, "smallest set of this mass; 1 = off", flag_values=values)
    absl_flags.DEFINE_integer("top_k", None, "most likely tokens; 0 = off", flag_values=values)
    absl_flags.DEFINE_integer(
        "max_tokens", None, "longest reply", lower_bound=1, flag_values=values
    )
    absl_flags.DEFINE_integer(
        "seed", 0, "of the draws", lower_bound=0, upper_bound=2**32 - 1, flag_values=values
    )
    return values


def _lines() -> Iterator[str]:
    """What is typed, or piped in, a prompt a line."""
    if not sys.stdin.isatty():
        try:
            yield from (line.rstrip("\n") for line in sys.stdin)
        except UnicodeDecodeError as error:
            name = error.encoding.upper()
            raise ValueError(f"the standard input is not {name}: {error.reason}") from None
        return
    import readline  # noqa: F401  (gives input() its line editing)

    while True:
        try:
            yield input("> ")
        except EOFError:
            print()
            return


@dataclasses.dataclass
class Talk:
    """A checkpoint that answers."""

    sample: Callable  # (token ids, seed, turn, TextStream) -> Samples; writes as it goes
    tokenizer: Any
    format: Any  # text.PromptFormat
    stop_ids: tuple[int, ...]
    turns: list[dict[str, str]] = dataclasses.field(default_factory=list)
    count: int = 0  # replies so far: each draws anew

    def reply(self, prompt: str) -> str:
        """Write the reply to the standard output as it comes, and return it."""
        from rlvr_jax.text import encode_prompt, name_characters, unknown_characters
        from rlvr_jax.text.stream import TextStream
        from rlvr_jax.types import Problem

        if not prompt.isascii() and any("\ud800" <= c <= "\udfff" for c in prompt):
            raise ValueError("the prompt is not UTF-8 text")  # bytes that Python kept as surrogates
        chat = self.format.template == "chat"
        asked = [*self.turns, {"role": "user", "content": prompt}]
        problem = Problem(prompt=tuple(asked) if chat else prompt, answer="", index=self.count)
        ids = encode_prompt(self.tokenizer, problem, self.format)
        strange = name_characters(unknown_characters(self.tokenizer, prompt))
        if strange:
            print(f"(the tokenizer has no token for {strange})", file=sys.stderr)
        stream = TextStream(self.tokenizer, self.stop_ids)
        samples = self.sample(ids, self.count, stream)
        _write(stream.finish(samples.tokens_BT[0, : samples.length_B[0]]) + "\n")
        if not samples.eos_B[0]:
            print(f"(cut off after {samples.length_B[0]} tokens: --max_tokens)", file=sys.stderr)
        self.count += 1
        if chat:
            self.turns = [*asked, {"role": "assistant", "content": stream.text}]
        return stream.text


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def open_talk(config, values) -> Talk:
    """The checkpoint that the flags ask for, ready to answer."""
    from rlvr_jax.generate import Address, DecodeConfig, make_sampler
    from rlvr_jax.phrase import resolve
    from rlvr_jax.rollout import TALK
    from rlvr_jax.setup import any_mesh, resolve_model, restore_params
    from rlvr_jax.text import load_tokenizer, stop_ids

    tokenizer = load_tokenizer(config.tokenizer)
    model, mesh = resolve_model(config, tokenizer), any_mesh(config)
    stops = stop_ids(tokenizer, config.text.stop)
    given = {k: values[k].value for k in ("temperature", "top_p", "top_k")}
    given = {k: v for k, v in given.items() if v is not None}
    sampling = dataclasses.replace(config.eval_sampling, **given)
    limit = values.max_tokens or config.decode.max_new_tokens
    decode = DecodeConfig(2**20, limit, min(limit, CHUNK))
    which = values.checkpoint
    which = int(which) if which.isdigit() else which
    _, params = restore_params(config, model, mesh, pathlib.Path(values.workdir), which)
    streams = []

    def watch(out):
        _write(streams[-1].feed(out.tokens_BT[0, : out.length_B[0]]))

    interruption = resolve(config.interruption, tokenizer, stops)
    sampler = make_sampler(model, decode, sampling, stops, mesh, watch, interruption)

    def sample(ids, turn, stream):
        streams[:] = [stream]
        return sampler(params, [ids], [turn], 1, Address(values.seed, TALK, turn))

    return Talk(sample, tokenizer, _format(config, values.template, tokenizer), stops)


def _format(config, template: str | None, tokenizer):
    """The flag's template; else the run's; else the tokenizer's own where it has one."""
    if template is not None:
        system = config.text.system if template == "chat" else ""
        return dataclasses.replace(config.text, template=template, system=system)
    if config.text.template == "none" and tokenizer.chat_template:
        return dataclasses.replace(config.text, template="chat")
    return config.text
