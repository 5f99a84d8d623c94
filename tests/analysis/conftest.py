"""A run folder with invented but plausible numbers: warm-up, then reinforcement learning."""

import contextlib
import io
import json
import math

import numpy as np
import pytest

from rlvr_jax.evalreport import EvalReport
from rlvr_jax.log import Clock, Console, RunLog, StagePlan, sample_row
from rlvr_jax.types import Completion, Problem, Verdict

SFT, RL = 900, 150


class Ticks:
    """A clock that moves when told to."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def invented_report(rng, accuracy, problems=200, k=8):
    rates = rng.beta(1.2 * accuracy + 0.02, 1.2 * (1 - accuracy) + 0.02, problems)
    correct = rng.random((problems, k)) < rates[:, None]
    tokens = np.where(correct, rng.normal(22, 3, correct.shape), rng.normal(26, 6, correct.shape))
    answers = [[str(int(x) if x else rng.integers(2, 9)) for x in row] for row in correct]
    return EvalReport.build(correct, correct * 1.0, tokens, [["eos"] * k] * problems, answers)


def invented_samples(rng, accuracy, count=12):
    for index in range(count):
        a, b, c = (int(x) for x in np.random.default_rng(index).integers(0, 21, 3))
        right = rng.random() < accuracy
        answer = a + b + c if right else a + b + c + int(rng.integers(1, 9))
        text = f"<think>{a}+{b}={a + b}\n{a + b}+{c}={answer}</think><answer>{answer}</answer>"
        if index == 5:
            text = "<script>alert('x')</script> <b>bold & loud</b> \x1b[31m \u202e end"
        verdict = Verdict(
            status="scored" if right else "wrong",
            score=float(right),
            reason="" if right else "different number",
            parts={"correct": float(right), "format": 1.0},
            extracted=str(answer),
        )
        completion = Completion(text=text, num_tokens=len(text), stop_reason="eos")
        problem = Problem(prompt=f"{a}+{b}+{c}=", answer=str(a + b + c), index=index)
        yield sample_row(problem, completion, verdict, split="test")


def spend(log, ticks, **seconds):
    for part, duration in seconds.items():
        with log.clock(part):
            ticks.now += duration
    ticks.now += 0.01


def warm_up(log, ticks, rng):
    log.evaluation("sft", 0, "test", "before", invented_report(rng, 0.0))
    for step in range(25, SFT + 1, 25):
        spend(log, ticks, update=2.0)
        loss = 0.35 + 2.2 * math.exp(-step / 150) + 0.02 * rng.normal()
        values = {"sft/loss": loss, "data/tokens": 40_000}
        log.metrics("sft", step, values)
    log.evaluation("sft", SFT, "test", "after", invented_report(rng, 0.5))


def reinforce(log, ticks, rng, steps):
    spend(log, ticks, eval=4.0)
    log.evaluation("rl", 0, "test", "before", invented_report(rng, 0.5))
    log.samples("rl", 0, "before", invented_samples(rng, 0.5))
    for step in range(1, steps + 1):
        spend(log, ticks, generate=0.45, verify=0.02, logprob=0.08, update=0.5, ckpt=0.01)
        level = 0.5 + 0.46 * (1 - math.exp(-step / 35))
        log.metrics("rl", step, invented_numbers(rng, level, step))
        if step % 25 == 0:
            spend(log, ticks, eval=4.0)
            phase = "after" if step == RL else "during"
            log.evaluation("rl", step, "test", phase, invented_report(rng, level))
            log.samples("rl", step, phase, invented_samples(rng, level))


def invented_numbers(rng, level, step):
    return {
        "reward/mean": np.clip(level + 0.04 * rng.normal(), 0, 1),
        "group/all_right_frac": np.clip(level**4 + 0.03 * rng.normal(), 0, 0.96),
        "group/all_wrong_frac": np.clip((1 - level) ** 2 + 0.01 * rng.normal(), 0, 0.04),
        "group/zero_std_frac": level**4,
        "len/correct": 22 + rng.normal(),
        "len/incorrect": 26 + 2.5 * rng.normal(),
        "len/truncated_frac": 0.0,
        "policy/entropy": 0.08 + 0.25 * math.exp(-step / 40) + 0.01 * rng.normal(),
        "policy/kl_ref_k3": max(0.0, 0.06 * (1 - math.exp(-step / 60)) + 0.003 * rng.normal()),
        "mismatch/abs_max": 10 ** rng.normal(-4.6, 0.15),
        "mismatch/abs_mean": 10 ** rng.normal(-6.2, 0.05),
        "data/tokens": 5600,
        "perf/gen_tok_s": 12_000.0,
        "health/nonfinite": 0.0,
    }


def invent_run(workdir, steps=RL):
    rng, ticks = np.random.default_rng(0), Ticks()
    stages = [StagePlan("sft", SFT), StagePlan("rl", RL)]
    console = Console(stages, io.StringIO())
    with contextlib.closing(RunLog(workdir, stages, console=console)) as log:
        log.clock = Clock(ticks)
        warm_up(log, ticks, rng)
        reinforce(log, ticks, rng, steps)
    config = {"seed": 0, "task": {"name": "arithmetic", "operands": 3}, "loss": {"name": "clipped"}}
    (workdir / "config.json").write_text(json.dumps(config))
    return workdir


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    return invent_run(tmp_path_factory.mktemp("finished"))


@pytest.fixture(scope="session")
def partial(tmp_path_factory):
    """Stopped 60 steps into the second stage."""
    return invent_run(tmp_path_factory.mktemp("partial"), steps=60)
