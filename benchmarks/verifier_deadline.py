"""Seconds until hostile answers are settled: one at a time, through one worker.

    python benchmarks/verifier_deadline.py

Install gmpy2 first to see the harder case: with it, some of these numbers hang or abort a Python
process that computes them.
"""

import importlib.util
import itertools
import time

from rlvr_jax.rewards.math_reward import MathAnswer
from rlvr_jax.rewards.pool import RewardPool
from rlvr_jax.types import Completion, Problem

HOSTILE = [
    "9^{9^{9^{9}}}",
    "2^{2^{2^{2^{2^{2}}}}}",
    "(10^{10^{10}})!",
    "100000000!",
    "\\frac{1}{10^{-999999999}}",
    "1" * 200_000,
    "\\sqrt{" * 500 + "2" + "}" * 500,
    "x^{99999999}+1",
    "(x+1)^{100000}",
    "\\sin(9^{9^{9}})",
    "\\binom{10^9}{5\\cdot 10^8}",
    "1e999999999",
    "10^{1000000000000}",
    "e^{e^{e^{e^{10}}}}",
    "\\log(\\log(\\log 9^{9^9}))",
    "0.0000000001^{99999999999}",
    "3^{100000000} \\mod 7",
    "\\int_0^1 x^{x^x} dx",
    "\\sum_{k=1}^{10^9} \\frac1k",
    "\\prod_{k=1}^{1000000} k",
    "2^{-2^{99}}",
    "(-1)^{10^{100}}",
    "((2^{1000})^{1000})^{1000}",
    "\\tan(10^{10^{8}})",
    "\\sqrt[3]{2+10\\sqrt{3}i}^{4000}",
]
GOLDS = [
    "3",
    "x+1",
    "\\frac{1}{2}",
    "10^{100}",
    "\\sqrt{2}",
    "\\sin 3",
    "2^{100}",
    "\\binom{100}{50}",
]


def main() -> None:
    seconds = []
    with RewardPool(MathAnswer(), workers=1) as pool:

        def check(answer: str, gold: str) -> None:
            start = time.perf_counter()
            completion = Completion(text=f"\\boxed{{{answer}}}")
            (verdict,) = pool.grade([completion], [Problem(prompt="", answer=gold, index=0)])
            seconds.append((time.perf_counter() - start, answer[:40], gold[:40], verdict.reason))

        check("\\sin 2x", "2\\sin x\\cos x")  # the worker's start is not part of it
        seconds.clear()
        for hostile, gold in itertools.product(HOSTILE, GOLDS):
            check(hostile, gold)
            check(gold, hostile)
            check(hostile, hostile + "+1")
        stats = pool.stats
    seconds.sort(reverse=True)
    limit = MathAnswer.deadline_s
    print(f"gmpy2 installed: {importlib.util.find_spec('gmpy2') is not None}")
    print(f"{len(seconds)} items, {sum(s[0] > limit for s in seconds)} over {limit:g} s")
    print(f"{stats.timeouts} ran into the deadline, {stats.crashes} crashed a worker")
    for line in seconds[:8]:
        print(*line)


if __name__ == "__main__":
    main()
