"""Full GRPO steps of rlvr_jax beside google-tunix and TRL, alternately, in one run.

    python benchmarks/grpo_step.py --scripts=DIR --tunix=VENV/bin/python --trl=VENV/bin/python

DIR holds the peers' timing scripts (tunix_grpo.py, trl_grpo.py), which print the same JSON line as
ours_grpo.py.  Every round runs each library once on each workload, in its own process and
environment; the table shows medians over rounds and the ratio peer / ours.  W4 ends completions by
twelve ids, which TRL 1.16 does not mask by, so it is left out there.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).parent


def once(command: list[str]) -> dict:
    """The JSON line a timing script prints last."""
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    lines = [x for x in done.stdout.splitlines() if x.startswith("{")]
    if done.returncode or not lines:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return json.loads(lines[-1])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--scripts", help="folder with tunix_grpo.py and trl_grpo.py")
    parser.add_argument("--tunix", help="python of an environment with google-tunix")
    parser.add_argument("--trl", help="python of an environment with trl")
    parser.add_argument("--workloads", default="W1,W2,W3,W4")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=5)
    a = parser.parse_args()
    commands = {"rlvr_jax": [sys.executable, str(HERE / "ours_grpo.py")]}
    for name in ("tunix", "trl"):
        if getattr(a, name):
            commands[name] = [getattr(a, name), str(pathlib.Path(a.scripts) / f"{name}_grpo.py")]
    print(f"{'':4} {'':9} {'s/step':>7} {'spread':>13} {'RSS GB':>7} {'len':>6} {'ratio':>6}")
    for workload in a.workloads.split(","):
        found: dict[str, list[dict]] = {}
        for _ in range(a.rounds):
            for name, command in commands.items():
                if (workload, name) != ("W4", "trl"):
                    line = once([*command, workload, "--steps", str(a.steps)])
                    found.setdefault(name, []).append(line)
        ours = statistics.median(r["step_s"] for r in found["rlvr_jax"])
        for name, runs in found.items():
            seconds = [r["step_s"] for r in runs]
            middle = statistics.median(seconds)
            print(
                f"{workload:4} {name:9} {middle:7.2f} {min(seconds):6.2f}-{max(seconds):.2f} "
                f"{max(r['peak_rss_mb'] for r in runs) / 1024:7.1f} "
                f"{statistics.mean(r['mean_len'] for r in runs):6.1f} {middle / ours:6.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
