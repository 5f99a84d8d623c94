"""OLMo 2."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from rlvr_jax.models.config import ModelConfig
from rlvr_jax.models.families.base import FAMILIES, Family, Keys, attention, basics, model
from rlvr_jax.models.families.names import ATTENTION, MLP, OUTSIDE, POST_NORMS, Tensor


@FAMILIES.register("olmo2")
@dataclasses.dataclass(frozen=True)
class Olmo2(Family):
    """Norms after attention and MLP, and over all heads' queries and keys; OLMo Team 2025."""

    model_type: ClassVar[str] = "olmo2"
    architecture: ClassVar[str] = "Olmo2ForCausalLM"
    names: ClassVar[Mapping[str, Tensor]] = OUTSIDE | ATTENTION | MLP | POST_NORMS

    def read(self, keys: Keys) -> ModelConfig:
        bias = keys("attention_bias", False)
        attn = attention(keys, qkv_bias=bias, out_bias=bias, qk_norm=True, qk_norm_whole=True)
        return model(self, keys, attn, norms="post", norm_eps=keys("rms_norm_eps", 1e-5))

    def write(self, c: ModelConfig) -> dict[str, Any]:
        return basics(c) | {"attention_bias": c.attn.out_bias}
