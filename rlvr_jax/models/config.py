"""What a model looks like, as data: every feature switch of the one transformer."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class AttentionConfig:
    """Heads and everything that changes the attention's arithmetic."""

    heads: int = 4
    kv_heads: int = 4  # fewer than heads = grouped-query attention
    head_dim: int = 32
    qkv_bias: bool = False
    out_bias: bool = False
    qk_norm: bool = False  # RMSNorm on queries and keys, per head
    softcap: float = 0.0  # scores -> cap * tanh(scores / cap); 0 = off
    query_scale: float = 0.0  # 0 = head_dim ** -0.5
    window: int = 0  # sliding window of the local layers, in tokens; 0 = off
    local_pattern: tuple[int, ...] = (1,)  # repeated over the layers; 1 = local (needs window)
    rope_theta: float = 10000.0
    rope_theta_local: float = 0.0  # base of the local layers; 0 = the same

    def __post_init__(self):
        if self.heads % self.kv_heads:
            raise ValueError(
                f"attn.heads must be a multiple of attn.kv_heads, got {self.heads} and "
                f"{self.kv_heads}"
            )
        if self.head_dim % 2:
            raise ValueError(f"attn.head_dim must be even (rotary), got {self.head_dim}")
        if not self.window and (self.rope_theta_local or self.local_pattern != (1,)):
            raise ValueError("attn.local_pattern and attn.rope_theta_local need attn.window > 0")

    @property
    def scale(self) -> float:
        return self.query_scale or self.head_dim**-0.5


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """A decoder-only transformer.  `vocab` 0 = the tokenizer's size."""

    vocab: int = 0
    width: int = 128
    layers: int = 2
    mlp_width: int = 512
    attn: AttentionConfig = AttentionConfig()
    activation: str = "silu"  # silu | gelu_tanh
    norm_eps: float = 1e-6
    norm_plus_one: bool = False  # scale by 1 + weight (Gemma)
    norms: str = "pre"  # pre | post | both
    embed_scale: bool = False  # multiply embeddings by sqrt(width) (Gemma)
    tied_head: bool = True
    logit_softcap: float = 0.0
    init_std: float = 0.02
    param_dtype: str = "float32"
    compute_dtype: str = "float32"
    lora_scale: float = 1.0  # weight of adapters where there are any (lora.LoraConfig.scale)
    unroll: bool = True  # python loop over layers (fast on CPU); False = scan (fast to compile)
    remat: str = (
        "none"  # recompute in the backward pass: none | full (blocks) | dots (all but dots)
    )

    def __post_init__(self):
        choices = {
            "activation": ("silu", "gelu_tanh"),
            "norms": ("pre", "post", "both"),
            "remat": ("none", "full", "dots"),
            "param_dtype": ("float32", "bfloat16"),
            "compute_dtype": ("float32", "bfloat16"),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f'model.{name} must be one of {", ".join(allowed)}; got "{getattr(self, name)}"'
                )

    @property
    def norm_names(self) -> tuple[str, ...]:
        pre, post = ("attn_norm", "mlp_norm"), ("attn_post_norm", "mlp_post_norm")
        return {"pre": pre, "post": post, "both": pre + post}[self.norms]

    def local(self, layer: int) -> bool:
        """Does this layer use the sliding window?"""
        pattern = self.attn.local_pattern
        return bool(self.attn.window and pattern[layer % len(pattern)])
