"""The small model on the real GSM8K files, for a few steps: a check of the path, not of the skill.

What to expect: pass@1 near 0; losses fall, everything is logged, and the run can be resumed.
Hardware: 2 CPU cores.  Time: about 3 minutes.  Needs a folder with train.jsonl and test.jsonl of
GSM8K (or the `hub` extra and a network, then leave task.path unset):

    rlvr run --config=configs/gsm8k_tiny.py --config.task.path=data/gsm8k --workdir=runs/gsm8k
    rlvr eval --workdir=runs/gsm8k
"""

from rlvr_jax.config import base


def get_config():
    c = base()
    c.stages = ("sft", "rl")
    c.algorithm = "dapo"
    c.task.name = "gsm8k"
    c.text.template = "{prompt}\n"
    c.model.width = 96
    c.model.layers = 3
    c.model.mlp_width = 256
    c.model.attn.heads = 4
    c.model.attn.kv_heads = 2
    c.model.attn.head_dim = 24
    c.decode.max_prompt_tokens = 1024
    c.decode.max_new_tokens = 128
    c.decode.chunk = 64
    c.pack.row_tokens = 1024
    c.pack.micro_tokens = 8192
    c.sft.steps = 20
    c.sft.batch = 8
    c.sft.optim.learning_rate = 3e-3
    c.rl.steps = 4
    c.rollout.prompts = 4
    c.rollout.group = 4
    c.rollout.max_refills = 1
    c.optim.learning_rate = 1e-4
    c.eval.problems = 16
    c.eval.samples = 2
    c.eval.every = 0
    c.checkpoint.every = 10
    return c
