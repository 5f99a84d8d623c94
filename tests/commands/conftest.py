"""The command line in this process: what `rlvr` would do, up to the point where it trains."""

import pytest

from rlvr_jax import cli
from rlvr_jax.commands import flags


@pytest.fixture
def rlvr(monkeypatch, capsys):
    """rlvr("run", "--config=...") -> (exit code, standard output, standard error)."""
    monkeypatch.setattr(flags, "prepare_process", lambda: None)  # this process is not a program

    def call(*args):
        with pytest.raises(SystemExit) as done:
            cli.main([str(arg) for arg in args])
        return done.value.code, *capsys.readouterr()

    return call


@pytest.fixture
def complaint(rlvr):
    """The one line with which a command refuses."""

    def call(*args):
        code, _, err = rlvr(*args)
        lines = err.splitlines()
        assert code == 2 and len(lines) == 1 and lines[0].startswith("rlvr: "), err
        return lines[0]

    return call


@pytest.fixture
def built(rlvr, monkeypatch):
    """The RunConfig that `rlvr run ...` would train."""
    seen = []
    monkeypatch.setattr(
        "rlvr_jax.recipes.pipeline.run_pipeline", lambda config, workdir: seen.append(config)
    )

    def call(*args):
        code, _, err = rlvr("run", "--workdir=unused", *args)
        assert code == 0, err
        return seen.pop()

    return call
