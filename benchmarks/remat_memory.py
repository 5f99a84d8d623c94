"""Memory of one gradient under each `model.remat`, as the compiler plans it; nothing is run.

    python benchmarks/remat_memory.py --layers=24 --width=896 --mlp=4864 --rows=8 --tokens=1024

The figure is `compiled.memory_analysis().temp_size_in_bytes`: activations kept for the backward
pass, their gradients and scratch, without parameters and the gradient that comes out.
"""

import argparse
import functools
import time

import jax
import jax.numpy as jnp

from rlvr_jax.models import transformer as tf
from rlvr_jax.models.config import AttentionConfig, ModelConfig
from rlvr_jax.sampling import SamplingConfig
from rlvr_jax.scoring import token_logprobs


def loss(config: ModelConfig, params, tokens):
    """Sum of the log-probs of rows of tokens."""
    positions = jnp.broadcast_to(jnp.arange(tokens.shape[1]), tokens.shape)
    allowed = positions[:, :, None] >= positions[:, None, :]
    attend = tf.attend_full(config, allowed, positions, lambda k, v: None)
    hidden, _ = tf.forward(config, params, tokens, positions, attend)
    return token_logprobs(tf.head_weight(params), hidden, tokens, config, SamplingConfig())[0].sum()


def temporary(config: ModelConfig, rows: int, tokens: int) -> tuple[int, float]:
    """(bytes, seconds to compile) of the gradient's program."""
    params = jax.eval_shape(functools.partial(tf.init, config), jax.random.key(0))
    batch = jax.ShapeDtypeStruct((rows, tokens), jnp.int32)
    start = time.perf_counter()
    step = jax.jit(jax.grad(functools.partial(loss, config)))
    compiled = step.lower(params, batch).compile()
    return compiled.memory_analysis().temp_size_in_bytes, time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser()
    sizes = {"layers": 24, "width": 896, "mlp": 4864, "rows": 8, "tokens": 1024, "vocab": 151936}
    for name, value in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--dtype", default="bfloat16")
    a = parser.parse_args()
    for remat in ("none", "dots", "full"):
        config = ModelConfig(
            vocab=a.vocab,
            width=a.width,
            layers=a.layers,
            mlp_width=a.mlp,
            attn=AttentionConfig(heads=a.width // 64, kv_heads=2, head_dim=64, qkv_bias=True),
            compute_dtype=a.dtype,
            unroll=False,
            remat=remat,
        )
        size, seconds = temporary(config, a.rows, a.tokens)
        print(f"{remat:<5} {size / 2**30:8.2f} GiB temporary   compiled in {seconds:.0f} s")


if __name__ == "__main__":
    main()
