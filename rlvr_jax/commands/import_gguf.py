"""rlvr import: a GGUF file as a Hugging Face folder that runs and `transformers` can start from.

  rlvr import --from=gemma-3-270m-q4_k_m.gguf --to=gemma3-270m

Weights are dequantised; the tokenizer is rebuilt from the file's vocabulary.  Gemma 3 (text) is
read.  Needs the `gguf` package.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from absl import flags as absl_flags

from rlvr_jax.commands import flags


def main(args: Sequence[str]) -> int:
    values = flags.make_flags()
    absl_flags.DEFINE_string("from", None, "the GGUF file", flag_values=values)
    absl_flags.DEFINE_string("to", None, "the folder to write, new or empty", flag_values=values)
    about = "of the weights; float32 holds the dequantised numbers exactly"
    absl_flags.DEFINE_enum("dtype", "float32", ["float32", "bfloat16"], about, flag_values=values)
    flags.parse(values, args, __doc__, ("from", "to"))
    from rlvr_jax.export import import_gguf

    to = pathlib.Path(values.to)
    name = import_gguf(pathlib.Path(values["from"].value), to, values.dtype)
    print(f"wrote {name} to {to}")
    return 0
