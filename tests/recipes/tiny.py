"""A run small enough for tests, started as a user would start it: `python tiny.py WORKDIR
[key=value]`.

Two updates a rollout, shuffled minibatches, dynamic sampling, a frozen reference, an SFT stage
first.
"""

import os
import sys

from rlvr_jax.config import base


def get_config():
    c = base()
    c.stages = ("sft", "rl")
    c.algorithm = "grpo"
    c.task.name = "arithmetic"
    c.task.max_operands = c.task.min_operands = 2
    c.task.max_operand = 9
    c.task.size_test = 12
    c.task.solution_error_rate = 0.3
    c.model.width = 32
    c.model.layers = 2
    c.model.mlp_width = 64
    c.model.attn.heads = 2
    c.model.attn.kv_heads = 1
    c.model.attn.head_dim = 16
    c.decode.max_prompt_tokens = 8
    c.decode.max_new_tokens = 16
    c.decode.chunk = 16
    c.pack.row_tokens = 32
    c.sft.steps = 40
    c.sft.batch = 32
    c.sft.optim.learning_rate = 1e-2
    c.rl.steps = 6
    c.rollout.prompts = 8
    c.rollout.group = 4
    c.rollout.dynamic_sampling = True
    c.rollout.max_refills = 1
    c.learner.minibatches = 2
    c.optim.learning_rate = 1e-3
    c.eval.problems = 12
    c.eval.samples = 2
    c.eval.every = 3
    c.eval.show = 2
    c.checkpoint.every = 2
    c.mesh.fsdp = 1
    c.mesh.data = -1
    return c


if __name__ == "__main__":
    os.environ["JAX_PLATFORMS"] = "cpu"
    from rlvr_jax.cli import main

    overrides = [f"--config.{pair}" for pair in sys.argv[2:]]
    main(["run", f"--config={__file__}", f"--workdir={sys.argv[1]}", *overrides])
