"""Rewards and functions that misbehave, for the tests of the pool (workers import this file)."""

import ctypes
import dataclasses
import os
import subprocess
import sys
import time

from rlvr_jax.rewards.base import Reward
from rlvr_jax.types import Verdict


@dataclasses.dataclass(frozen=True)
class Moody(Reward):
    """Does what the text says."""

    in_worker = True
    deadline_s = 1.0
    memory_mb = 1024

    def __call__(self, completion, problem):
        text = completion.text
        if text == "hang":
            while True:
                pass
        elif text == "sleep":
            time.sleep(60)
        elif text == "child":
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
            time.sleep(60)
        elif text == "abort":
            os.abort()
        elif text == "segv":
            ctypes.string_at(0)
        elif text == "exit":
            os._exit(3)
        elif text == "eat":
            bytearray(2**40)
        elif text == "deep":
            self(completion, problem) if text == "deep" else None
        elif text == "raise":
            raise KeyError("no such thing")
        return Verdict(status="scored", score=float(len(text)), reason=text)


def ones(prompts, completions, **columns):
    return [1.0] * len(prompts)


def length(completions, answer):
    return [float(len(c) + len(a)) for c, a in zip(completions, answer, strict=True)]


def columns_seen(prompts, completions, completion_ids, level, **columns):
    assert columns["answer"] == ["7", "7"] and completion_ids == [[1], [2]]
    return [None if x is None else float(x) for x in level]


def chat(prompts, completions):
    assert prompts[0][0]["role"] == "user" and completions[0][0]["role"] == "assistant"
    return [float(c[0]["content"]) for c in completions]


def raises(prompts, completions, **columns):
    return [1 / 0]


def hangs(prompts, completions, **columns):
    time.sleep(60)


def too_few(prompts, completions, **columns):
    return [1.0]


def text(prompts, completions, **columns):
    return "1" * len(prompts)


def pairs(prompts, completions, **columns):
    return dict.fromkeys(range(len(prompts)), 1.0)


def texts(prompts, completions, **columns):
    return ["1"] * len(prompts)


def no_list(prompts, completions, **columns):
    return 1.0


def nan(prompts, completions, **columns):
    return [float("nan")] * len(prompts)


def huge(prompts, completions, **columns):
    return [10**400] * len(prompts)


def no_memory(prompts, completions, **columns):
    raise MemoryError


class Mute(Exception):
    def __str__(self):
        raise ValueError


def mute(prompts, completions, **columns):
    raise Mute


def leaves(prompts, completions, **columns):
    sys.exit(0)


def dies(prompts, completions, **columns):
    os._exit(7)
