"""Qwen2 and Qwen2.5 with their Math and Coder models, and the distills into their shape."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from rlvr_jax.models.config import ModelConfig
from rlvr_jax.models.families.base import (
    FAMILIES,
    Family,
    Keys,
    attention,
    basics,
    kv_heads,
    layer_types,
    model,
    windows,
    write_layer_types,
)


def qwen_windows(keys: Keys) -> dict[str, Any]:
    """Layers from max_window_layers on are local, where use_sliding_window says so."""
    layers, first = keys("num_hidden_layers"), keys("max_window_layers", 28)
    used = keys("use_sliding_window", False)
    size = keys.nullable("sliding_window", 4096) if used else None
    keys("sliding_window", None)  # without effect where it is not used
    local = layer_types(keys, [size is not None and i >= first for i in range(layers)])
    if any(local) and not used:
        raise ValueError("layer_types names sliding layers, but use_sliding_window is false")
    return windows(local, size)


def write_windows(c: ModelConfig) -> dict[str, Any]:
    """The inverse of `qwen_windows`."""
    if not c.attn.window:
        return {"use_sliding_window": False}
    types = write_layer_types(c)
    return {"use_sliding_window": True, "sliding_window": c.attn.window, "layer_types": types}


@FAMILIES.register("qwen2")
@dataclasses.dataclass(frozen=True)
class Qwen2(Family):
    """Llama's shape with biases on queries, keys and values; Yang et al. 2024."""

    model_type: ClassVar[str] = "qwen2"
    architecture: ClassVar[str] = "Qwen2ForCausalLM"

    def read(self, keys: Keys) -> ModelConfig:
        heads = kv_heads(keys, 32)
        attn = attention(keys, qkv_bias=True, kv_heads=heads, **qwen_windows(keys))
        return model(self, keys, attn)

    def write(self, c: ModelConfig) -> dict[str, Any]:
        out = basics(c) | write_windows(c)
        del out["attention_bias"]
        return out
