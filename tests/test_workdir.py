"""A folder belongs to one configuration; a signal asks, it does not kill."""

import json
import os
import signal
import subprocess
import sys
import threading

import pytest

from rlvr_jax.config import build
from rlvr_jax.setup import open_run
from rlvr_jax.workdir import Stop, claim_workdir, lock_workdir, some, write_durably

CONFIG = {"seed": 0, "optim": {"learning_rate": 1e-3, "betas": (0.9, 0.95)}, "task": {}}


def changed(**optim):
    return CONFIG | {"optim": CONFIG["optim"] | optim}


def begun(folder, config=CONFIG, data=None):
    """A run of this configuration in the folder, its first step taken."""
    claim_workdir(folder, config, data)
    (folder / "metrics.jsonl").write_text(
        '{"step": 0, "stage": "rl"}\n{"step": 1, "stage": "rl"}\n'
    )


def test_first_use_writes_and_the_same_config_returns(tmp_path):
    folder = tmp_path / "a/b"
    assert not claim_workdir(folder, CONFIG, {"train": "1"})
    assert sorted(p.name for p in folder.iterdir()) == ["config.json", "data.json"]
    begun(folder, CONFIG, {"train": "1"})
    assert claim_workdir(folder, CONFIG, {"train": "1"})


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
    begun(tmp_path)
    before = (tmp_path / "config.json").read_text()
    with pytest.raises(ValueError) as error:
        claim_workdir(tmp_path, config)
    assert told in str(error.value) and "another --workdir" in str(error.value)
    assert (tmp_path / "config.json").read_text() == before


def test_many_differences_are_counted(tmp_path):
    begun(tmp_path, {str(i): i for i in range(9)})
    with pytest.raises(ValueError, match=r"0 was 0, is 1, .*4 was 4, is 5 \(and 4 more\)"):
        claim_workdir(tmp_path, {str(i): i + 1 for i in range(9)})


@pytest.mark.parametrize("free", ["optim", "optim.learning_rate"])
def test_free_keys_may_differ(tmp_path, free):
    begun(tmp_path)
    assert claim_workdir(tmp_path, changed(learning_rate=1.0), free=(free,))


def test_a_run_from_before_a_section_existed_goes_on(tmp_path):
    config = build({"task": {"name": "arithmetic"}, "decode": {"max_prompt_tokens": 32}})
    with open_run(config, str(tmp_path)) as run:
        run.log.metrics("rl", 1, {"reward/mean": 0.0})
    saved = json.loads((tmp_path / "config.json").read_text())
    del saved["interruption"]
    (tmp_path / "config.json").write_text(json.dumps(saved))
    with open_run(config, str(tmp_path)):
        pass
    (tmp_path / "config.json").write_text(json.dumps(saved | {"seed": 5}))
    with pytest.raises(ValueError, match="seed was 5, is 0"), open_run(config, str(tmp_path)):
        pass


def test_keys_that_came_later_take_their_defaults(tmp_path):
    begun(tmp_path)
    later = CONFIG | {"interruption": {"after": ()}}
    with pytest.raises(ValueError, match="interruption.after was absent"):
        claim_workdir(tmp_path, later)
    assert claim_workdir(tmp_path, later, complete=lambda old: later | old)


@pytest.mark.parametrize(
    "left",  # by a run that failed before its first step was logged
    ["", '{"step": 0, "stage": "sft"}\n', '{"step": 0, "stage": "sft"}\n{"step": 1, "st'],
)
def test_a_folder_without_a_step_takes_another_config_and_other_data(tmp_path, left):
    claim_workdir(tmp_path, CONFIG, {"train": "1"})
    (tmp_path / "metrics.jsonl").write_text(left)
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "1.orbax-checkpoint-tmp").mkdir()
    other = changed(learning_rate=3e-3)
    assert not claim_workdir(tmp_path, other, {"train": "2"})
    (tmp_path / "checkpoints" / "1").mkdir()
    assert claim_workdir(tmp_path, other, {"train": "2"})
    with pytest.raises(ValueError, match="learning_rate was 0.003, is 0.001;"):
        claim_workdir(tmp_path, CONFIG, {"train": "2"})


def test_changed_data_are_named(tmp_path):
    known = {"train": "1", "test": "2", "file a.jsonl": "3", "file mine.py": "4"}
    begun(tmp_path, CONFIG, known)
    assert claim_workdir(tmp_path, CONFIG, known)
    with pytest.raises(ValueError, match="on other data: file a.jsonl changed since it began"):
        claim_workdir(tmp_path, CONFIG, known | {"train": "0", "file a.jsonl": "0"})
    with pytest.raises(ValueError, match="on other data: the test problems changed since"):
        claim_workdir(tmp_path, CONFIG, known | {"test": "0"})
    (tmp_path / "data.json").unlink()  # a run from before data were claimed
    assert claim_workdir(tmp_path, CONFIG, known)
    with pytest.raises(ValueError, match="file mine.py changed"):
        claim_workdir(tmp_path, CONFIG, known | {"file mine.py": "0"})


def test_a_folder_serves_one_process_at_a_time(tmp_path):
    """The lock lies on the open file, so that a second one in this process meets it too."""
    folder = tmp_path / "new"
    with lock_workdir(folder):
        with pytest.raises(ValueError, match=f"in use by process {os.getpid()};"):
            lock_workdir(folder).__enter__()
        with lock_workdir(tmp_path / "other"):
            pass
    with lock_workdir(folder):
        pass


def test_a_killed_process_gives_the_lock_back(tmp_path):
    code = (
        "import sys, time; from rlvr_jax.workdir import lock_workdir\n"
        "with lock_workdir(sys.argv[1]): print('held', flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout.readline() == b"held\n"
            with pytest.raises(ValueError, match=f"in use by process {holder.pid};"):
                lock_workdir(tmp_path).__enter__()
        finally:
            holder.kill()
    with lock_workdir(tmp_path):
        pass


def test_a_free_key_frees_no_other_that_begins_like_it(tmp_path):
    begun(tmp_path)
    with pytest.raises(ValueError, match="learning_rate was"):
        claim_workdir(tmp_path, changed(learning_rate=1.0), free=("optim.learning", "opt"))


def test_folders_that_cannot_be_used(tmp_path):
    (tmp_path / "file").write_text("x")
    for use in (lambda w: claim_workdir(w, CONFIG), lambda w: lock_workdir(w).__enter__()):
        for workdir in (tmp_path / "file", tmp_path / "file/inside", tmp_path / ("x" * 300)):
            with pytest.raises(ValueError, match="workdir .* cannot be used: "):
                use(workdir)
        with pytest.raises(ValueError, match="folder of this machine, got gs://bucket/x"):
            use("gs://bucket/x")
        with pytest.raises(ValueError, match="workdir is empty"):
            use("")
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
