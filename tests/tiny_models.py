"""Small models with large, fixed, random weights: every feature leaves a visible trace, and making
them compiles nothing."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from rlvr_jax.models import transformer as tf
from rlvr_jax.models.config import (
    AttentionConfig,
    MlaConfig,
    ModelConfig,
    MoeConfig,
    RopeScaling,
)

VOCAB = 14  # divides over a mesh of two
PLAIN = ModelConfig(
    vocab=VOCAB,
    width=16,
    layers=2,
    mlp_width=24,
    attn=AttentionConfig(heads=2, kv_heads=2, head_dim=8),
    unroll=False,
)
EVERYTHING = dataclasses.replace(
    PLAIN,
    layers=3,
    attn=AttentionConfig(
        heads=4,
        kv_heads=2,
        head_dim=8,
        qkv_bias=True,
        out_bias=True,
        qk_norm=True,
        softcap=5.0,
        query_scale=0.5,
        window=4,
        local_pattern=(1, 0),
        rope_theta=10000.0,
        rope_theta_local=100.0,
        rope=RopeScaling("linear", factor=3.0),
        rotary_dim=6,
        rope_pattern=(1, 1, 0),
    ),
    activation="gelu_tanh",
    norm_plus_one=True,
    norms="both",
    embed_scale=True,
    tied_head=False,
    logit_softcap=9.0,
)
DEEPSEEK = dataclasses.replace(  # what that family has and no other; sizes divide over two devices
    PLAIN,
    layers=3,
    attn=AttentionConfig(
        heads=2,
        kv_heads=2,
        head_dim=10,
        rotary_dim=4,
        rope=RopeScaling("yarn", 8.0, original_context=16, mscale=0.7, mscale_all_dim=0.9),
        rope_theta=100.0,
        mla=MlaConfig(kv_rank=12, q_rank=8, value_dim=6, interleave=True),
    ),
    moe=MoeConfig(
        experts=8,
        top_k=2,
        width=12,
        normalize=True,
        scoring="sigmoid",
        groups=4,
        top_groups=2,
        scale=2.5,
        shared=1,
        dense_layers=1,
    ),
    tied_head=False,
)


@functools.cache
def random_params(config: ModelConfig, seed: int = 0):
    """Parameters of the shapes `init` gives: matrices of spread 0.5, norms around their neutral
    value, biases that are not 0."""
    shapes = jax.eval_shape(lambda: tf.init(config, jax.random.key(0)))
    rng = np.random.default_rng(seed)

    def fill(path, leaf):
        name = str(path[-1].key)
        value = rng.normal(size=leaf.shape)
        if name.endswith("norm"):
            value = 0.2 * value + (0.0 if config.norm_plus_one else 1.0)
        else:
            value = value * (1.0 if name in ("embed", "head") else 0.4)
        return jnp.asarray(value, leaf.dtype)

    return jax.tree_util.tree_map_with_path(fill, shapes)


def with_attn(config: ModelConfig, **fields) -> ModelConfig:
    return dataclasses.replace(config, attn=dataclasses.replace(config.attn, **fields))


def one_row(tokens) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(tokens, positions, allowed) of plain causal rows [R, S]."""
    tokens = jnp.asarray(np.atleast_2d(tokens), jnp.int32)
    positions = jnp.broadcast_to(jnp.arange(tokens.shape[1]), tokens.shape)
    return tokens, positions, positions[:, :, None] >= positions[:, None, :]
