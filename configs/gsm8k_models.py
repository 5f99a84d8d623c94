"""GRPO on GSM8K from a checkpoint of the hub; one row of the table a model.

What to expect: the held-out pass@1 in evals.jsonl rises over some hundred steps; how far depends on
the model.  These rows have not been run to the end here (no accelerator): they build, load and
step with small random weights of the same families.
Hardware: one accelerator with the memory that `rlvr run` prints at its start (16 bytes a parameter
and the activations; 0.5B: 16 GB is enough, 1.5B and above: 40 GB, or several devices, over which
the parameters are sharded by themselves).  Needs the `hub` extra; Gemma's and Llama's weights also
an account that has accepted their terms.  The model comes after the colon:

    rlvr run --config=configs/gsm8k_models.py:qwen2.5-0.5b --workdir=runs/gsm8k-qwen2.5-0.5b
    rlvr eval --workdir=runs/gsm8k-qwen2.5-0.5b --samples=8
    rlvr export --workdir=runs/gsm8k-qwen2.5-0.5b --to=out --step=best --dtype=bfloat16

Folders in place of hub names: --config.model.path=... and --config.task.path=...
"""

from rlvr_jax.config import base

ASK = "Please reason step by step, and put your final answer within \\boxed{}."
LINE = "Question: {prompt}\n" + ASK + "\nAnswer:"  # for base models without a chat template

MODELS = {  # name: (hub name, template, most new tokens, learning rate)
    "qwen2.5-0.5b": ("Qwen/Qwen2.5-0.5B-Instruct", "chat", 512, 1e-6),
    "qwen2.5-0.5b-base": ("Qwen/Qwen2.5-0.5B", LINE, 512, 1e-6),
    "qwen2.5-1.5b": ("Qwen/Qwen2.5-1.5B-Instruct", "chat", 512, 1e-6),
    "qwen2.5-1.5b-base": ("Qwen/Qwen2.5-1.5B", LINE, 512, 1e-6),
    "qwen3-0.6b": ("Qwen/Qwen3-0.6B", "chat", 3072, 1e-6),  # it thinks before it answers
    "qwen3-1.7b": ("Qwen/Qwen3-1.7B", "chat", 3072, 1e-6),
    "gemma3-270m": ("google/gemma-3-270m-it", "chat", 512, 2e-6),
    "gemma3-1b": ("google/gemma-3-1b-it", "chat", 512, 1e-6),
    "llama3.2-1b": ("meta-llama/Llama-3.2-1B-Instruct", "chat", 512, 1e-6),
}


def get_config(model="qwen2.5-0.5b"):
    if model not in MODELS:
        raise ValueError(f'no model "{model}" in this config (there are: {", ".join(MODELS)})')
    name, template, new_tokens, learning_rate = MODELS[model]
    c = base()
    c.stages = ("rl",)
    c.algorithm = "grpo"
    c.model.path = name
    c.model.compute_dtype = "bfloat16"
    c.model.unroll = False
    c.model.remat = "full"
    c.task.name = "gsm8k"
    c.text.template = template
    if template == "chat":
        c.text.system = ASK
    c.reward.name = "numeric"
    c.reward.extract = ("boxed",)
    c.decode.max_prompt_tokens = 512  # the longest question takes about 300 in any of these
    c.decode.max_new_tokens = new_tokens
    c.decode.chunk = 64
    c.pack.row_tokens = 512 + new_tokens
    c.pack.micro_tokens = 8 * (512 + new_tokens)
    c.rl.steps = 200
    c.rollout.prompts = 64
    c.rollout.group = 8
    c.learner.minibatches = 2
    c.optim.learning_rate = learning_rate
    c.optim.warmup_steps = 10
    c.kl.coef = 0.001
    c.eval.problems = 512
    c.eval.samples = 1
    c.eval.every = 20
    c.checkpoint.every = 20
    return c
