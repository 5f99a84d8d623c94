"""The worker pool over many items of which some hang, crash, eat memory, fork or raise.

    python benchmarks/verifier_soak.py [--items 100000] [--bad 0.01] [--workers 2]

Checked: every verdict arrives in order and is the one that was due, and at the end neither
processes nor open files are left behind; memory, processes and files are printed on the way.
"""

from __future__ import annotations

import argparse
import random
import resource
import time

import psutil
from soak_reward import ACTS, Unruly

from rlvr_jax.rewards import RewardPool
from rlvr_jax.types import Completion, Problem, Verdict

PART = 2000  # items graded in one call


def texts(count: int, bad: float, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    acts = list(ACTS)
    return [
        rng.choice(acts) if rng.random() < bad else "x" * rng.randrange(9) for _ in range(count)
    ]


def check(text: str, verdict: Verdict) -> None:
    if text in ACTS:
        _, status, reasons = ACTS[text]
        assert verdict.status == status and verdict.reason in reasons, (text, verdict)
    else:
        assert (verdict.status, verdict.score) == ("scored", float(len(text))), (text, verdict)


def soak(items: list[str], pool: RewardPool) -> None:
    me, begin = psutil.Process(), time.monotonic()
    problem = Problem(prompt="", answer="", index=0)
    for at in range(0, len(items), PART):
        part = items[at : at + PART]
        verdicts = pool.grade([Completion(text=text) for text in part], [problem] * len(part))
        for text, verdict in zip(part, verdicts, strict=True):
            check(text, verdict)
        if at % (10 * PART) == 0:
            print(
                f"{at + len(part):7d} items  {time.monotonic() - begin:6.0f} s  "
                f"{len(me.children(recursive=True))} processes  {me.num_fds()} files  "
                f"{me.memory_info().rss >> 20} MB",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--bad", type=float, default=0.01)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--deadline", type=float, default=1.0, help="seconds for one item")
    args = parser.parse_args()
    me = psutil.Process()
    files, begin = me.num_fds(), time.monotonic()
    with RewardPool(Unruly(), workers=args.workers, deadline_s=args.deadline) as pool:
        soak(texts(args.items, args.bad), pool)
        stats = pool.stats
    psutil.wait_procs(me.children(recursive=True), timeout=5)
    left, files = len(me.children(recursive=True)), me.num_fds() - files
    print(f"{args.items} items in {time.monotonic() - begin:.0f} s: {stats}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"left behind: {left} processes, {files} open files; peak {peak} MB")
    assert not left and not files


if __name__ == "__main__":
    main()
