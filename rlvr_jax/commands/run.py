"""rlvr run: train through the stages of a config.

  rlvr run --config=configs/quickstart.py --workdir=runs/q
  rlvr run --config=configs/quickstart.py --config.loss.eps_high=0.28 --config.seed=1
  --workdir=runs/q1

The same command resumes an interrupted run, bit for bit.  SIGTERM and Ctrl-C save first.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rlvr_jax.commands import flags


def main(args: Sequence[str]) -> int:
    values = flags.make_flags()
    flags.config_flag(values)
    flags.workdir_flag(values)
    flags.parse(values, args, __doc__, ("config", "workdir"))
    flags.prepare_process()
    from rlvr_jax.config import build
    from rlvr_jax.recipes.pipeline import run_pipeline
    from rlvr_jax.setup import Stopped

    try:
        run_pipeline(build(values.config), values.workdir)
    except Stopped as stopped:
        again = shlex.join(["rlvr", "run", *args])
        print(f"{stopped}; the same command resumes it: {again}")
    return 0
