"""A folder belongs to one configuration; a signal asks, it does not kill."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from rlvr_jax.workdir import Stop, claim_workdir, some, write_durably

CONFIG = {"seed": 0, "optim": {"learning_rate": 1e-3, "betas": (0.9, 0.95)}, "task": {}}


def changed(**optim):
    return CONFIG | {"optim": CONFIG["optim"] | optim}


def test_first_use_writes_and_the_same_config_returns(tmp_path):
    assert not claim_workdir(tmp_path / "a/b", CONFIG)
    assert claim_workdir(tmp_path / "a/b", CONFIG)
    assert [p.name for p in (tmp_path / "a/b").iterdir()] == ["config.json"]


@pytest.mark.parametrize(
    "config, told",
    [
        (changed(learning_rate=3e-3), "optim.learning_rate was 0.001, is 0.003;"),
        (changed(betas=(0.9, 0.99)), "optim.betas was [0.9, 0.95], is [0.9, 0.99];"),
        (changed(eps=1e-8), "optim.eps was absent, is 1e-08;"),
        ({k: v for k, v in CONFIG.items() if k != "task"}, "task was {}, is absent;"),
        (CONFIG | {"seed": 0.0}, "seed was 0, is 0.0;"),
        (CONFIG | {"seed": False}, "seed was 0, is false;"),
    ],
)
def test_another_config_is_told_apart(tmp_path, config, told):
    claim_workdir(tmp_path, CONFIG)
    before = (tmp_path / "config.json").read_text()
    with pytest.raises(ValueError) as error:
        claim_workdir(tmp_path, config)
    assert told in str(error.value) and "another --workdir" in str(error.value)
    assert (tmp_path / "config.json").read_text() == before


def test_many_differences_are_counted(tmp_path):
    claim_workdir(tmp_path, {str(i): i for i in range(9)})
    with pytest.raises(ValueError, match=r"0 was 0, is 1, .*4 was 4, is 5 \(and 4 more\)"):
        claim_workdir(tmp_path, {str(i): i + 1 for i in range(9)})


@pytest.mark.parametrize("free", ["optim", "optim.learning_rate"])
def test_free_keys_may_differ(tmp_path, free):
    claim_workdir(tmp_path, CONFIG)
    assert claim_workdir(tmp_path, changed(learning_rate=1.0), free=(free,))


def test_a_free_key_frees_no_other_that_begins_like_it(tmp_path):
    claim_workdir(tmp_path, CONFIG)
    with pytest.raises(ValueError, match="learning_rate was"):
        claim_workdir(tmp_path, changed(learning_rate=1.0), free=("optim.learning", "opt"))


def test_folders_that_cannot_be_used(tmp_path):
    (tmp_path / "file").write_text("x")
    for workdir in (tmp_path / "file", tmp_path / "file/inside", tmp_path / ("x" * 300)):
        with pytest.raises(ValueError, match="workdir .* cannot be used: "):
            claim_workdir(workdir, CONFIG)
    with pytest.raises(ValueError, match="folder of this machine, got gs://bucket/x"):
        claim_workdir("gs://bucket/x", CONFIG)
    (tmp_path / "config.json").write_text('{"seed": 0')
    with pytest.raises(ValueError, match=r"config.json is not JSON"):
        claim_workdir(tmp_path, CONFIG)


@pytest.mark.parametrize("bound", [False, True])
def test_a_folder_without_write_permission(tmp_path, bound, monkeypatch):
    if bound:
        claim_workdir(tmp_path, CONFIG)
    tmp_path.chmod(0o555)
    if os.geteuid() == 0:  # root may write anywhere: answer as the system would answer others
        monkeypatch.setattr(os, "access", lambda *_: False)
        monkeypatch.setattr("rlvr_jax.workdir.write_durably", _denied)
    try:
        with pytest.raises(ValueError, match="cannot be used: Permission denied"):
            claim_workdir(tmp_path, CONFIG)
    finally:
        tmp_path.chmod(0o755)


def _denied(*_):
    raise PermissionError(13, "Permission denied")


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "x.json"
    write_durably(path, "old")
    with monkeypatch.context() as patch, pytest.raises(OSError):
        patch.setattr(os, "replace", _denied)
        write_durably(path, "new")
    assert path.read_text() == "old"


def test_some():
    assert some(["a", "b"]) == "a, b"
    assert some(["a", "b", "c"], 2) == "a, b (and 1 more)"


# Stop --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_sets_the_flag_and_the_old_handlers_return(number):
    before = [signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGINT)]
    with Stop() as stop:
        assert not stop.requested
        os.kill(os.getpid(), number)
        assert stop.requested
        os.kill(os.getpid(), signal.SIGTERM)  # asking again changes nothing
    assert [signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGINT)] == before


def test_a_second_interrupt_interrupts():
    with pytest.raises(KeyboardInterrupt), Stop() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.requested
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("not reached")


def test_outside_the_main_thread_nothing_is_installed():
    seen = []

    def body():
        with Stop() as stop:
            seen.append((stop.requested, signal.getsignal(signal.SIGTERM)))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert seen == [(False, before)]


def test_nothing_here_needs_jax():
    code = "import sys, rlvr_jax.workdir; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
