"""A reward that hangs, crashes or eats memory as the completion says (for verifier_soak.py)."""

from __future__ import annotations

import dataclasses
import os
import time

from rlvr_jax.rewards import Reward
from rlvr_jax.types import Completion, Problem, Verdict


def hang() -> None:
    while True:
        pass


def eat() -> None:
    kept = []
    while True:
        kept.append(bytearray(2**26))


def fork() -> None:
    os.fork()
    time.sleep(3600)


def deep() -> None:
    deep()


# what an item does, the status due and the reasons due (a busy machine may find a hang first)
ACTS = {
    "hang": (hang, "wrong", ("timeout",)),
    "sleep": (lambda: time.sleep(3600), "wrong", ("timeout",)),
    "abort": (os.abort, "wrong", ("crash",)),
    "exit": (lambda: os._exit(9), "wrong", ("crash",)),
    "eat": (eat, "wrong", ("memory", "timeout")),
    "deep": (deep, "wrong", ("memory", "timeout")),
    "raise": (lambda: {}["missing"], "unknown", ("checker_error",)),
    "fork": (fork, "wrong", ("timeout",)),
}


@dataclasses.dataclass(frozen=True)
class Unruly(Reward):
    """Scores a text by its length, unless the text is the name of an act."""

    in_worker = True
    deadline_s = 1.0
    memory_mb = 512

    def __call__(self, completion: Completion, problem: Problem) -> Verdict:
        if completion.text in ACTS:
            ACTS[completion.text][0]()
        return Verdict(status="scored", score=float(len(completion.text)))
