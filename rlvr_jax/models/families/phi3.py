"""Phi-3, Phi-3.5 and Phi-4 (their text models)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar

from rlvr_jax.models.config import ModelConfig
from rlvr_jax.models.families.base import (
    FAMILIES,
    Family,
    Keys,
    attention,
    basics,
    model,
    read_scaling,
    rope_dict,
    windows,
)
from rlvr_jax.models.families.names import LLAMA, Tensor

_LAYER = "model.layers.{layer}"
_QKV = ("layers/q", "layers/k", "layers/v")
_GATE_UP = ("layers/gate", "layers/up")


@FAMILIES.register("phi3")
@dataclasses.dataclass(frozen=True)
class Phi3(Family):
    """Llama's shape with fused projections, partial rotation and LongRoPE; Abdin et al. 2024."""

    model_type: ClassVar[str] = "phi3"
    architecture: ClassVar[str] = "Phi3ForCausalLM"
    names: ClassVar[Mapping[str, Tensor]] = (
        LLAMA
        | {leaf: Tensor(f"{_LAYER}.self_attn.qkv_proj.weight", True, _QKV) for leaf in _QKV}
        | {leaf: Tensor(f"{_LAYER}.mlp.gate_up_proj.weight", True, _GATE_UP) for leaf in _GATE_UP}
    )

    def read(self, keys: Keys) -> ModelConfig:
        window = keys("sliding_window", None)
        local = windows([window is not None] * keys("num_hidden_layers"), window)
        attn = attention(keys, rotation=self._rotation(keys), **local)
        return model(self, keys, attn, norm_eps=keys("rms_norm_eps", 1e-5))

    def _rotation(self, keys: Keys) -> dict[str, Any]:
        """LongRoPE's original context is a key of its own here, and its attention factor, where
        not given, is sqrt(1 + ln(context / original) / ln(original))."""
        given = rope_dict(keys, 1e4)
        theta, partial = given.pop("rope_theta"), given.pop("partial_rotary_factor")
        before = keys("original_max_position_embeddings", 4096)
        if given["rope_type"] in ("su", "longrope"):
            stretch = keys("max_position_embeddings", 4096) / before
            factor = math.sqrt(1 + math.log(stretch) / math.log(before)) if stretch > 1 else 1.0
            given = {"attention_factor": factor} | given | {"rope_type": "longrope"}
            given |= {"original_max_position_embeddings": before}
        head_dim = keys("head_dim", keys("hidden_size") // keys("num_attention_heads"))
        rotated = int(head_dim * partial)
        return {
            "rope_theta": theta,
            "rotary_dim": 0 if rotated == head_dim else rotated,
            "rope": read_scaling(given),
        }

    def write(self, c: ModelConfig) -> dict[str, Any]:
        out = basics(c) | {"sliding_window": c.attn.window or None}
        del out["attention_bias"]
        if c.attn.rotary_dim:
            out["partial_rotary_factor"] = c.attn.rotary_dim / c.attn.head_dim
        if c.attn.rope.kind != "none":
            out["original_max_position_embeddings"] = c.attn.rope.original_context
        return out
