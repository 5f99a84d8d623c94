"""Mistral 7B and the models of its shape."""

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
    model,
    windows,
)


@FAMILIES.register("mistral")
@dataclasses.dataclass(frozen=True)
class Mistral(Family):
    """Llama's shape, with one sliding window on all layers or on none; Jiang et al. 2023."""

    model_type: ClassVar[str] = "mistral"
    architecture: ClassVar[str] = "MistralForCausalLM"

    def read(self, keys: Keys) -> ModelConfig:
        window = keys.nullable("sliding_window", 4096)
        local = windows([window is not None] * keys("num_hidden_layers"), window)
        return model(self, keys, attention(keys, kv_heads=kv_heads(keys, 8), **local))

    def write(self, c: ModelConfig) -> dict[str, Any]:
        out = basics(c) | {"sliding_window": c.attn.window or None}
        del out["attention_bias"]
        return out
