"""Every `rlvr run` that the README and the configs write is a command that builds a run."""

import json
import pathlib
import re
import shlex

import pytest

from rlvr_jax import cli
from rlvr_jax.commands import flags
from rlvr_jax.models.config import AttentionConfig, ModelConfig

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "configs").glob("*.py"))]


def commands(page):
    """Its `rlvr run` lines, continued ones joined, comments left out."""
    text = re.sub(r"\\+\n", " ", page.read_text())
    lines = [line.strip() for line in text.splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("rlvr run ")]


WRITTEN = [(page.name, args) for page in PAGES for args in commands(page)]


def test_every_page_has_one():
    assert {name for name, _ in WRITTEN} == {page.name for page in PAGES}


@pytest.mark.parametrize(("page", "args"), WRITTEN, ids=lambda x: x if isinstance(x, str) else "")
def test_it_builds_and_finds_its_problems(page, args, tmp_path, monkeypatch):
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    (tmp_path / "my_rewards.py").write_text("def my_reward(prompts, completions, **columns): ...\n")
    (tmp_path / "data" / "gsm8k").mkdir(parents=True)
    for name, numbers in (("train", range(8)), ("test", range(8, 12))):
        rows = [{"question": f"{n}+1=", "answer": f"#### {n + 1}"} for n in numbers]
        rows = [row | {"problem": row["question"], "gold": n} for n, row in enumerate(rows)]
        for folder in (tmp_path, tmp_path / "data" / "gsm8k"):
            (folder / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(flags, "prepare_process", lambda: None)
    small = ModelConfig(vocab=9, width=8, layers=1, mlp_width=8, attn=AttentionConfig(1, 1, 8))
    monkeypatch.setattr("rlvr_jax.models.hf.read_config", lambda name: small)  # no network here
    seen = []
    monkeypatch.setattr("rlvr_jax.recipes.pipeline.run_pipeline", lambda *given: seen.append(given))
    with pytest.raises(SystemExit) as done:
        cli.main(args)
    assert done.value.code == 0
    [(config, workdir)] = seen
    assert workdir.startswith("runs/")
    if getattr(config.task, "path", "a generator's"):  # "" = fetched from the hub
        assert len(config.task.split("train")) and len(config.task.split("test"))
