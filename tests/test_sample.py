"""rlvr sample: what it prints is what the sampler draws, as it draws it."""

import dataclasses
import io
import json
import logging
import os
import pathlib
import shutil
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location

import jax
import numpy as np
import pytest

from rlvr_jax.cli import main as cli
from rlvr_jax.commands import sample as command
from rlvr_jax.config import build
from rlvr_jax.generate import Address, DecodeConfig, make_sampler
from rlvr_jax.learner import make_optimizer
from rlvr_jax.rollout import TALK
from rlvr_jax.setup import (
    Place,
    any_mesh,
    first_state,
    open_run,
    resolve_model,
    restore_params,
    start_stage,
)
from rlvr_jax.slots import Samples
from rlvr_jax.text import PromptFormat, char_tokenizer, decode, load_tokenizer
from rlvr_jax.text.stream import TextStream

TINY = pathlib.Path(__file__).parent / "recipes" / "tiny.py"


@pytest.fixture(scope="module", autouse=True)
def process(tmp_path_factory):
    """What a program sets for its process is undone; programs compiled once serve again."""
    before = jax.config.jax_compilation_cache_dir
    loggers = [logging.getLogger(name) for name in ("absl", "orbax", "jax", "flax")]
    levels = [logger.level for logger in loggers]
    jax.config.update("jax_compilation_cache_dir", str(tmp_path_factory.mktemp("jax")))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    yield
    jax.config.update("jax_compilation_cache_dir", before)
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    """A run that was stopped before it learned anything: it writes characters, not sense."""
    spec = spec_from_file_location("tiny", TINY)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    c = module.get_config()
    c.model.layers = 1
    folder = str(tmp_path_factory.mktemp("run"))
    with open_run(build(c), folder) as run:
        state = start_stage(
            run.config, run.mesh, first_state(run), make_optimizer(run.config.optim, 1), 0
        )
        run.checkpoints.save(1, state, dataclasses.asdict(Place(step=1)))
    return pathlib.Path(folder)


def said(capsys, *args, stdin=None, monkeypatch=None):
    """What `rlvr sample` writes."""
    if stdin is not None:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
    with pytest.raises(SystemExit) as done:
        cli(["sample", *args])
    out, err = capsys.readouterr()
    assert done.value.code == 0, err
    return out


def drawn(workdir, prompt, turn=0, seed=0, limit=16):
    """The same completion from a sampler that streams nothing."""
    from rlvr_jax.commands.flags import saved_config

    config = saved_config(workdir)
    tokenizer, mesh = load_tokenizer("char"), any_mesh(config)
    model = resolve_model(config, tokenizer)
    _, params = restore_params(config, model, mesh, workdir)
    sampler = make_sampler(model, DecodeConfig(16, limit, limit), config.eval_sampling, (1,), mesh)
    ids = tokenizer(prompt)["input_ids"]
    s = sampler(params, [ids], [turn], 1, Address(seed, TALK, turn))
    return decode(tokenizer, s.tokens_BT[0, : s.length_B[0]], (1,)), int(s.length_B[0])


def test_it_prints_what_the_sampler_draws_token_by_token(workdir, capsys, monkeypatch):
    pieces, real = [], command._write

    def write(text):
        pieces.append(text)
        real(text)

    monkeypatch.setattr(command, "_write", write)
    text, length = drawn(workdir, "7+2=")
    assert said(capsys, f"--workdir={workdir}", "--prompt=7+2=") == text + "\n"
    assert len(pieces) == length + 1 and sum(map(bool, pieces)) > 8


def test_a_run_that_interrupts_does_so_here_too(workdir, tmp_path, capsys):
    folder = shutil.copytree(workdir, tmp_path / "interrupting")
    config = json.loads((folder / "config.json").read_text())
    config["interruption"] = {"after": [3], "text": "so", "unless": ""}
    (folder / "config.json").write_text(json.dumps(config))
    flags = ("--prompt=7+2=", "--seed=1")
    free, said_so = (said(capsys, f"--workdir={w}", *flags) for w in (workdir, folder))
    assert said_so[:5] == free[:3] + "so" != free[:5]


def test_piped_lines_are_answered_one_by_one(workdir, capsys, monkeypatch):
    """Each line draws anew; an empty line is none."""
    flags = (f"--workdir={workdir}", "--seed=3", "--max_tokens=8")
    out = said(capsys, *flags, stdin="7+2=\n\n7+2=\n", monkeypatch=monkeypatch)
    expected = [drawn(workdir, "7+2=", turn, 3, 8)[0] for turn in (0, 1)]
    assert expected[0] != expected[1]
    assert out == "".join(f"{text}\n" for text in expected)


def test_settings_of_the_draw(workdir, capsys):
    flags = (f"--workdir={workdir}", "--prompt=7+2=", "--max_tokens=8", "--seed=1")
    greedy = said(capsys, *flags, "--temperature=0")
    assert said(capsys, *flags, "--top_k=1") == greedy
    assert said(capsys, *flags) != greedy


