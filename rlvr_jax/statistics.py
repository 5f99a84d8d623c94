"""Estimates with honest intervals for repeated samples of many problems.  numpy only, float64.

Everywhere the unit of chance is the *problem*: k samples of one problem are not k independent
observations, so intervals are clustered by problem.  `Estimate.n` therefore counts problems.

Read in this order: `pass_at_k` and `maj_at_k` (one problem), `wilson`, `mean_ci`, `bootstrap_ci`
and `paired_difference` (many problems).  `rlvr_jax.evalreport` puts them together.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Z95 = 1.959963984540054  # standard normal quantile at 0.975


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A value with its 95 % interval; `n` is the number of independent units (problems)."""

    value: float
    lo: float
    hi: float
    n: int

    def to_json(self) -> dict[str, Any]:
        """{"value", "ci95": [lo, hi], "n"}; what is not finite becomes null."""
        value, lo, hi = (x if math.isfinite(x) else None for x in (self.value, self.lo, self.hi))
        return {"value": value, "ci95": [lo, hi], "n": self.n}

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Estimate:
        numbers = (entry["value"], *entry["ci95"])
        return cls(*(math.nan if x is None else float(x) for x in numbers), int(entry["n"]))

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.lo:.3f}, {self.hi:.3f}]"


NOTHING = Estimate(math.nan, math.nan, math.nan, 0)


def pass_at_k(correct: int, n: int, k: int) -> float:
    """Chance that k of n samples drawn without replacement hold a right one, `correct` being right.

    1 - C(n - c, k) / C(n, k), unbiased for 1 - (1 - p)^k (Chen et al. 2021, eq. 1), computed as a
    product so that nothing overflows.  ValueError unless 1 <= k <= n and 0 <= correct <= n.
    """
    if not 1 <= k <= n:
        raise ValueError(f"pass@k needs 1 <= k <= n samples; k is {k} and n is {n}")
    if not 0 <= correct <= n:
        raise ValueError(f"{correct} of {n} samples cannot be correct")
    if n - correct < k:
        return 1.0
    return float(1.0 - np.prod(1.0 - k / np.arange(n - correct + 1, n + 1, dtype=np.float64)))


def maj_at_k(answers: Sequence[str | None], correct: Sequence[bool]) -> float:
    """Accuracy of the majority vote over the k samples of one problem (Wang et al. 2022).

    A sample in which no answer was found (None) does not vote; without any vote the result is 0.
    Between tied answers the vote is drawn at random and its expectation returned, so the order of
    the samples never matters.  Answers are compared as text: "1/2" and "0.5" are different votes.
    """
    if len(answers) != len(correct):
        raise ValueError(f"{len(answers)} answers but {len(correct)} verdicts")
    votes = Counter(answer for answer in answers if answer is not None)
    if not votes:
        return 0.0
    top = max(votes.values())
    leaders = [answer for answer, count in votes.items() if count == top]
    right = dict.fromkeys(leaders, 0)
    for answer, ok in zip(answers, correct, strict=True):
        if answer in right:
            right[answer] += bool(ok)
    return sum(right.values()) / (top * len(leaders))


