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
    layer_types,
    model,
    windows,
    write_layer_types,
)


def qwen_windows(keys: Keys) -> dict[str, Any]:
    """Layers from max_window_layers on are local, where use_sliding_window says so."""
    layers, first = keys("num_hidden_layers"), keys("max_window_layers", 28)
    used = keys("use_sliding_window", False)
    size = keys("sliding_window", 4096)
    local = layer_types(keys, [bool(used) and i >= first for i in range(layers)])
    if any(local) and not used:
        raise ValueError("layer_types names sliding layers, but use_sliding_window is false")
    return windows(local, size if used else None)


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
        return model(self, keys, attention(keys, qkv_bias=True, **qwen_windows(keys)))

    def write(self, c: ModelConfig) -> dict[str, Any]:
        out = basics(c) | write_windows(c)
        del out["attention_bias"]
        return out
