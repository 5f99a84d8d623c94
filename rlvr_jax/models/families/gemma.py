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
    activation,
    attention,
    basics,
    kv_heads,
    layer_types,
    model,
    one_name,
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
        "kv_heads": kv_heads(keys, 4),
        "query_scale": keys("query_pre_attn_scalar", 256) ** -0.5,
    }


def _model(family: Family, keys: Keys, attn, cap: float | None) -> ModelConfig:
    keys("hidden_act", None)  # without effect: Gemma's name for it is another
    more = SWITCHES | {
        "logit_softcap": cap or 0.0,
        "tied_head": keys("tie_word_embeddings", True),
        "activation": activation(keys("hidden_activation", "gelu_pytorch_tanh")),
    }
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
        local = windows(local, keys.nullable("sliding_window", 4096))
        softcap = keys.nullable("attn_logit_softcapping", 50.0) or 0.0
        attn = attention(keys, **_shared(keys), **local, softcap=softcap)
        return _model(self, keys, attn, keys.nullable("final_logit_softcapping", 30.0))

    def write(self, c: ModelConfig) -> dict[str, Any]:
        return _write(c)


@FAMILIES.register("gemma3_text")
@dataclasses.dataclass(frozen=True)
class Gemma3(Family):
    """Norm on queries and keys, five local layers to a global one; Gemma Team 2025.

    The local layers have a rotary base of their own, and rope scaling stretches the others only.
    """

    model_type: ClassVar[str] = "gemma3_text"
    architecture: ClassVar[str] = "Gemma3ForCausalLM"
    names: ClassVar[Mapping[str, Tensor]] = GEMMA_NAMES

    def read(self, keys: Keys) -> ModelConfig:
        every = keys("sliding_window_pattern", 6)
        keys("_sliding_window_pattern", None)  # written beside layer_types, read by nobody
        flags = [bool((i + 1) % every) for i in range(keys("num_hidden_layers"))]
        local = windows(layer_types(keys, flags), keys.nullable("sliding_window", 4096))
        rope = self._rope(keys)
        if not local:
            del rope["rope_theta_local"]
        attn = attention(keys, rotation=rope, **_shared(keys), **local, qk_norm=True)
        return _model(self, keys, attn, keys("final_logit_softcapping", None))

    def _rope(self, keys: Keys) -> dict[str, Any]:
        """Both bases, from one dict a kind of layer (new) or from three keys (old)."""
        new = Keys(keys("rope_parameters", None) or {})
        whole, near = (one_name(new(f"{k}_attention", None) or {}) for k in ("full", "sliding"))
        bad = sorted(set(new.data) - new.read)
        if bad:
            raise ValueError(
                "rope_parameters of gemma3_text hold full_attention and sliding_attention; "
                f"got {', '.join(bad)}"
            )
        if keys("rope_scaling", None):
            old = one_name({"rope_type": "default"} | keys("rope_scaling"))
            if new.data and whole | old != whole:
                raise ValueError(
                    "config.json has rope_parameters and rope_scaling that differ; delete one "
                    "of them"
                )
            whole |= old
        theta = Keys(whole)("rope_theta", keys("rope_theta", 1e6))
        base = Keys(near)("rope_theta", keys("rope_local_base_freq", 1e4))
        whole, near = ({k: v for k, v in d.items() if k != "rope_theta"} for d in (whole, near))
        if read_scaling(near).kind != "none":
            raise ValueError("rope scaling of the sliding layers is not supported")
        return {"rope_theta": theta, "rope_theta_local": base, "rope": read_scaling(whole)}

    def write(self, c: ModelConfig) -> dict[str, Any]:
        local = {"rope_local_base_freq": c.attn.rope_theta_local} if c.attn.window else {}
        return _write(c) | local