def wilson(successes: float, n: float, z: float = Z95) -> tuple[float, float]:
    """Wilson's score interval of a proportion (Wilson 1927); never empty, never outside [0, 1].

    `n` may be an effective sample size.  n = 0 gives (0, 1).
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n} trials are not a proportion")
    if n == 0:
        return 0.0, 1.0
    p, zz = successes / n, z * z / n
    centre = (p + zz / 2) / (1 + zz)
    half = z * math.sqrt(p * (1 - p) / n + zz / (4 * n)) / (1 + zz)
    return max(0.0, min(p, centre - half)), min(1.0, max(p, centre + half))


def t_quantile_975(degrees: int) -> float:
    """Student's t quantile at 0.975: exact for 1 and 2 degrees, else Cornish-Fisher (< 0.1 % off).

    Hill 1970, Algorithm 396; Abramowitz and Stegun 26.7.5.
    """
    if degrees < 1:
        return math.inf
    if degrees <= 2:
        return (12.706204736432095, 4.302652729911275)[degrees - 1]
    z = Z95
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / degrees ** (i + 1) for i, term in enumerate(terms))


def _finite(values: Sequence[float]) -> np.ndarray:
    array = np.asarray(values, np.float64)
    if array.ndim != 1 or not np.all(np.isfinite(array)):
        raise ValueError(f"expected finite numbers, one per problem; got shape {array.shape}")
    return array


def mean_ci(
    values_by_problem: Sequence[float], *, proportion: bool = True, samples: int = 1
) -> Estimate:
    """Mean over problems with a 95 % interval, each problem one cluster.

    proportion: the values lie in [0, 1] and are success rates over `samples` draws.  The interval
    is Wilson's with the effective sample size n_eff = p (1 - p) / se^2 where se is the clustered
    standard error, shrunk by (z / t_{n-1})^2 (Korn and Graubard 1998; Dean and Pagano 2015).
    n_eff never exceeds n * samples, and where all problems agree on 0 or 1 it is n, so that the
    interval never collapses.  For one sample per problem it is exactly Wilson's interval.

    proportion=False: Student's t with the standard error over problems; unbounded for n = 1.
    """
    values = _finite(values_by_problem)
    n = len(values)
    if n == 0:
        return NOTHING
    mean = float(values.mean())
    if not proportion:
        half = (
            math.inf if n == 1 else t_quantile_975(n - 1) * float(values.std(ddof=1)) / math.sqrt(n)
        )
        return Estimate(mean, mean - half, mean + half, n)
    if values.min() < 0 or values.max() > 1:
        raise ValueError("a proportion lies in [0, 1]; pass proportion=False for other values")
    variance = float(values.var())
    spread = mean * (1 - mean)
    if spread <= 0 or math.isclose(variance, spread, rel_tol=1e-12):
        size = float(n)
    else:
        shrink = (Z95 / t_quantile_975(n - 1)) ** 2
        size = min(n * spread / variance * shrink if variance > 0 else math.inf, n * samples)
    return Estimate(mean, *wilson(min(mean * size, size), size), n)


def bootstrap_ci(
    values_by_problem: Sequence[float],
    statistic: Callable[[np.ndarray], float] = np.mean,
    *,
    seed: int = 0,
    resamples: int = 2000,
) -> Estimate:
    """Percentile bootstrap of any statistic, resampling whole problems (Efron 1979).

    Deterministic in `seed`.  It collapses where all values agree and is narrow for few problems;
    for means of proportions `mean_ci` is the better choice.
    """
    values = _finite(values_by_problem)
    n = len(values)
    if n == 0:
        return NOTHING
    rng = np.random.default_rng(seed)
    draws = [float(statistic(values[rng.integers(0, n, n)])) for _ in range(resamples)]
    lo, hi = np.quantile(draws, (0.025, 0.975))
    return Estimate(float(statistic(values)), float(lo), float(hi), n)


def paired_difference(before: Sequence[float], after: Sequence[float]) -> Estimate:
    """Mean of after - before over the same problems in the same order, with a paired 95 % interval.

    Values are success rates in [0, 1].  Student's t on the differences, clipped to [-1, 1]; the
    half width is never below the upper Wilson bound for 0 of n problems, so that n agreeing
    problems do not count as certainty.
    """
    first, second = _finite(before), _finite(after)
    if first.shape != second.shape:
        raise ValueError(f"{len(first)} problems before but {len(second)} after: not paired")
    difference = second - first
    n = len(difference)
    if n == 0:
        return NOTHING
    mean = float(difference.mean())
    error = difference.std(ddof=1) / math.sqrt(n) if n > 1 else 1.0
    half = max(min(t_quantile_975(n - 1), 1e9) * float(error), wilson(0, n)[1])
    return Estimate(mean, max(-1.0, mean - half), min(1.0, mean + half), n)
