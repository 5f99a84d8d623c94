"""The math verifier on noise: no exception, no deadline missed, and nothing unrelated is right.

    python benchmarks/verifier_fuzz.py [--items 100000] [--seed 0]

Half of the inputs are soups of LaTeX pieces, the others random bytes and random unicode.  The gold
answers hold numbers that no input can hit by chance, so every "right" is a false positive.
"""

from __future__ import annotations

import argparse
import collections
import random
import time

from rlvr_jax.rewards import RewardPool
from rlvr_jax.rewards.math_reward import MathAnswer
from rlvr_jax.types import Completion, Problem

SOUP = r"""
\frac \sqrt \binom \text{ } { } ( ) [ ] \{ \} ^ _ + - * / = < > , ; : | ! % ' & \\ \left \right
\pm \cdot \times \pi \infty \cup \cap \setminus \in \sin \cos \log \ln \sum \int \lim \overline
\begin{pmatrix} \end{pmatrix} \mathbb \circ 1 2 3 10 0.5 1,000 x y n e i a or and 7 9 million cm
\le \ge \ne \boxed{ $ \$ ... \ldots ½ √ ² × − ∞ π _{2} ^{2} ^{-1} \, \! (1,2) [0,1) \choose \vec
\hat \prime \degree abc \mathrm{e} d dx 999999999 B Yes (A) 12:30 3:4 __import__ <answer> </think>
"""
PIECES = SOUP.split()
GOLDS = (
    "271828",
    "\\frac{271828}{314159}",
    "271828x^7+1",
    "(271828, 1)",
    "[271828, 314159)",
    "\\{1, 271828\\}",
    "\\text{Scheherazade}",
    "x = 271828",
    "271828\\sqrt{77}+\\sin 314159",
    "\\begin{pmatrix} 271828 \\\\ 1 \\end{pmatrix}",
    "271828\\%",
    "271828 \\text{ cm}",
    "x > 271828",
)


def soup(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.5:
        return "".join(
            rng.choice(PIECES) + rng.choice(("", " ")) for _ in range(rng.randint(1, 14))
        )
    if kind < 0.75:
        return rng.randbytes(rng.randint(1, 60)).decode("latin-1")
    points = (rng.choice((rng.randint(32, 126), rng.randint(160, 0x2FFF))) for _ in range(30))
    return "".join(map(chr, points))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    reasons, slowest, begin = collections.Counter(), 0.0, time.perf_counter()
    with RewardPool(MathAnswer(), workers=2) as pool:
        for _ in range(0, args.items, 1000):
            completions = [Completion(text=f"\\boxed{{{soup(rng)}}}") for _ in range(500)]
            completions += [Completion(text=f"The answer is {soup(rng)}") for _ in range(500)]
            problems = [Problem(prompt="", answer=rng.choice(GOLDS), index=0) for _ in range(1000)]
            start = time.perf_counter()
            verdicts = pool.grade(completions, problems)
            slowest = max(slowest, time.perf_counter() - start)
            for completion, problem, verdict in zip(completions, problems, verdicts, strict=True):
                reasons[f"{verdict.status} {verdict.reason}"] += 1
                assert not verdict.correct, (completion.text, problem.answer)
        stats = pool.stats
    print(f"{args.items} inputs in {time.perf_counter() - begin:.0f} s", stats)
    print(f"slowest thousand {slowest:.2f} s;", dict(reasons.most_common()))
    assert not stats.errors and not stats.crashes


if __name__ == "__main__":
    main()
