"""Two thousand items of which some hang, crash, eat memory or raise; the pool must not notice."""

import random

import pool_rewards
import psutil

from rlvr_jax.rewards import RewardPool
from rlvr_jax.types import Completion, Problem

DUE = {
    "hang": ("timeout",),
    "sleep": ("timeout",),
    "abort": ("crash",),
    "segv": ("crash",),
    "exit": ("crash",),
    "eat": ("memory",),
    "deep": ("memory", "timeout"),
    "raise": ("checker_error",),
}


def test_soak():
    rng = random.Random(0)
    items = ["x" * rng.randrange(9) for _ in range(2000)]
    for place in rng.sample(range(2000), 24):
        items[place] = rng.choice(list(DUE))
    me = psutil.Process()
    others = set(me.children(recursive=True))  # of other tests in this process
    files, problem = me.num_fds(), Problem(prompt="", answer="", index=0)
    # a deadline that an honest item does not miss on a busy machine
    with RewardPool(pool_rewards.Moody(), workers=2, deadline_s=1.5) as pool:
        for at in range(0, 2000, 500):
            part = items[at : at + 500]
            verdicts = pool.grade([Completion(text=t) for t in part], [problem] * 500)
            for text, verdict in zip(part, verdicts, strict=True):
                if text in DUE:
                    assert verdict.reason in DUE[text] and verdict.status != "scored"
                else:
                    assert verdict.status == "scored" and verdict.score == len(text)
            assert len(set(me.children(recursive=True)) - others) <= 3
    left = set(me.children(recursive=True)) - others
    _, alive = psutil.wait_procs(left, timeout=5)
    assert not alive and me.num_fds() <= files
