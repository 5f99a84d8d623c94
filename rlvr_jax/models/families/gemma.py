"""Gemma 2 and the text models of Gemma 3."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
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
    read_scaling,
    windows,
    write_layer_types,
)
from rlvr_jax.models.families.names import ATTENTION, BOTH_NORMS, MLP, OUTSIDE, Tensor

GEMMA_NAMES = OUTSIDE | ATTENTION | MLP | BOTH_NORMS
SWITCHES = {"norms": "both", "norm_plus_one": True, "embed_scale": True}


def _shared(keys: Keys) -> dict[str, Any]:
    """Attention switches that both generations read."""
    bias = keys("attention_bias", False)
    return {
        "head_dim": keys("head_dim", 256),
        "qkv_bias": bias,
        "out_bias": bias,
        "softcap": keys("attn_logit_softcapping", 0.0),
        "query_scale": keys("query_pre_attn_scalar", 256) ** -0.5,
    }


def _model(family: Family, keys: Keys, attn) -> ModelConfig:
    cap = keys("final_logit_softcapping", 0.0)
    tied = keys("tie_word_embeddings", True)
    more = SWITCHES | {"logit_softcap": cap, "tied_head": tied}
    if not (keys("hidden_activation", None) or keys("hidden_act", None)):
        more["activation"] = "gelu_tanh"
    return model(family, keys, attn, **more)


def _write(c: ModelConfig) -> dict[str, Any]:
    out = basics(c)
    scalar = c.attn.scale**-2
    return out | {
        "hidden_activation": out["hidden_act"],
        "attention_bias": c.attn.out_bias,
        "attn_logit_softcapping": c.attn.softcap or None,
        "final_logit_softcapping": c.logit_softcap or None,
        "query_pre_attn_scalar": round(scalar) if abs(scalar - round(scalar)) < 1e-6 else scalar,
        "sliding_window": c.attn.window or None,
        "layer_types": write_layer_types(c),
    }


@FAMILIES.register("gemma2")
@dataclasses.dataclass(frozen=True)
class Gemma2(Family):
    """Norms before and after, soft caps, every other layer local; Gemma Team 2024."""

    model_type: ClassVar[str] = "gemma2"
    architecture: ClassVar[str] = "Gemma2ForCausalLM"
    names: ClassVar[Mapping[str, Tensor]] = GEMMA_NAMES

    def read(self, keys: Keys) -> ModelConfig:
        local = layer_types(keys, [i % 2 == 0 for i in range(keys("num_hidden_layers"))])
        local = windows(local, keys("sliding_window", 4096))
        return _model(self, keys, attention(keys, **_shared(keys), **local))

    def write(self, c: ModelConfig) -> dict[str, Any]:
        return _write(c)


@FAMILIES.register("gemma3_text")
@dataclasses.dataclass(frozen=True)
class Gemma3(Family):
    """Norm on queries and keys, five local layers to a global one, two rotary bases; Gemma Team
    2025.  Rope scaling stretches the global layers only."""

    model_type: ClassVar[str] = "gemma3_text"
    architecture: ClassVar[str] = "Gemma3ForCausalLM"
    names: ClassVar[Mapping[str, Tensor]] = GEMMA_NAMES

    def read(self, keys: Keys) -> ModelConfig:
        every = keys("sliding_window_pattern", keys("_sliding_window_pattern", 6))
        flags = [bool((i + 1) % every) for i in range(keys("num_hidden_layers"))]
        local = windows(layer_types(keys, flags), keys("sliding_window", 4096))
        rope = self._rope(keys)
        if not local:
            del rope["rope_theta_local"]
        attn = attention(keys, **_shared(keys), **rope, **local, qk_norm=True)
        return _model(self, keys, attn)

    def _rope(self, keys: Keys) -> dict[str, Any]:
        """Both bases, from one dict a kind of layer (new) or from three keys (old)."""
        new = keys("rope_parameters", None) or {}
        old = keys("rope_scaling", None)
        whole = dict(new.get("full_attention") or old or {})
        near = dict(new.get("sliding_attention") or {})
        theta = whole.pop("rope_theta", keys("rope_theta", 1e6))
        base = near.pop("rope_theta", keys("rope_local_base_freq", 1e4))
        if read_scaling(near).kind != "none":
            raise ValueError("rope scaling of the sliding layers is not supported")
        return {
            "rope_theta": theta,
            "rope_theta_local": base,
            "rope": read_scaling(whole),
            "rotary_dim": 0,
        }

    def write(self, c: ModelConfig) -> dict[str, Any]:
        local = {"rope_local_base_freq": c.attn.rope_theta_local} if c.attn.window else {}
        return _write(c) | local
