"""Every error a user can cause: one clear line on stderr, exit code 2, no traceback."""

import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import types

import pytest

from rlvr_jax import cli, doctor

ROOT = pathlib.Path(__file__).resolve().parents[1]
TINY = ROOT / "tests" / "recipes" / "tiny.py"

FUNCTIONS = """
import time
def good(prompts, completions, **columns):
    return [float("4" in c) for c in completions]
def raises(prompts, completions, **columns):
    raise KeyError("no such column")
def hangs(prompts, completions, **columns):
    time.sleep(600)
def short(prompts, completions, **columns):
    return [1.0]
"""


def rlvr(*args, cwd=ROOT) -> subprocess.CompletedProcess:
    environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    command = [sys.executable, "-m", "rlvr_jax.cli", *map(str, args)]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, env=environment, timeout=300
    )


def run(tmp_path, *overrides):
    settings = [f"--config.{pair}" for pair in overrides]
    return rlvr("run", f"--config={TINY}", f"--workdir={tmp_path / 'w'}", *settings)


def complaint(done: subprocess.CompletedProcess) -> str:
    """The one line; fails where there is a traceback, another exit code, or more than one line."""
    assert done.returncode == 2, done.stderr[-2000:]
    assert "Traceback" not in done.stderr
    lines = [x for x in done.stderr.splitlines() if x.startswith("rlvr: ")]
    assert len(lines) == 1, done.stderr
    return lines[0]


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("loss.eps_hihg=0.28", "eps_high"),
        ("los.eps_high=0.28", "loss"),
        ("rollout.prompts=many", "prompts"),
        ("rl.steps=1.5", "steps"),
        ("algorithm=grop", "grpo"),
        ("task.name=arithmetics", "arithmetic"),
        ("loss.tau=0.5", "tau"),
        ("optim.schedule=cosin", "cosine"),
        ("rollout.group=0", "rollout.group"),
        ("mesh.tensor=3", "mesh"),
        ("model.vocab=100", "128 ids"),
        ("text.template=chat", "no chat template"),
        ("learner.minibatches=0", "minibatches"),
    ],
)
def test_config_errors_name_the_key(tmp_path, override, said):
    assert said in complaint(run(tmp_path, override))


def test_options_without_effect_are_refused(tmp_path):
    line = complaint(run(tmp_path, "rollout.dynamic_sampling=False", "rollout.max_refills=2"))
    assert "max_refills" in line and "no effect" in line


def test_missing_config_and_unknown_command(tmp_path):
    assert "nowhere.py" in complaint(rlvr("run", "--config=nowhere.py", "--workdir=w"))
    assert "run" in complaint(rlvr("rnu"))
    assert "--workdir" in complaint(rlvr("run", f"--config={TINY}"))


def jsonl(tmp_path, *lines):
    path = tmp_path / "data.jsonl"
    path.write_text("\n".join(lines) + "\n")
    columns = ["task.prompt_column=q", "task.answer_column=a", "task.test_fraction=0.5"]
    return ["task.name=jsonl", f"task.train_path={path}", *columns, "stages=rl"]


def test_data_errors_name_file_and_line(tmp_path):
    good = [json.dumps({"q": f"{i}+1=", "a": str(i + 1)}) for i in range(20)]
    base = jsonl(tmp_path, *good[:3], '{"q": "broken', *good[3:])
    line = complaint(run(tmp_path, *base))
    assert "data.jsonl" in line and "4" in line
    (tmp_path / "data.jsonl").write_text("")
    assert "data.jsonl" in complaint(run(tmp_path, *base))
    (tmp_path / "data.jsonl").unlink()
    assert "data.jsonl" in complaint(run(tmp_path, *base))


def test_prompt_longer_than_the_limit(tmp_path):
    line = complaint(run(tmp_path, "decode.max_prompt_tokens=2"))
    assert "max_prompt_tokens" in line


@pytest.mark.parametrize(
    ("function", "said"), [("raises", "no such column"), ("hangs", "s"), ("short", "1")]
)
def test_reward_functions_that_fail_stop_the_run(tmp_path, function, said):
    (tmp_path / "mine.py").write_text(FUNCTIONS)
    settings = ["reward.name=function", f"reward.path={tmp_path / 'mine.py'}:{function}"]
    line = complaint(run(tmp_path, *settings, "reward.deadline_s=1.0", "sft.steps=1"))
    assert function in line and said in line


def test_user_function_trains(tmp_path):
    (tmp_path / "mine.py").write_text(FUNCTIONS)
    settings = ["reward.name=function", f"reward.path={tmp_path / 'mine.py'}:good"]
    done = run(tmp_path, *settings, "sft.steps=2", "rl.steps=1")
    assert done.returncode == 0, done.stderr[-2000:]


def test_unwritable_workdir(tmp_path):
    (tmp_path / "w").write_text("a file, not a folder")
    assert "w" in complaint(run(tmp_path))


@pytest.mark.parametrize("buffering", [1, -1], ids=["by lines", "in one piece"])
@pytest.mark.parametrize(
    "args",
    [["--help"], ["list", "losses"], ["run", "--help"], ["doctor", f"--config={TINY}"]],
)
def test_output_that_nobody_reads_ends_the_command_without_a_word(
    args, buffering, monkeypatch, capfd
):
    monkeypatch.setattr(doctor, "examine", lambda config: [])
    read, write = os.pipe()
    os.close(read)
    with open(write, "w", buffering=buffering) as out, pytest.raises(SystemExit) as done:
        monkeypatch.setattr(sys, "stdout", out)
        cli.main(args)
    assert done.value.code == 128 + signal.SIGPIPE
    assert capfd.readouterr().err == ""


def test_another_broken_pipe_is_told(monkeypatch, capsys):
    def breaks(args):
        raise BrokenPipeError(32, "of a worker")

    monkeypatch.setattr(cli, "COMMANDS", {"run": cli.Command("breaks:breaks", "")})
    monkeypatch.setitem(sys.modules, "breaks", types.SimpleNamespace(breaks=breaks))
    monkeypatch.setattr(cli, "_reader_gone", lambda: False)  # the captured output is no pipe
    with pytest.raises(SystemExit) as done:
        cli.main(["run"])
    assert done.value.code == 2 and "of a worker" in capsys.readouterr().err


def test_a_terminal_without_the_characters_gets_others(monkeypatch):
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(cli, "usage", lambda: "caf\u00e9 \u2588")
    cli.main(["--help"])
    assert out.buffer.getvalue() == b"caf? ?\n"


def test_help_is_for_people():
    for args in (["--help"], ["run", "--help"], ["eval", "--help"], ["doctor", "--help"]):
        done = rlvr(*args)
        assert done.returncode == 0 and "rlvr" in done.stdout and not done.stderr
    assert "grpo" in rlvr("list", "algorithms").stdout
