"""Commands on run folders: those that are none, that are broken, that serve another process."""

import json
import pathlib
import shlex

import pytest

from rlvr_jax.commands import sample
from rlvr_jax.config import build, to_json
from rlvr_jax.setup import Stopped, open_run
from rlvr_jax.workdir import lock_workdir

ROOT = pathlib.Path(__file__).resolve().parents[2]
TINY = f"--config={ROOT / 'tests' / 'recipes' / 'tiny.py'}"
READERS = ("eval", "sample", "report", "export")


def reader(command, workdir):
    return (command, f"--workdir={workdir}", *(["--to=out"] if command == "export" else []))


def test_version(capsys, monkeypatch):
    from rlvr_jax import cli

    monkeypatch.setattr("importlib.metadata.version", {"rlvr-jax": "7.1"}.__getitem__)
    cli.main(["--version"])
    assert capsys.readouterr().out == "rlvr_jax 7.1\n"


@pytest.mark.parametrize("command", READERS)
def test_a_folder_that_is_no_run(complaint, tmp_path, command):
    (tmp_path / "quick").mkdir()
    line = complaint(*reader(command, tmp_path / "qick"))
    assert (
        f'"{tmp_path}/qick" is not a run folder: it does not exist; did you mean "quick"?' in line
    )
    assert '/quick" is not a run folder' in complaint(*reader(command, tmp_path / "quick"))
    assert "--workdir is empty" in complaint(*reader(command, ""))


@pytest.mark.parametrize("command", ["eval", "sample", "export"])
@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (b'{"seed": 0', "Expecting"),
        (b"\xff\xfe", "utf-8"),
        (b"[1, 2]", "an object of sections, not list"),
        (b"{}", "config.task.name"),
        (b'{"task": 5}', 'section "task" must hold keys, got 5'),
        (b'{"task": {"name": "arithmetic", "size_train": "x"}}', "task.size_train must be int"),
    ],
)
def test_a_broken_config_of_a_run(complaint, tmp_path, command, broken, said):
    (tmp_path / "config.json").write_bytes(broken)
    line = complaint(*reader(command, tmp_path))
    assert f"{tmp_path}/config.json is no configuration of a run" in line and said in line


def test_the_home_folder_is_expanded(rlvr, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    seen = []
    monkeypatch.setattr(
        "rlvr_jax.recipes.pipeline.run_pipeline", lambda config, workdir: seen.append(workdir)
    )
    (tmp_path / "own.py").write_bytes((ROOT / "configs" / "quickstart.py").read_bytes())
    assert rlvr("run", "--config=~/own.py", "--workdir=~/runs/x")[0] == 0
    assert seen == [f"{tmp_path}/runs/x"]


def test_a_stopped_run_says_how_it_goes_on(rlvr, monkeypatch):
    def stop(config, workdir):
        raise Stopped("stopped after step 3 of stage rl")

    monkeypatch.setattr("rlvr_jax.recipes.pipeline.run_pipeline", stop)
    args = ["run", TINY, "--workdir=a b", "--config.stages=('sft','rl')"]
    code, out, _ = rlvr(*args)
    assert code == 0 and out.startswith("stopped after step 3 of stage rl; ")
    assert shlex.split(out.split("resumes it: ")[1]) == ["rlvr", *args]


# Text that is none.


def test_piped_bytes_that_are_no_text(monkeypatch, tmp_path):
    (tmp_path / "in").write_bytes(b"7+2=\n\xff\xfe\n")
    with open(tmp_path / "in", encoding="utf-8") as file:
        monkeypatch.setattr("sys.stdin", file)
        with pytest.raises(ValueError, match="standard input is not UTF-8"):
            list(sample._lines())


def test_a_prompt_that_is_no_text():
    """Under some locales Python keeps bytes that are no text as lone surrogates."""
    with pytest.raises(ValueError, match="not UTF-8"):
        sample.Talk(None, None, None, ()).reply(b"\xff".decode(errors="surrogateescape"))


# The run's own folder.


@pytest.fixture
def config(tmp_path):
    """Twelve sums of one's own and a reward of one's own; one stage."""
    (tmp_path / "mine.py").write_text("def pay(completions, **columns):\n    return [0.0]\n")
    rows = [{"prompt": f"{n}+1=", "answer": n + 1, "how": f"{n};{n + 1}"} for n in range(12)]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    plain = {
        "task": {
            "name": "jsonl",
            "train_path": str(tmp_path / "data.jsonl"),
            "test_fraction": 0.3,
        },
        "reward": {"name": "function", "path": f"{tmp_path}/mine.py:pay"},
        "model": {"width": 16, "layers": 1, "mlp_width": 16},
        "decode": {"max_prompt_tokens": 8, "max_new_tokens": 8, "chunk": 8},
        "pack": {"row_tokens": 16},
        "mesh": {"data": -1, "fsdp": 1},
        "stages": ("rl",),
    }
    return plain


def opened(config, workdir):
    with open_run(build(config), workdir) as run:
        return run.data


def step_taken(workdir):
    with open(workdir / "metrics.jsonl", "a") as file:
        file.write('{"step": 1, "stage": "rl"}\n')


def test_a_folder_in_use_is_refused(config, tmp_path):
    with (
        lock_workdir(tmp_path / "w"),
        pytest.raises(ValueError, match=r"w is in use by process \d+;"),
    ):
        opened(config, tmp_path / "w")
    assert not (tmp_path / "w" / "config.json").exists()


def test_changed_files_are_named_on_resume(config, tmp_path):
    work, data, mine = tmp_path / "w", tmp_path / "data.jsonl", tmp_path / "mine.py"
    before = opened(config, work)
    assert set(before) == {"train", "test", f"file {data}", f"file {mine}"}
    assert json.loads((work / "data.json").read_text()) == before
    step_taken(work)
    assert opened(config, work) == before
    old = data.read_text()
    data.write_text(old + '{"prompt": "1+7=", "answer": 8}\n')
    with pytest.raises(ValueError, match=f"other data: file {data} changed since it began;"):
        opened(config, work)
    data.write_text(old)
    mine.write_text("def pay(completions, **columns):\n    return [1.0]\n")
    with pytest.raises(ValueError, match=f"other data: file {mine} changed since it began;"):
        opened(config, work)


def test_a_run_that_never_began_binds_nothing(config, tmp_path):
    opened(config, tmp_path / "w")
    opened(config | {"seed": 5}, tmp_path / "w")
    step_taken(tmp_path / "w")
    with pytest.raises(ValueError, match="seed was 5, is 0"):
        opened(config, tmp_path / "w")
    saved = json.loads((tmp_path / "w" / "config.json").read_text())
    assert saved == json.loads(json.dumps(to_json(build(config | {"seed": 5}))))


def test_sft_without_solutions_is_refused_before_anything_else(config, tmp_path):
    both = config | {"stages": ("sft", "rl")}
    with pytest.raises(ValueError, match=r'"jsonl" gives none: .*data.jsonl \(task.solution_col'):
        opened(both, tmp_path / "w")
    assert not (tmp_path / "w").exists()
    opened(both | {"task": both["task"] | {"solution_column": "how"}}, tmp_path / "w")
