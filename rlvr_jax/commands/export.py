"""rlvr export: a run's checkpoint as a Hugging Face folder, for `transformers` and servers.

  rlvr export --workdir=runs/q --to=out                       the newest checkpoint
  rlvr export --workdir=runs/q --to=out --step=best --dtype=bfloat16

Writes safetensors, config.json, the tokenizer, generation_config.json and a model card.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from absl import flags as absl_flags

from rlvr_jax.commands import flags


def main(args: Sequence[str]) -> int:
    values = flags.make_flags()
    flags.workdir_flag(values)
    absl_flags.DEFINE_string("to", None, "the folder to write, new or empty", flag_values=values)
    about = 'which checkpoint: "newest", "best", or its number under checkpoints/'
    absl_flags.DEFINE_string("step", "newest", about, flag_values=values)
    about = "of the weights, float32 keeps adapters whole; as the run holds them if not given"
    absl_flags.DEFINE_enum("dtype", None, ["float32", "bfloat16"], about, flag_values=values)
    flags.parse(values, args, __doc__, ("workdir", "to"))
    if values.step not in ("newest", "best") and not values.step.isdecimal():
        raise ValueError(f'--step is "newest", "best" or a number, got "{values.step}"')
    flags.prepare_process()
    from rlvr_jax.export import export

    which = int(values.step) if values.step.isdecimal() else values.step
    to = pathlib.Path(values.to)
    config = flags.saved_config(values.workdir)
    index = export(config, pathlib.Path(values.workdir), to, which, values.dtype)
    print(f"wrote checkpoint {index} to {to}")
    return 0
