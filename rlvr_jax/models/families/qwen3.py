"""Qwen3, dense and mixture of experts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from rlvr_jax.models.config import ModelConfig, MoeConfig
from rlvr_jax.models.families.base import FAMILIES, Family, Keys, attention, basics, kv_heads, model
from rlvr_jax.models.families.names import LLAMA, Tensor
from rlvr_jax.models.families.qwen2 import qwen_windows, write_windows


def _attention(keys: Keys, **more: Any):
    bias = keys("attention_bias", False)
    return attention(keys, qkv_bias=bias, out_bias=bias, qk_norm=True, **more)


@FAMILIES.register("qwen3")
@dataclasses.dataclass(frozen=True)
class Qwen3(Family):
    """Llama's shape with a norm on each head's queries and keys; Yang et al. 2025."""

    model_type: ClassVar[str] = "qwen3"
    architecture: ClassVar[str] = "Qwen3ForCausalLM"

    def read(self, keys: Keys) -> ModelConfig:
        sizes = {"kv_heads": kv_heads(keys, 32), "head_dim": keys("head_dim", 128)}
        return model(self, keys, _attention(keys, **sizes, **qwen_windows(keys)))

    def write(self, c: ModelConfig) -> dict[str, Any]:
        return basics(c) | {"attention_bias": c.attn.out_bias} | write_windows(c)


_EXPERTS = "model.layers.{layer}.mlp.experts.{expert}"


@FAMILIES.register("qwen3_moe")
@dataclasses.dataclass(frozen=True)
class Qwen3Moe(Family):
    """Qwen3 with a mixture of experts in every layer."""

    model_type: ClassVar[str] = "qwen3_moe"
    architecture: ClassVar[str] = "Qwen3MoeForCausalLM"
    names: ClassVar[Mapping[str, Tensor]] = LLAMA | {
        "layers/router": Tensor("model.layers.{layer}.mlp.gate.weight", True),
        "layers/expert_gate": Tensor(f"{_EXPERTS}.gate_proj.weight", True),
        "layers/expert_up": Tensor(f"{_EXPERTS}.up_proj.weight", True),
        "layers/expert_down": Tensor(f"{_EXPERTS}.down_proj.weight", True),
    }

    def read(self, keys: Keys) -> ModelConfig:
        if keys("use_sliding_window", False):
            raise ValueError("qwen3_moe with use_sliding_window is not supported")
        keys("sliding_window", None)  # without effect then
        moe = MoeConfig(
            experts=keys("num_experts", None) or keys("num_local_experts"),
            top_k=keys("num_experts_per_tok"),
            width=keys("moe_intermediate_size"),
            normalize=keys("norm_topk_prob", False),
        )
        return model(self, keys, _attention(keys, kv_heads=kv_heads(keys, 4)), moe=moe)

    def write(self, c: ModelConfig) -> dict[str, Any]:
        return basics(c) | {
            "attention_bias": c.attn.out_bias,
            "use_sliding_window": False,
            "num_experts": c.moe.experts,
            "num_experts_per_tok": c.moe.top_k,
            "moe_intermediate_size": c.moe.width,
            "norm_topk_prob": c.moe.normalize,
            "decoder_sparse_step": 1,
            "mlp_only_layers": [],
        }
