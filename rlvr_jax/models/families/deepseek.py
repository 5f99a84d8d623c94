"""DeepSeek-V3 and DeepSeek-R1, with weights that are not quantized."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from rlvr_jax.models.config import MlaConfig, ModelConfig, MoeConfig
from rlvr_jax.models.families.base import FAMILIES, Family, Keys, attention, basics, kv_heads, model
from rlvr_jax.models.families.names import MLP, OUTSIDE, PRE_NORMS, Tensor, linears, vectors

_EXPERTS = "model.layers.{layer}.mlp.experts.{expert}"
_MLA = linears(
    "self_attn",
    q="q_proj",
    q_a="q_a_proj",
    q_b="q_b_proj",
    kv_a="kv_a_proj_with_mqa",
    kv_b="kv_b_proj",
    o="o_proj",
) | vectors(
    q_a_bias="self_attn.q_a_proj.bias",
    kv_a_bias="self_attn.kv_a_proj_with_mqa.bias",
    o_bias="self_attn.o_proj.bias",
    q_a_norm="self_attn.q_a_layernorm.weight",
    kv_a_norm="self_attn.kv_a_layernorm.weight",
)
_MOE = {
    "layers/expert_gate": Tensor(f"{_EXPERTS}.gate_proj.weight", True),
    "layers/expert_up": Tensor(f"{_EXPERTS}.up_proj.weight", True),
    "layers/expert_down": Tensor(f"{_EXPERTS}.down_proj.weight", True),
} | linears(
    "mlp",
    router="gate",
    shared_gate="shared_experts.gate_proj",
    shared_up="shared_experts.up_proj",
    shared_down="shared_experts.down_proj",
)
_ROUTING = {"scoring_func": "sigmoid", "topk_method": "noaux_tc"}  # what other readers ask for


@FAMILIES.register("deepseek_v3")
@dataclasses.dataclass(frozen=True)
class DeepseekV3(Family):
    """Latent attention and a mixture of experts after a few dense layers; arXiv 2412.19437.

    The layers for multi-token prediction behind the last one are not loaded.
    """

    model_type: ClassVar[str] = "deepseek_v3"
    architecture: ClassVar[str] = "DeepseekV3ForCausalLM"
    names: ClassVar[Mapping[str, Tensor]] = (
        OUTSIDE
        | _MLA
        | MLP
        | _MOE
        | vectors(router_bias="mlp.gate.e_score_correction_bias")
        | PRE_NORMS
    )

    def read(self, keys: Keys) -> ModelConfig:
        plain, rotated = keys("qk_nope_head_dim"), keys("qk_rope_head_dim")
        only = _ROUTING | {"moe_layer_freq": 1}
        only |= {"head_dim": rotated, "qk_head_dim": plain + rotated}
        for key, value in only.items():
            if keys(key, value) != value:
                raise ValueError(f"{key}={keys(key)!r} is not supported ({value!r} is)")
        heads, kv = keys("num_attention_heads"), kv_heads(keys, 128)
        if kv != heads:
            raise ValueError(
                f"num_key_value_heads is {kv} (128 where it is absent): latent attention has keys "
                f"for each of the {heads} heads"
            )
        dense, layers = keys("first_k_dense_replace", 3), keys("num_hidden_layers")
        if dense >= layers:
            raise ValueError(
                f"first_k_dense_replace {dense} of {layers} layers: a model without experts is not "
                "supported"
            )
        for key in ("num_nextn_predict_layers", "num_mtp_layers"):
            keys(key, 0)
        bias = keys("attention_bias", False)
        attn = attention(
            keys,
            kv_heads=kv,
            head_dim=plain + rotated,
            rotary_dim=rotated,
            qkv_bias=bias,
            out_bias=bias,
            mla=MlaConfig(
                kv_rank=keys("kv_lora_rank"),
                q_rank=keys.nullable("q_lora_rank", 1536) or 0,
                value_dim=keys("v_head_dim"),
                interleave=bool(keys.nullable("rope_interleave", True)),
            ),
        )
        return model(self, keys, attn, moe=_read_moe(keys))

    def unread(self, c: ModelConfig, names: Collection[str]) -> set[str]:
        """Layers behind the last that predict further tokens: those that join two hidden states."""
        at = {name: name.split(".")[2] for name in names if name.startswith("model.layers.")}
        ours = {str(i) for i in range(c.layers)}
        more = {layer for name, layer in at.items() if ".eh_proj." in name} - ours
        return {name for name, layer in at.items() if layer in more}

    def write(self, c: ModelConfig) -> dict[str, Any]:
        a, mla = c.attn, c.attn.mla
        out = basics(c) | {
            "attention_bias": a.out_bias,
            "kv_lora_rank": mla.kv_rank,
            "q_lora_rank": mla.q_rank or None,
            "qk_nope_head_dim": a.head_dim - a.rotated,
            "qk_rope_head_dim": a.rotated,
            "v_head_dim": a.value_dim,
            "rope_interleave": mla.interleave,
            "num_nextn_predict_layers": 0,
        }
        del out["head_dim"]  # of the rotated part, where readers know it at all
        return out | _write_moe(c.moe)


def _read_moe(keys: Keys) -> MoeConfig:
    return MoeConfig(
        experts=keys("n_routed_experts"),
        top_k=keys("num_experts_per_tok"),
        width=keys("moe_intermediate_size"),
        normalize=bool(keys.nullable("norm_topk_prob", True)),
        scoring="sigmoid",
        groups=keys("n_group", 8),
        top_groups=keys("topk_group", 4),
        scale=keys("routed_scaling_factor", 2.5),
        shared=keys("n_shared_experts", 1),
        dense_layers=keys("first_k_dense_replace", 3),
    )


def _write_moe(moe: MoeConfig) -> dict[str, Any]:
    return _ROUTING | {
        "n_routed_experts": moe.experts,
        "num_experts_per_tok": moe.top_k,
        "moe_intermediate_size": moe.width,
        "norm_topk_prob": moe.normalize,
        "n_group": moe.groups,
        "topk_group": moe.top_groups,
        "routed_scaling_factor": moe.scale,
        "n_shared_experts": moe.shared,
        "first_k_dense_replace": moe.dense_layers,
    }
