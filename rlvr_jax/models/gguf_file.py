"""A GGUF file as a model: architecture and dequantised weights.  Gemma 3 (text) for now.

The numbers are those of the `gguf` package's dequantiser (extra `gguf`); names and conventions are
llama.cpp's: norms of Gemma are stored as 1 + weight, shapes innermost first.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rlvr_jax.models.config import AttentionConfig, ModelConfig, RopeScaling
from rlvr_jax.models.families import FAMILIES, layout
from rlvr_jax.models.families.base import shortest_pattern
from rlvr_jax.models.families.names import leaf_shapes, tensor_shapes
from rlvr_jax.models.hf import param_shapes
from rlvr_jax.models.safetensors_file import names_of

OUTSIDE = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_LAYERS_27B = 62  # the one size whose queries are scaled by width / heads


@dataclasses.dataclass(frozen=True)
class GgufModel:
    """What a file holds: facts (its metadata), the model, and its tensors by Hugging Face name."""

    facts: Mapping[str, Any]
    config: ModelConfig
    tensors: Mapping[str, tuple[tuple[int, ...], Callable[[], np.ndarray]]]


def open_gguf(path: pathlib.Path) -> GgufModel:
    """Read the metadata; tensors are dequantised when they are asked for.  ValueError in one line
    for what is not a GGUF file, not a known architecture, or does not fit it."""
    try:
        gguf = importlib.import_module("gguf")
    except ImportError:
        raise ValueError("reading GGUF files needs the gguf package: pip install gguf") from None
    if not path.is_file():
        raise ValueError(f'no GGUF file "{path}"')
    # The reader gives up in several ways on a file that is cut short or not GGUF at all.
    try:
        reader = gguf.GGUFReader(path)
        facts = {name: field.contents() for name, field in reader.fields.items()}
    except (ValueError, IndexError, KeyError, TypeError, OverflowError) as error:
        raise ValueError(f'"{path}" is no whole GGUF file: {error}') from None
    kind = facts.get("general.architecture")
    if kind != "gemma3":
        raise ValueError(f'GGUF architecture "{kind}" is not supported (gemma3 is)')
    stored = {tensor.name: tensor for tensor in reader.tensors}
    vocab = int(stored["token_embd.weight"].shape[1]) if "token_embd.weight" in stored else 0
    config = _gemma3(facts, vocab, tied="output.weight" not in stored)
    sizes = leaf_shapes(param_shapes(config))
    wanted = tensor_shapes(layout(FAMILIES.make(config.family).names, sizes), sizes)
    named = {_hf_name(name): tensor for name, tensor in stored.items()}
    _check_census(path, wanted, {n: tuple(map(int, t.shape[::-1])) for n, t in named.items()})
    read = functools.partial(_dequantize, gguf)
    tensors = {n: (shape, functools.partial(read, named[n], n)) for n, shape in wanted.items()}
    return GgufModel(facts, config, tensors)


def _hf_name(name: str) -> str:
    """The Hugging Face name of a tensor; an unknown one stays, and the census names it."""
    parts = name.split(".")
    if parts[0] == "blk" and parts[3:] == ["weight"] and parts[2] in BLOCK:
        return f"model.layers.{parts[1]}.{BLOCK[parts[2]]}.{parts[3]}"
    return OUTSIDE.get(name, name)


def _dequantize(gguf, tensor, name: str) -> np.ndarray:
    value = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
    return value - 1.0 if "norm" in name else value


def _check_census(path, wanted: Mapping[str, tuple], found: Mapping[str, tuple]) -> None:
    missing, extra = set(wanted) - set(found), set(found) - set(wanted)
    bent = [n for n in wanted if n in found and found[n] != wanted[n]]
    sides = ((missing, "missing"), (extra, "not expected"), (bent, "of another shape"))
    parts = [f"{len(names)} {what} ({names_of(names)})" for names, what in sides if names]
    if parts:
        raise ValueError(f'the tensors of "{path}" do not fit gemma3: {"; ".join(parts)}')


def _gemma3(facts: Mapping[str, Any], vocab: int, tied: bool) -> ModelConfig:
    """The switches of a Gemma 3 text model, from the keys that begin with "gemma3."."""
    own = {k.removeprefix("gemma3."): v for k, v in facts.items() if k.startswith("gemma3.")}

    def take(name, default=None):
        if name not in own and default is None:
            raise ValueError(f'the GGUF file lacks "gemma3.{name}"')
        return own.pop(name, default)

    layers, width = take("block_count"), take("embedding_length")
    config = ModelConfig(
        family="gemma3_text",
        context=take("context_length"),
        vocab=vocab,
        width=width,
        layers=layers,
        mlp_width=take("feed_forward_length"),
        attn=_gemma3_attention(take, layers, width),
        activation="gelu_tanh",
        norm_eps=float(f"{take('attention.layer_norm_rms_epsilon'):.6g}"),  # stored in float32
        norms="both",
        norm_plus_one=True,
        embed_scale=True,
        tied_head=tied,
        logit_softcap=take("final_logit_softcapping", 0.0),
    )
    if own:
        raise ValueError(f"the GGUF file has keys that are not supported: {sorted(own)}")
    return config


def _gemma3_attention(take: Callable[..., Any], layers: int, width: int) -> AttentionConfig:
    heads, head_dim = take("attention.head_count"), take("attention.key_length", 256)
    if take("attention.value_length", head_dim) != head_dim:
        raise ValueError("gemma3.attention.value_length differs from key_length")
    every = take("attention.sliding_window_pattern", 6)
    kind, factor = take("rope.scaling.type", "none"), take("rope.scaling.factor", 1.0)
    return AttentionConfig(
        heads=heads,
        kv_heads=take("attention.head_count_kv", heads),
        head_dim=head_dim,
        qk_norm=True,
        query_scale=(width / heads if layers == _LAYERS_27B else head_dim) ** -0.5,
        window=take("attention.sliding_window"),
        local_pattern=shortest_pattern([bool((i + 1) % every) for i in range(layers)]),
        rope_theta=take("rope.freq_base", 1e6),
        rope_theta_local=take("rope.freq_base_swa", 1e4),
        rope=RopeScaling(kind, factor) if kind != "none" else RopeScaling(),
    )
