"""Sampled evaluation on held-out problems, through the same rollout path as training."""

from __future__ import annotations

import collections
import dataclasses
import logging
from collections.abc import Sequence

import numpy as np

from rlvr_jax.evalreport import EvalReport
from rlvr_jax.generate import Address
from rlvr_jax.rollout import EVAL, Actor, Judged, join
from rlvr_jax.types import Problem, Verdict

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class EvalConfig:
    """pass@k is reported for k = 1, 2, 4, ... up to `samples`."""

    problems: int = 128  # the first ones of the test split; fewer if it is smaller
    samples: int = 4  # completions of each
    every: int = 50  # steps of any stage, sft too, between evaluations; 0 = only before and after
    batch: int = 128  # prompts decoded at a time
    show: int = 8  # problems whose first completion goes to samples.jsonl, the same every time

    def __post_init__(self):
        for name in ("problems", "samples", "batch"):
            if getattr(self, name) < 1:
                raise ValueError(f"eval.{name} must be at least 1, got {getattr(self, name)}")
        if self.every < 0 or self.show < 0:
            raise ValueError("eval.every and eval.show must not be negative")


def evaluate(
    actor: Actor, params, problems: Sequence[Problem], config: EvalConfig, seed: int
) -> tuple[EvalReport, Judged]:
    """Judge `config.samples` completions of each problem.

    The draws depend on (seed, problem, sample) and not on the training step, so two evaluations of
    one run differ by the policy alone and can be compared in pairs.
    """
    parts = []
    for start in range(0, len(problems), config.batch):
        chunk = problems[start : start + config.batch]
        uids = [p.index for p in chunk]
        parts.append(actor.roll(params, chunk, uids, config.samples, Address(seed, EVAL, 0)))
    judged = join(parts)
    warn_of_unknown(judged.verdicts)
    return report(judged), judged


def warn_of_unknown(verdicts: Sequence[Verdict]) -> None:
    """One line where the reward could not tell: how often, and its most frequent reason."""
    reasons = collections.Counter(v.reason for v in verdicts if v.status == "unknown")
    if reasons:
        (reason, count), *_ = reasons.most_common(1)
        log.warning(
            "evaluation: %d of %d completions could not be judged; reason of %d: %s",
            *(reasons.total(), len(verdicts), count, reason or "none given"),
        )


def report(judged: Judged) -> EvalReport:
    """The numbers of a judged batch."""
    shape = (len(judged.problems), judged.group)
    found = EvalReport.build(
        judged.accurate_NG,
        judged.reward_NG,
        judged.samples.length_B.reshape(shape),
        np.where(judged.samples.eos_B, "eos", "length").reshape(shape).tolist(),
        answers=np.array([v.extracted for v in judged.verdicts], object).reshape(shape).tolist(),
        valid=judged.valid_NG,
    )
    interrupted = {"interrupted_frac": float(judged.samples.forced_BT.any(1).mean())}
    return dataclasses.replace(found, lengths={**found.lengths, **interrupted})
