"""Your own problems: JSON lines with a question and an answer, trained on through this file alone.

What to expect: pass@1 near 0 with the small fresh model that stands here: a check of your files and
of the reward, not of the skill.  To learn, start from a model that solves some of your problems
already (the second command).  Answers are numbers, graded by the reward "numeric"; for others set
reward.name (`rlvr list rewards`).
Hardware: 2 CPU cores; with a model of half a billion parameters, one accelerator.
Time: about 2 minutes.  Needs train.jsonl and test.jsonl.  For other columns set task.prompt_column
and task.answer_column; to hold out a share of one file, task.test_path= (empty) and
task.test_fraction=0.1:

    rlvr run --config=configs/jsonl.py --config.task.train_path=train.jsonl \\
      --config.task.test_path=test.jsonl --workdir=runs/mine
    rlvr run --config=configs/jsonl.py --config.model.path=Qwen/Qwen2.5-0.5B-Instruct \\
      --config.text.template=chat --config.rl.steps=200 --workdir=runs/qwen
"""

from rlvr_jax.config import base


def get_config():
    c = base()
    c.stages = ("rl",)
    c.algorithm = "grpo"
    c.task.name = "jsonl"
    c.task.train_path = "train.jsonl"
    c.task.test_path = "test.jsonl"
    c.task.prompt_column = "question"
    c.task.answer_column = "answer"
    c.text.template = "{prompt}\n"
    c.model.width = 96
    c.model.layers = 3
    c.model.mlp_width = 256
    c.model.attn.heads = 4
    c.model.attn.kv_heads = 2
    c.model.attn.head_dim = 24
    c.decode.max_prompt_tokens = 512
    c.decode.max_new_tokens = 256
    c.decode.chunk = 64
    c.pack.row_tokens = 1024
    c.pack.micro_tokens = 8192
    c.rl.steps = 10
    c.rollout.prompts = 8
    c.rollout.group = 4
    c.optim.learning_rate = 1e-6
    c.eval.problems = 32
    c.eval.samples = 2
    c.eval.every = 0
    c.checkpoint.every = 10
    return c
