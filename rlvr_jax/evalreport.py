"""What one evaluation found: EvalReport, built from the verdicts on [problems, k] samples.

Host code, numpy only.  The row form in a run folder's `evals.jsonl` is `EvalReport.to_json`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlvr_jax.statistics import Estimate, maj_at_k, mean_ci, pass_at_k


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvalReport:
    """Scores of one policy on one set.  Samples no verifier could judge are left out and counted.

    avg: mean accuracy of a sample, avg@k (the same number as pass@1).
    pass_at: unbiased pass@k for k = 1, 2, 4, ... up to the samples per problem.
    maj: accuracy of the majority vote over the samples; None where no sample gave an answer, be it
        that the reward extracts none.
    reward: mean reward.  lengths: tokens, and shares of the samples; a mean over nothing is NaN.
    correct_by_problem / samples_by_problem: right and judged samples of every problem, in order,
    from which paired differences between two reports follow.
    """

    problems: int
    samples: int
    avg: Estimate
    pass_at: Mapping[int, Estimate]
    maj: Estimate | None
    reward: Estimate
    lengths: Mapping[str, float]
    unknown_frac: float
    correct_by_problem: tuple[int, ...]
    samples_by_problem: tuple[int, ...]

    @classmethod
    def build(
        cls,
        correct: np.ndarray,
        rewards: np.ndarray,
        lengths: np.ndarray,
        stop_reasons: Sequence[Sequence[str]],
        answers: Sequence[Sequence[str | None]] | None = None,
        valid: np.ndarray | None = None,
    ) -> EvalReport:
        """From arrays [problems, k].  correct bool, rewards float, lengths in tokens, stop_reasons
        "eos" or "length", answers the extracted text or None, valid False where the verifier could
        not tell (default: all valid).  ValueError where the shapes differ or there is no sample.
        """
        correct, stops = np.asarray(correct, bool), np.asarray(stop_reasons)
        valid = np.ones_like(correct) if valid is None else np.asarray(valid, bool)
        rewards, lengths = np.asarray(rewards, np.float64), np.asarray(lengths, np.float64)
        arrays = {"rewards": rewards, "lengths": lengths, "stop_reasons": stops, "valid": valid}
        _check_shapes(correct, arrays)
        right, judged = (correct & valid).sum(1), valid.sum(1)
        kept = judged > 0
        mean_reward = np.where(valid, rewards, 0.0).sum(1)[kept] / judged[kept]
        k = correct.shape[1]
        return cls(
            problems=len(correct),
            samples=k,
            avg=mean_ci(right[kept] / judged[kept], samples=k),
            pass_at={2**i: _pass_estimate(right, judged, 2**i) for i in range(k.bit_length())},
            maj=_majority(answers, correct, valid),
            reward=mean_ci(mean_reward, proportion=False),
            lengths=_lengths(lengths, correct & valid, ~correct & valid, stops == "length"),
            unknown_frac=float(1 - valid.mean()),
            correct_by_problem=tuple(int(x) for x in right),
            samples_by_problem=tuple(int(x) for x in judged),
        )

    @property
    def solve_rate(self) -> tuple[float, ...]:
        """Share of right samples per problem; NaN where none could be judged."""
        pairs = zip(self.correct_by_problem, self.samples_by_problem, strict=True)
        return tuple(c / n if n else math.nan for c, n in pairs)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; intervals as {"value", "ci95": [lo, hi], "n"}; NaN as null."""
        lengths = {k: v if math.isfinite(v) else None for k, v in self.lengths.items()}
        return {
            "problems": self.problems,
            "samples": self.samples,
            "avg": self.avg.to_json(),
            "pass_at": {str(k): e.to_json() for k, e in self.pass_at.items()},
            "maj": None if self.maj is None else self.maj.to_json(),
            "reward": self.reward.to_json(),
            "lengths": lengths,
            "unknown_frac": self.unknown_frac,
            "correct_by_problem": list(self.correct_by_problem),
            "samples_by_problem": list(self.samples_by_problem),
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> EvalReport:
        """The inverse of `to_json`; keys that are not fields are ignored."""
        fields = {f.name: row[f.name] for f in dataclasses.fields(cls)}
        maj, lengths = fields["maj"], fields["lengths"]
        return cls(
            **fields
            | {
                "avg": Estimate.from_json(fields["avg"]),
                "pass_at": {int(k): Estimate.from_json(e) for k, e in fields["pass_at"].items()},
                "maj": None if maj is None else Estimate.from_json(maj),
                "reward": Estimate.from_json(fields["reward"]),
                "lengths": {k: math.nan if v is None else v for k, v in lengths.items()},
                "correct_by_problem": tuple(fields["correct_by_problem"]),
                "samples_by_problem": tuple(fields["samples_by_problem"]),
            }
        )

    def metrics(self, name: str) -> dict[str, float]:
        """Flat numbers for metrics.jsonl, named eval/<name>/... (docs/metrics.md)."""
        prefix = f"eval/{name}"
        flat = {
            f"{prefix}/avg@{self.samples}": self.avg.value,
            f"{prefix}/ci95_lo": self.avg.lo,
            f"{prefix}/ci95_hi": self.avg.hi,
            f"{prefix}/reward": self.reward.value,
            f"{prefix}/unknown_frac": self.unknown_frac,
        }
        flat |= {f"{prefix}/pass@{k}": entry.value for k, entry in self.pass_at.items()}
        if self.maj is not None:
            flat[f"{prefix}/maj@{self.samples}"] = self.maj.value
        return flat | {f"{prefix}/len_{k}": v for k, v in self.lengths.items()}


def _check_shapes(correct: np.ndarray, arrays: Mapping[str, np.ndarray]) -> None:
    for name, array in arrays.items():
        if array.shape != correct.shape or correct.ndim != 2 or correct.size == 0:
            raise ValueError(
                f"correct has shape {correct.shape} and {name} {array.shape}; both must be "
                "[problems, k] with at least one sample"
            )


def _pass_estimate(right: np.ndarray, judged: np.ndarray, k: int) -> Estimate:
    """pass@k over the problems with at least k judged samples."""
    enough = [(int(c), int(n)) for c, n in zip(right, judged, strict=True) if n >= k]
    groups = max((n // k for _, n in enough), default=1)
    return mean_ci([pass_at_k(c, n, k) for c, n in enough], samples=groups)


def _majority(answers, correct: np.ndarray, valid: np.ndarray) -> Estimate | None:
    """maj@k over the problems with at least one judged sample; None where nobody voted."""
    if answers is None or all(answer is None for row in answers for answer in row):
        return None
    values = []
    for row, right, ok in zip(answers, correct, valid, strict=True):
        kept = [i for i in range(len(row)) if ok[i]]
        if kept:
            values.append(maj_at_k([row[i] for i in kept], [bool(right[i]) for i in kept]))
    return mean_ci(values)


def _lengths(lengths, right, wrong, truncated) -> dict[str, float]:
    def mean(mask: np.ndarray) -> float:
        return float(lengths[mask].mean()) if mask.any() else math.nan

    return {
        "mean": float(lengths.mean()),
        "max": float(lengths.max()),
        "correct": mean(right),
        "incorrect": mean(wrong),
        "truncated_frac": float(truncated.mean()),
    }
