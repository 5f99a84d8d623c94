"""Checks a second of the math verifier beside math-verify, on the same items in the same run.

    python benchmarks/verifier_throughput.py [--cases cases.jsonl] [--out result.json]

Items: right and wrong answers of five kinds, varied so that no cache helps; with --cases also the
math cases of a JSON-lines file (`gold`, `response`).  "fast" kinds are decided without a worker.
math-verify is measured if it can be imported (`pip install math-verify`), in its default settings,
with its own limit of 5 s per parse and per comparison.  Each verifier runs in one process, ours
with one worker process more for what needs it.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path

from rlvr_jax.rewards import make_grader
from rlvr_jax.rewards.math_reward import MathAnswer
from rlvr_jax.types import Completion, Problem

Item = tuple[str, str]  # gold, response
FAST = ("integers", "fractions", "surds", "polynomials", "text and lists")


def say(answer: str) -> str:
    return f"Working through the cases we find the value, so the answer is $\\boxed{{{answer}}}$."


def integers(rng: random.Random) -> Item:
    gold = rng.randrange(1000)
    return str(gold), say(str(gold if rng.random() < 0.5 else rng.randrange(1000)))


def fractions(rng: random.Random) -> Item:
    top, bottom = rng.randrange(1, 99), rng.randrange(2, 99)
    other = f"{top}/{bottom}" if rng.random() < 0.5 else f"\\frac{{{bottom}}}{{{top}}}"
    return f"\\frac{{{top}}}{{{bottom}}}", say(other)


def surds(rng: random.Random) -> Item:
    a, b, c = rng.randrange(2, 9), rng.choice([2, 3, 5, 7, 11]), rng.randrange(1, 30)
    wrong = rng.random() < 0.5
    return f"{c}+{a}\\sqrt{{{b}}}", say(f"\\sqrt{{{a * a * b}}}+{c + wrong}")


def polynomials(rng: random.Random) -> Item:
    a, b = rng.randrange(1, 20), rng.randrange(1, 20)
    wrong = rng.random() < 0.5
    return f"x^2+{a + b}x+{a * b}", say(f"(x+{a})(x+{b + wrong})")


def lists(rng: random.Random) -> Item:
    if rng.random() < 0.5:
        name = rng.choice(["Evelyn", "Tuesday", "even", "Carla"])
        return f"\\text{{{name}}}", say(f"\\text{{{rng.choice([name, 'Evan'])}}}")
    members = rng.sample(range(50), 3)
    return ", ".join(map(str, members)), say(", ".join(map(str, reversed(members))))


def functions(rng: random.Random) -> Item:
    k = rng.randrange(2, 40)
    right = rng.random() < 0.5
    return f"\\sin {2 * k}x", say(f"2\\sin {k}x\\cos {k if right else k + 1}x")


KINDS = dict(zip((*FAST, "functions (worker)"), (integers, fractions, surds, polynomials, lists,
                                                 functions), strict=True))  # fmt: skip


def ours(items: list[Item], grader) -> tuple[float, list[bool]]:
    completions = [Completion(text=response) for _, response in items]
    problems = [Problem(prompt="", answer=gold, index=0) for gold, _ in items]
    start = time.perf_counter()
    verdicts = grader.grade(completions, problems)
    return time.perf_counter() - start, [v.correct for v in verdicts]


def math_verify(items: list[Item]) -> tuple[float, list[bool]] | None:
    try:
        from math_verify import parse, verify
    except ImportError:
        return None
    start = time.perf_counter()
    found = [bool(verify(parse(f"${gold}$"), parse(response))) for gold, response in items]
    return time.perf_counter() - start, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=Path, help="JSON lines with gold and response")
    parser.add_argument("--items", type=int, default=200, help="items of each kind")
    parser.add_argument("--out", type=Path, help="where to write the numbers as JSON")
    args = parser.parse_args()
    rng = random.Random(1)
    groups = {name: [make(rng) for _ in range(args.items)] for name, make in KINDS.items()}
    if args.cases:
        rows = [json.loads(line) for line in args.cases.read_text().splitlines()]
        groups["cases"] = [(r["gold"], r["response"]) for r in rows if r.get("kind") == "math"]
    result = {}
    with make_grader(MathAnswer(reject_echo=False), workers=1) as grader:
        warm = [functions(rng), integers(rng)]
        ours(warm, grader), math_verify(warm)
        for name, items in groups.items():
            result[name] = line(name, items, ours(items, grader), math_verify(items))
    if args.out:
        args.out.write_text(json.dumps(result, indent=1))


def line(name: str, items: list[Item], mine: tuple, theirs: tuple | None) -> dict:
    """Print and return one row: checks a second of both, their ratio, how many they agree on."""
    row = {"items": len(items), "ours_per_s": len(items) / mine[0]}
    text = f"{name:20s} {len(items):5d} items   ours {row['ours_per_s']:9.0f}/s"
    if theirs:
        row["math_verify_per_s"] = len(items) / theirs[0]
        row["ratio"] = theirs[0] / mine[0]
        row["agree"] = sum(a == b for a, b in zip(mine[1], theirs[1], strict=True))
        text += f"   math-verify {row['math_verify_per_s']:7.0f}/s   ratio {row['ratio']:7.1f}"
        text += f"   agree {row['agree']}"
    print(text, flush=True)
    return row


if __name__ == "__main__":
    main()
