"""Llama 2 and 3.x, and the models distilled into their shape."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from rlvr_jax.models.config import ModelConfig
from rlvr_jax.models.families.base import FAMILIES, Family, Keys, attention, basics, model


@FAMILIES.register("llama")
@dataclasses.dataclass(frozen=True)
class Llama(Family):
    """Pre-norm, SwiGLU, rotary, grouped queries; Touvron et al. 2023, Grattafiori et al. 2024."""

    model_type: ClassVar[str] = "llama"
    architecture: ClassVar[str] = "LlamaForCausalLM"

    def read(self, keys: Keys) -> ModelConfig:
        bias = keys("attention_bias", False)
        return model(self, keys, attention(keys, qkv_bias=bias, out_bias=bias))

    def write(self, c: ModelConfig) -> dict[str, Any]:
        return basics(c) | {"attention_bias": c.attn.out_bias, "mlp_bias": False}
