"""SmolLM3."""

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
    shortest_pattern,
    windows,
    write_layer_types,
)


@FAMILIES.register("smollm3")
@dataclasses.dataclass(frozen=True)
class SmolLM3(Family):
    """Llama's shape, of which every fourth layer does not rotate; Bakouch et al. 2025."""

    model_type: ClassVar[str] = "smollm3"
    architecture: ClassVar[str] = "SmolLM3ForCausalLM"

    def read(self, keys: Keys) -> ModelConfig:
        layers, every = keys("num_hidden_layers"), keys("no_rope_layer_interval", 4)
        rotary = keys("no_rope_layers", None)  # 1 where the layer rotates, whatever the name says
        rotary = rotary or [int((i + 1) % every != 0) for i in range(layers)]
        if len(rotary) != layers:
            raise ValueError(f"no_rope_layers has {len(rotary)} entries for {layers} layers")
        window = keys("sliding_window", None) if keys("use_sliding_window", False) else None
        keys("sliding_window", None)
        local = layer_types(keys, [window is not None and not r for r in rotary])
        bias = keys("attention_bias", False)
        attn = attention(
            keys,
            theta=2e6,
            kv_heads=kv_heads(keys, 4),
            rope_pattern=shortest_pattern(rotary),
            qkv_bias=bias,
            out_bias=bias,
            **windows(local, window),
        )
        return model(self, keys, attn, tied_head=keys("tie_word_embeddings", True))

    def write(self, c: ModelConfig) -> dict[str, Any]:
        window = {"use_sliding_window": False}
        if c.attn.window:
            window = {"use_sliding_window": True, "sliding_window": c.attn.window}
        return (
            basics(c)
            | window
            | {
                "attention_bias": c.attn.out_bias,
                "mlp_bias": False,
                "no_rope_layers": [int(c.rotary(i)) for i in range(c.layers)],
                "layer_types": write_layer_types(c),
            }
        )
