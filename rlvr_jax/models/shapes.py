"""Sizes of one block's parameters."""

from __future__ import annotations

import math

from rlvr_jax.models import mla
from rlvr_jax.models.config import ModelConfig

RESIDUAL = ("o", "down", "expert_down", "shared_down")  # matrices that write into the residual
FLOAT32 = "router_bias"  # whatever the type of the others: its last bits decide which experts run


def matrices(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Shapes of one block's weight matrices, [in, out]; those of experts are stacked."""
    a, width, moe = config.attn, config.width, config.moe
    q, kv = a.heads * a.head_dim, a.kv_heads * a.head_dim
    shapes = {"q": (width, q), "k": (width, kv), "v": (width, kv), "o": (q, width)}
    if a.mla.kv_rank:
        shapes = mla.matrices(a, width)
    if not moe.experts:
        return shapes | _mlp(width, config.mlp_width)
    shapes |= {"router": (width, moe.experts), "expert_down": (moe.experts, moe.width, width)}
    shapes |= {n: (moe.experts, width, moe.width) for n in ("expert_gate", "expert_up")}
    return shapes | (_mlp(width, moe.shared * moe.width, "shared_") if moe.shared else {})


def _mlp(width: int, inner: int, prefix: str = "") -> dict[str, tuple[int, ...]]:
    shapes = {"gate": (width, inner), "up": (width, inner), "down": (inner, width)}
    return {prefix + name: shape for name, shape in shapes.items()}


def vectors(config: ModelConfig) -> dict[str, tuple[int, float]]:
    """Sizes and first values of one block's biases and norms."""
    a, shapes = config.attn, matrices(config)
    one = 0.0 if config.norm_plus_one else 1.0
    biased = mla.DOWN if a.mla.kv_rank else ("q", "k", "v")
    out = {f"{n}_bias": (shapes[n][1], 0.0) for n in biased if a.qkv_bias and n in shapes}
    out |= {"o_bias": (config.width, 0.0)} if a.out_bias else {}
    for n, heads in (("q", a.heads), ("k", a.kv_heads)) if a.qk_norm else ():
        out[f"{n}_norm"] = (heads * a.head_dim if a.qk_norm_whole else a.head_dim, one)
    if a.mla.kv_rank:
        out |= {f"{n}_norm": (size, one) for n, size in mla.latents(a).items()}
    if config.moe.scoring == "sigmoid":
        out |= {"router_bias": (config.moe.experts, 0.0)}
    return out | {n: (config.width, one) for n in config.norm_names}


def block_size(config: ModelConfig) -> int:
    """Matrix entries of one block."""
    return sum(math.prod(shape) for shape in matrices(config).values())
