"""What a model looks like, as data: every feature switch of the one transformer."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

# Keys of ModelConfig that say how a model is run, not what it computes.
RUN_KEYS = ("path", "param_dtype", "compute_dtype", "unroll", "remat", "lora_scale")


def _check_off(section: Any, name: str, switch: str) -> None:
    """ValueError where `switch` is 0 and another field of the section is set all the same."""
    fields = dataclasses.fields(section)
    given = [f.name for f in fields if getattr(section, f.name) != f.default]
    if given and not getattr(section, switch):
        raise ValueError(f"{name}.{given[0]} has no effect: {name}.{switch} is 0")


@dataclasses.dataclass(frozen=True)
class RopeScaling:
    """How the rotary frequencies are stretched beyond the context they were trained on."""

    kind: str = "none"  # none | linear | llama3 | longrope | yarn
    factor: float = 1.0  # all but longrope: slow frequencies are divided by this
    low_freq_factor: float = 1.0  # llama3: wavelengths above original_context / this are slow
    high_freq_factor: float = 4.0  # llama3: wavelengths below original_context / this stay
    original_context: int = 0  # all but linear: tokens of context before the stretch
    short_factor: tuple[float, ...] = ()  # longrope: a divisor for each frequency
    long_factor: tuple[float, ...] = ()
    attention_factor: float = 1.0  # longrope: multiplies the rotated part of queries and keys
    beta_fast: float = 32.0  # yarn: frequencies of more turns in original_context stay
    beta_slow: float = 1.0  # yarn: those of fewer turns are divided by the factor
    mscale: float = 1.0  # yarn: the rotated part is multiplied by m(mscale) / m(mscale_all_dim)
    mscale_all_dim: float = 0.0  # yarn: MLA scores by m(mscale_all_dim)^2; m(s) = 1 + s ln(f) / 10
    long: bool = False  # longrope: use long_factor; fixed for a run, so that sampler == scorer

    def __post_init__(self):
        if self.kind not in ("none", "linear", "llama3", "longrope", "yarn"):
            raise ValueError(
                f"attn.rope.kind must be none, linear, llama3, longrope or yarn; got {self.kind!r}"
            )
        if self.kind in ("llama3", "longrope", "yarn") and self.original_context < 1:
            raise ValueError(f'attn.rope.kind "{self.kind}" needs attn.rope.original_context')
        if self.factor <= 0 or self.attention_factor <= 0:
            raise ValueError("attn.rope.factor and attn.rope.attention_factor must be positive")
        if not 0 < self.beta_slow <= self.beta_fast:
            raise ValueError(
                f"attn.rope.beta_slow is positive and at most attn.rope.beta_fast; "
                f"got {self.beta_slow} and {self.beta_fast}"
            )

    def m(self, scale: float) -> float:
        """Of YaRN: 1 + scale ln(factor) / 10; Peng et al. 2023, arXiv 2309.00071, eq. 22."""
        return 1.0 + 0.1 * scale * math.log(max(self.factor, 1.0))

    @property
    def amplitude(self) -> float:
        """What the rotated part of queries and keys is multiplied by."""
        if self.kind == "yarn":
            return self.m(self.mscale) / self.m(self.mscale_all_dim)
        return self.attention_factor


@dataclasses.dataclass(frozen=True)
class MoeConfig:
    """A mixture of experts in place of the MLP; Shazeer et al. 2017, arXiv 1701.06538."""

    experts: int = 0  # 0 = one dense MLP
    top_k: int = 1  # experts a token goes to
    width: int = 0  # of each expert
    normalize: bool = False  # weights of the chosen experts sum to 1
    scoring: str = "softmax"  # softmax | sigmoid, with a bias that takes part in the choice alone
    groups: int = 1  # sigmoid: experts are chosen from the best groups, judged by their best two
    top_groups: int = 1
    scale: float = 1.0  # of the weights, after normalize
    shared: int = 0  # experts of the same width that every token goes to, with weight 1
    dense_layers: int = 0  # first layers, which have one MLP of mlp_width instead

    def __post_init__(self):
        _check_off(self, "moe", "experts")
        if self.experts and not (1 <= self.top_k <= self.experts and self.width > 0):
            raise ValueError(
                f"moe.top_k is 1 to moe.experts and moe.width is positive; got top_k {self.top_k}, "
                f"experts {self.experts}, width {self.width}"
            )
        if self.scoring not in ("softmax", "sigmoid"):
            raise ValueError(f'moe.scoring must be softmax or sigmoid; got "{self.scoring}"')
        if self.scale <= 0 or self.shared < 0 or self.dense_layers < 0:
            raise ValueError(
                f"moe.scale is positive, moe.shared and moe.dense_layers are not negative; got "
                f"{self.scale}, {self.shared}, {self.dense_layers}"
            )
        self._check_groups()

    def _check_groups(self):
        if self.groups == self.top_groups == 1:
            return
        if self.scoring != "sigmoid":
            raise ValueError("moe.groups and moe.top_groups need moe.scoring sigmoid")
        each, rest = divmod(self.experts, max(self.groups, 1))
        if rest or each < 2 or not 1 <= self.top_groups <= self.groups:
            raise ValueError(
                f"moe.groups divides moe.experts into groups of two or more, of which "
                f"moe.top_groups are searched; got {self.experts} experts, {self.groups} groups, "
                f"{self.top_groups} top groups"
            )
        if self.top_k > each * self.top_groups:
            raise ValueError(
                f"moe.top_k {self.top_k} is more than the experts in moe.top_groups groups, "
                f"{each * self.top_groups}"
            )


@dataclasses.dataclass(frozen=True)
class MlaConfig:
    """Multi-head latent attention (models/mla.py).  A head's first dimensions are plain and its
    last attn.rotary_dim rotated."""

    kv_rank: int = 0  # of the latent that keys and values are made of; 0 = no latent attention
    q_rank: int = 0  # of the latent that queries are made of; 0 = of the token itself
    value_dim: int = 0  # of a head's values; 0 = attn.head_dim
    interleave: bool = False  # rotated pairs are neighbours in the weights, not halves
    absorb: bool = False  # attend to the latents themselves, as the sampler always does

    def __post_init__(self):
        _check_off(self, "attn.mla", "kv_rank")
        if min(self.kv_rank, self.q_rank, self.value_dim) < 0:
            raise ValueError(
                f"attn.mla.kv_rank, q_rank and value_dim are not negative; got {self.kv_rank}, "
                f"{self.q_rank}, {self.value_dim}"
            )


@dataclasses.dataclass(frozen=True)
class AttentionConfig:
    """Heads and everything that changes the attention's arithmetic."""

    heads: int = 4
    kv_heads: int = 4  # fewer than heads = grouped-query attention
    head_dim: int = 32
    qkv_bias: bool = False
    out_bias: bool = False
    qk_norm: bool = False  # RMSNorm on queries and keys, per head
    qk_norm_whole: bool = False  # that norm runs over all heads together (OLMo 2)
    softcap: float = 0.0  # scores -> cap * tanh(scores / cap); 0 = off
    query_scale: float = 0.0  # 0 = head_dim ** -0.5
    window: int = 0  # sliding window of the local layers, in tokens; 0 = off
    local_pattern: tuple[int, ...] = (1,)  # repeated over the layers; 1 = local (needs window)
    rope_theta: float = 10000.0
    rope_theta_local: float = 0.0  # base of the local layers, never stretched; 0 = the same
    rope: RopeScaling = RopeScaling()
    rotary_dim: int = 0  # leading (MLA: last) dimensions of a head that are rotated; 0 = all
    rope_pattern: tuple[int, ...] = (1,)  # repeated over the layers; 0 = no rotation (SmolLM3)
    mla: MlaConfig = MlaConfig()

    def __post_init__(self):
        if self.heads % self.kv_heads:
            raise ValueError(
                f"attn.heads must be a multiple of attn.kv_heads, got {self.heads} and "
                f"{self.kv_heads}"
            )
        if self.rotated % 2 and not self.rotary_dim:
            raise ValueError(f"attn.head_dim must be even (rotary), got {self.head_dim}")
        if self.rotary_dim % 2 or not 0 <= self.rotary_dim <= self.head_dim:
            raise ValueError(
                f"attn.rotary_dim is even and at most attn.head_dim, {self.head_dim}; "
                f"got {self.rotary_dim}"
            )
        if self.rope.kind == "longrope":
            sizes = len(self.rope.short_factor), len(self.rope.long_factor)
            if sizes != (self.rotated // 2,) * 2:
                raise ValueError(
                    f"attn.rope.short_factor and long_factor need {self.rotated // 2} numbers "
                    f"each, got {sizes[0]} and {sizes[1]}"
                )
        if self.qk_norm_whole and not self.qk_norm:
            raise ValueError("attn.qk_norm_whole has no effect: attn.qk_norm is off")
        if not self.window and (self.rope_theta_local or self.local_pattern != (1,)):
            raise ValueError("attn.local_pattern and attn.rope_theta_local need attn.window > 0")
        if self.mla.kv_rank and (self.qk_norm or self.kv_heads != self.heads):
            raise ValueError(
                f"attn.mla has norms of its own and keys for every head: attn.qk_norm must be off "
                f"and attn.kv_heads equal attn.heads; got {self.qk_norm}, {self.kv_heads} and "
                f"{self.heads}"
            )

    @property
    def scale(self) -> float:
        """What scores are multiplied by."""
        plain = self.query_scale or self.head_dim**-0.5
        if self.mla.kv_rank and self.rope.kind == "yarn":
            return plain * self.rope.m(self.rope.mscale_all_dim) ** 2
        return plain

    @property
    def value_dim(self) -> int:
        """Size of a head's values."""
        return self.mla.value_dim or self.head_dim

    @property
    def cached(self) -> tuple[int, int, int]:
        """Heads of keys and values that are attended to, and the sizes of a key and a value."""
        if self.mla.absorb:
            return 1, self.mla.kv_rank + self.rotated, self.mla.kv_rank
        return self.kv_heads, self.head_dim, self.value_dim

    @property
    def rotated(self) -> int:
        """Dimensions of a head that are rotated."""
        return self.rotary_dim or self.head_dim


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """A decoder-only transformer.  `vocab` 0 = the tokenizer's size.

    With `path` the architecture is the checkpoint's; only `RUN_KEYS` may be set beside it.
    """

    path: str = ""  # a Hugging Face folder or hub name to start from; "" = fresh weights
    family: str = ""  # model_type it is exported as; "" = the first that can express it
    context: int = 0  # tokens it can see (max_position_embeddings); 0 = not limited
    vocab: int = 0
    width: int = 128
    layers: int = 2
    mlp_width: int = 512
    attn: AttentionConfig = AttentionConfig()
    moe: MoeConfig = MoeConfig()
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
        if self.moe.dense_layers >= max(self.layers, 1):
            raise ValueError(
                f"moe.dense_layers is less than model.layers, {self.layers}; "
                f"got {self.moe.dense_layers}"
            )

    @property
    def dense(self) -> ModelConfig:
        """The same model with one MLP in every layer: what its moe.dense_layers are."""
        return dataclasses.replace(self, moe=MoeConfig())

    @property
    def for_sampling(self) -> ModelConfig:
        """The same model; the cache of its sampler holds latents where the model has them."""
        if not self.attn.mla.kv_rank:
            return self
        mla = dataclasses.replace(self.attn.mla, absorb=True)
        return dataclasses.replace(self, attn=dataclasses.replace(self.attn, mla=mla))

    @property
    def norm_names(self) -> tuple[str, ...]:
        pre, post = ("attn_norm", "mlp_norm"), ("attn_post_norm", "mlp_post_norm")
        return {"pre": pre, "post": post, "both": pre + post}[self.norms]

    def for_length(self, length: int) -> ModelConfig:
        """The model for sequences of `length` tokens: LongRoPE takes its long factors where they
        are needed.  ValueError where the sequences are longer than the model can see."""
        rope = self.attn.rope
        if self.context and length > self.context:
            raise ValueError(
                f"prompt and completion have up to {length} tokens (decode.max_prompt_tokens + "
                f"max_new_tokens); the model sees {self.context}"
            )
        if rope.kind != "longrope" or rope.long or length <= rope.original_context:
            return self
        attn = dataclasses.replace(self.attn, rope=dataclasses.replace(rope, long=True))
        return dataclasses.replace(self, attn=attn)

    def local(self, layer: int) -> bool:
        """Does this layer use the sliding window?"""
        pattern = self.attn.local_pattern
        return bool(self.attn.window and pattern[layer % len(pattern)])

    def rotary(self, layer: int) -> bool:
        """Does this layer rotate its queries and keys?"""
        pattern = self.attn.rope_pattern
        return bool(pattern[layer % len(pattern)])
