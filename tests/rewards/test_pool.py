import os
import signal
import subprocess
import sys
import time

import pool_rewards
import psutil
import pytest

from rlvr_jax.rewards import RewardPool, make_grader
from rlvr_jax.rewards.numeric import Numeric
from rlvr_jax.rewards.pool import Pending
from rlvr_jax.types import Completion, Problem

PROBLEM = Problem(prompt="?", answer="7", index=0)


def many(texts):
    return [Completion(text=t) for t in texts], [PROBLEM] * len(texts)


def test_every_mishap_costs_only_its_own_item():
    bad = ["hang", "sleep", "child", "abort", "segv", "exit", "eat", "deep", "raise"]
    texts = [t for i in range(len(bad)) for t in ("x" * i, bad[i], "y" * i)]
    with RewardPool(pool_rewards.Moody(), workers=2) as pool:
        verdicts = pool.grade(*many(texts))
        stats = pool.stats
    for text, verdict in zip(texts, verdicts, strict=True):
        if text not in bad:
            assert verdict.score == len(text) and verdict.status == "scored"
    found = {t: (v.status, v.reason) for t, v in zip(texts, verdicts, strict=True) if t in bad}
    assert all(found[t] == ("wrong", "timeout") for t in ("hang", "sleep", "child"))
    assert all(found[t] == ("wrong", "crash") for t in ("abort", "segv", "exit"))
    assert all(found[t] == ("wrong", "memory") for t in ("eat", "deep"))
    assert found["raise"] == ("unknown", "checker_error")
    assert (stats.timeouts, stats.crashes, stats.memory, stats.errors) == (3, 3, 2, 1)
    assert "KeyError" in stats.last_error and "pool_rewards.py" in stats.last_error


def test_submit_returns_at_once_and_results_keep_order():
    with RewardPool(pool_rewards.Moody(), workers=2) as pool:
        start = time.monotonic()
        first = pool.submit(*many(["sleep", "a"]))
        second = pool.submit(*many(["bb"] * 500 + ["ccc"]))
        assert time.monotonic() - start < 0.9
        assert [v.score for v in second.result()] == [2.0] * 500 + [3.0]
        assert [v.reason for v in first.result()] == ["timeout", "a"]
        assert pool.grade([], []) == []


def test_back_pressure():
    with RewardPool(pool_rewards.Moody(), workers=1, max_pending=4) as pool:
        verdicts = pool.grade(*many(["sleep"] + ["z"] * 50))
    assert [v.reason for v in verdicts] == ["timeout"] + ["z"] * 50


def test_close_leaves_no_process_and_fails_what_waits():
    others = set(psutil.Process().children(recursive=True))  # of other tests in this process
    pool = RewardPool(pool_rewards.Moody(), workers=2, deadline_s=30.0)
    pending = pool.submit(*many(["child", "sleep"]))
    children, deadline = [], time.monotonic() + 20
    while len(children) < 4 and time.monotonic() < deadline:
        time.sleep(0.05)
        children = [p for p in psutil.Process().children(recursive=True) if p not in others]
    assert len(children) >= 4  # template, two workers, the grandchild
    pool.close()
    pool.close()
    _, alive = psutil.wait_procs(children, timeout=5)
    assert not alive
    with pytest.raises(ValueError, match="closed"):
        pending.result()
    with pytest.raises(ValueError, match="closed"):
        pool.grade(*many(["a"]))


def test_a_worker_that_dies_as_it_is_handed_a_job_is_replaced():
    with RewardPool(pool_rewards.Moody(), workers=1) as pool:
        assert pool.grade(*many(["a"]))[0].score == 1
        (worker,) = pool._loop.crew.workers

        def send(jobs):
            os.kill(worker.pid, signal.SIGKILL)
            raise BrokenPipeError

        worker.conn.send = send
        verdicts = pool.submit(*many(["a", "bb"])).result(timeout=20)
        assert [v.score for v in verdicts] == [1, 2]


def test_a_lost_template_is_replaced():
    with RewardPool(pool_rewards.Moody(), workers=1) as pool:
        for _ in range(8):  # its death meets the pool between two jobs, or while it hands one out
            assert pool.grade(*many(["a"]))[0].score == 1
            template = pool._loop.crew.template
            if template is not None:  # None: only now was the end of the last one noticed
                template._process.kill()
            assert [v.score for v in pool.grade(*many(["a", "bb"]))] == [1, 2]


@pytest.mark.parametrize(
    "end", ["", "os._exit(0)", "raise SystemExit(0)", "os.kill(os.getpid(), 9)"]
)
def test_interpreter_exit_with_a_running_job(end):
    here = os.path.dirname(__file__)
    code = (
        f"import os, sys; sys.path.insert(0, {here!r})\n"
        "import pool_rewards; from rlvr_jax.rewards import RewardPool\n"
        "from rlvr_jax.types import Completion, Problem\n"
        "pool = RewardPool(pool_rewards.Moody(), workers=2, deadline_s=30.0)\n"
        "p = Problem(prompt='', answer='', index=0)\n"
        "assert pool.grade([Completion(text='a')], [p])[0].score == 1\n"
        "pool.submit([Completion(text='sleep')] * 3, [p] * 3)\n"
        f"print('end', flush=True); {end}"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    children = []
    assert process.stdout.readline() == "end\n" or process.poll() is None
    if process.poll() is None:
        children = psutil.Process(process.pid).children(recursive=True)
    process.wait(timeout=10)
    _, alive = psutil.wait_procs(children, timeout=8)
    assert not alive


def test_workers_do_not_import_jax():
    with RewardPool(pool_rewards.Moody(), workers=1) as pool:
        pool.grade(*many(["a"]))
        for child in psutil.Process().children(recursive=True):
            maps = " ".join(m.path for m in child.memory_maps())
            assert "jaxlib" not in maps


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="positive"):
        RewardPool(pool_rewards.Moody(), workers=0)
    with pytest.raises(ValueError, match="deadline_s"):
        RewardPool(pool_rewards.Moody(), deadline_s=0)
    with (
        RewardPool(pool_rewards.Moody()) as pool,
        pytest.raises(ValueError, match="2 completions for 1"),
    ):
        pool.grade([Completion(text="a")] * 2, [PROBLEM])


def test_inline_grader_has_the_same_interface():
    with make_grader(Numeric()) as grader:
        pending = grader.submit(*many(["<answer>7</answer>", "<answer>8</answer>"]))
        assert isinstance(pending, Pending) and pending.done()
        assert [v.correct for v in pending.result()] == [True, False]
        with pytest.raises(ValueError):
            grader.submit([Completion(text="a")] * 2, [PROBLEM])
    with make_grader(pool_rewards.Moody()) as grader:
        assert isinstance(grader, RewardPool)


def test_inline_error_is_could_not_tell():
    class Broken(Numeric):
        def __call__(self, completion, problem):
            raise RuntimeError("oops")

    with make_grader(Broken()) as grader:
        (verdict,) = grader.grade(*many(["7"]))
        assert verdict.status == "unknown" and grader.stats.errors == 1
        assert "oops" in grader.stats.last_error
