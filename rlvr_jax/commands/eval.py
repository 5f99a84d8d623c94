"""rlvr eval: score a run's checkpoint on held-out problems.

  rlvr eval --workdir=runs/q                         the newest checkpoint, the run's own settings
  rlvr eval --workdir=runs/q --problems=512 --samples=16 --temperature=0.6

Prints avg@k, unbiased pass@k and maj@k with 95 % intervals, and writes eval.json into the folder.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
from collections.abc import Sequence

from absl import flags as absl_flags

from rlvr_jax.commands import flags


def main(args: Sequence[str]) -> int:
    values = flags.make_flags()
    flags.workdir_flag(values)
    for name, about in (("problems", "held-out problems"), ("samples", "completions of each")):
        absl_flags.DEFINE_integer(name, None, about, lower_bound=1, flag_values=values)
    absl_flags.DEFINE_float("temperature", None, "0 is greedy", flag_values=values)
    flags.parse(values, args, __doc__, ("workdir",))
    flags.prepare_process()
    from rlvr_jax.evaluate import evaluate
    from rlvr_jax.preflight import check_golds, check_prompts, part_of
    from rlvr_jax.setup import open_actor, restore_params

    workdir = pathlib.Path(values.workdir)
    config = flags.saved_config(workdir)
    wanted = {k: values[k].value for k in ("problems", "samples") if values[k].value}
    settings = dataclasses.replace(config.eval, **wanted)
    sampling = config.eval_sampling
    if values.temperature is not None:
        sampling = dataclasses.replace(sampling, temperature=values.temperature)
    with contextlib.ExitStack() as stack:
        actor, model, mesh = open_actor(stack, config, sampling)
        test = config.task.split("test")
        part = part_of("test", test, settings.problems)
        check_prompts(config, actor.tokenizer, part)
        check_golds(config.reward, part)
        index, params = restore_params(config, model, mesh, workdir)
        problems = [test[i] for i in range(min(len(test), settings.problems))]
        report, _ = evaluate(actor, params, problems, settings, config.seed)
    print(f"checkpoint {index}, {report.problems} problems x {report.samples} samples")
    print(f"avg@{report.samples}   {report.avg}")
    for k, estimate in report.pass_at.items():
        print(f"pass@{k}  {estimate}")
    if report.maj is not None:
        print(f"maj@{report.samples}   {report.maj}")
    (workdir / "eval.json").write_text(json.dumps({"index": index} | report.to_json(), indent=1))
    return 0