def test_from_a_pipe_as_a_program(workdir):
    environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    done = subprocess.run(
        [sys.executable, "-m", "rlvr_jax.cli", "sample", f"--workdir={workdir}", "--max_tokens=4"],
        input="7+2=\n1+1=\n",
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("\n") >= 2 and ">" not in done.stdout[:1]
    cut = [x for x in done.stderr.splitlines() if "cut off after 4 tokens" in x]
    assert len(cut) <= 2 and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("args", "stdin", "line"),
    [
        (["--prompt=1"], "", "--workdir is missing"),
        (["--workdir=nowhere", "--prompt=1"], "", '"nowhere" is not a run folder'),
        (["--workdir={}"], "", "no prompt"),
        (["--workdir={}", "--prompt="], "", "empty prompt"),
        (["--workdir={}", "--prompt=1", "--template=chat"], "", "no chat template"),
        (["--workdir={}", "--prompt=1", "--template=r1_zro"], "", 'did you mean "r1_zero"'),
        (["--workdir={}", "--prompt=1", "--top_p=2"], "", "top_p must be in (0, 1]"),
        (["--workdir={}", "--prompt=1", "--checkpoint=7"], "", "no checkpoint 7"),
        (["--workdir={}", "--prompt=1", "--max_tokens=0"], "", "max_tokens"),
    ],
)
def test_errors_are_one_line(args, stdin, line, workdir, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
    with pytest.raises(SystemExit) as done:
        cli(["sample", *[a.format(workdir) for a in args]])
    err = [x for x in capsys.readouterr().err.splitlines() if x.startswith("rlvr: ")]
    assert done.value.code == 2 and len(err) == 1 and line in err[0]


# Conversations and text, without a model.


def chat_tokenizer():
    pytest.importorskip("jinja2")
    tokenizer = char_tokenizer()
    tokenizer.chat_template = (
        "{{ bos_token }}{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}{% endfor %}"
        "{% if add_generation_prompt %}[assistant]{% endif %}"
    )
    return tokenizer


def talk(replies, template="chat"):
    """(a Talk that says `replies` in turn, the prompts it was given)."""
    tokenizer, asked = chat_tokenizer(), []

    def sample(ids, turn, stream):
        asked.append(tokenizer.decode(ids))
        tokens = np.array([tokenizer(replies[turn])["input_ids"] + [1]], np.int32)
        zeros = np.zeros(tokens.shape, np.float32)
        return Samples(
            tokens_BT=tokens,
            logp_BT=zeros,
            forced_BT=zeros > 0,
            length_B=np.array([tokens.shape[1]]),
            eos_B=np.array([True]),
            decode_steps=0,
            decode_rows=0,
        )

    return command.Talk(sample, tokenizer, PromptFormat(template), (1,)), asked


def test_a_conversation_goes_on_in_the_chat_template(capsys):
    t, asked = talk(["5", "6", "7"])
    assert [t.reply("2+3"), t.reply("and one")] == ["5", "6"]
    assert asked == [
        "<bos>[user]2+3[assistant]",
        "<bos>[user]2+3[assistant]5[user]and one[assistant]",
    ]
    t.turns = []
    t.reply("new")
    assert asked[-1] == "<bos>[user]new[assistant]"
    assert capsys.readouterr().out == "5\n6\n7\n"


def test_plain_prompts_know_nothing_of_each_other(capsys):
    t, asked = talk(["5", "6"], "none")
    t.reply("2+3")
    t.reply("and one")
    assert asked == ["2+3", "and one"] and t.turns == []


def test_characters_the_tokenizer_lacks_are_told(capsys):
    t, asked = talk(["5", "6"], "none")
    t.reply("2\u4e2d\u4e2d")
    assert capsys.readouterr().err == '(the tokenizer has no token for U+4E2D "\u4e2d")\n'
    t.reply("2+3")
    assert capsys.readouterr().err == "" and asked[0] == "2<unk><unk>"


class Bytes:
    """A tokenizer of bytes."""

    def decode(self, ids, **_):
        return bytes(ids).decode("utf-8", errors="replace")

    def convert_ids_to_tokens(self, ids):
        return [chr(i) for i in ids]


def test_half_a_character_waits():
    ids = list("a\u00e9\u4e2db".encode())
    stream = TextStream(Bytes(), ())
    pieces = [stream.feed(ids[: i + 1]) for i in range(len(ids))]
    assert pieces == ["a", "", "\u00e9", "", "", "\u4e2d", "b"]
    cut = TextStream(Bytes(), ())
    assert cut.feed(ids[:2]) == "" and cut.finish(ids[:2]) == "a\ufffd"


def test_an_id_without_a_token_is_streamed_visibly():
    three, nine = char_tokenizer()("39")["input_ids"]
    ids, stream = [three, 620, nine, 620], TextStream(char_tokenizer(), ())
    assert "".join(stream.feed(ids[: i + 1]) for i in range(4)) == "3\ufffd9"
    assert stream.finish(ids) == "\ufffd" and stream.text == "3\ufffd9\ufffd"


def test_the_end_token_is_not_text():
    stream = TextStream(char_tokenizer(), (1,))
    ids = [*char_tokenizer()("ab")["input_ids"], 1]
    assert [stream.feed(ids[:n]) for n in (1, 2, 3)] == ["a", "b", ""]
    assert stream.finish(ids) == "" and stream.text == "ab"


def test_the_format_is_that_of_training_or_the_chat_template():
    class Config:
        text = PromptFormat()

    plain, chat = char_tokenizer(), chat_tokenizer()
    assert command._format(Config, None, plain).template == "none"
    assert command._format(Config, None, chat).template == "chat"
    assert command._format(Config, "none", chat).template == "none"
    Config.text = PromptFormat("r1_zero")
    assert command._format(Config, None, chat).template == "r1_zero"


def test_the_run_folder_is_only_read(workdir):
    saved = json.loads((workdir / "config.json").read_text())
    assert saved["model"]["layers"] == 1 and not (workdir / "eval.json").exists()
