"""One decoder-only transformer; model families are data.

Written as flax nnx modules, split at the boundary: `init` returns a plain nested dict of arrays
with the layers stacked on a leading axis, and everything else here is a pure function of that
dict.  The three users (packed scoring, prompt prefill, one decoding step) run the same `Block`;
they differ only in the `attend` function they hand to `run_layers`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import Mesh

from rlvr_jax.models.config import ModelConfig
from rlvr_jax.models.lora import A, B, adapter_names
from rlvr_jax.models.mla import LATENT_EPS, queries_keys_values, values_of
from rlvr_jax.models.moe import mixture
from rlvr_jax.models.rope import Rope, pick, rope_tables
from rlvr_jax.models.shapes import FLOAT32, RESIDUAL, block_size, matrices, vectors
from rlvr_jax.models.stacks import layers_of, sizes, split, stacks
from rlvr_jax.sampling import NEG
from rlvr_jax.sharding import constrain, path_name

Params = dict[str, Any]
Attend = Callable[..., tuple[jax.Array, Any]]
"""attend(q, k, v, cache, local) -> (output with q's heads and v's head size, new cache)."""


class Layer(NamedTuple):
    """What distinguishes one layer from the next: Python bools when unrolled, arrays in a scan."""

    local: Any  # sees only the sliding window
    rotary: Any  # rotates queries and keys


def rms_norm(x: jax.Array, weight: jax.Array, config: ModelConfig) -> jax.Array:
    """x / rms(x) * weight (or 1 + weight), computed in float32."""
    f = x.astype(jnp.float32)
    f = f * jax.lax.rsqrt(jnp.mean(f * f, axis=-1, keepdims=True) + config.norm_eps)
    scale = weight.astype(jnp.float32) + (1.0 if config.norm_plus_one else 0.0)
    return (f * scale).astype(x.dtype)


def linear(x: jax.Array, weight: jax.Array, bias: jax.Array | None = None) -> jax.Array:
    """x [..., i] @ weight [i, o] in x's dtype.  Two-dimensional inside: the f32 backward pass of a
    three-dimensional product is three times slower on CPU."""
    y = x.reshape(-1, x.shape[-1]) @ weight.astype(x.dtype)
    if bias is not None:
        y = y + bias.astype(x.dtype)
    return y.reshape(*x.shape[:-1], weight.shape[-1])


class Block(nnx.Module):
    """Attention and gated MLP with their norms; which norms exist is the configuration's choice.

    noise: standard normal numbers, as many as the block has matrix entries.  One draw a block and
    not one a matrix: on CPU every shape of draw costs half a second to compile.
    """

    def __init__(self, config: ModelConfig, noise: jax.Array):
        self.config, start = config, 0
        residual = config.init_std / (2 * config.layers) ** 0.5
        for name, shape in matrices(config).items():
            std = residual if name in RESIDUAL else config.init_std
            size = math.prod(shape)
            value = std * noise[start : start + size].reshape(shape)
            setattr(self, name, nnx.Param(value.astype(config.param_dtype)))
            start += size
        for name, (size, value) in vectors(config).items():
            dtype = "float32" if name == FLOAT32 else config.param_dtype
            setattr(self, name, nnx.Param(jnp.full(size, value, dtype)))

    def __call__(self, x: jax.Array, rope: Rope, attend: Attend, cache, layer: Layer, mesh=None):
        x, cache = self._attention(x, rope, attend, cache, layer)
        h = self._norm("mlp_norm", x)
        return x + self._norm("mlp_post_norm", self._mlp(h, mesh)), cache

    def _mlp(self, h, mesh: Mesh | None, prefix: str = ""):
        act, moe = ACTIVATIONS[self.config.activation], self.config.moe
        if moe.experts and not prefix:
            experts = (self.expert_gate[...], self.expert_up[...], self.expert_down[...])
            router = self.router[...], self._optional("router_bias")
            out = mixture(h, *router, experts, moe, act, mesh)
            return out + self._mlp(h, mesh, "shared_") if moe.shared else out
        gate, up = (self._linear(prefix + n, h) for n in ("gate", "up"))
        return self._linear(prefix + "down", act(gate) * up)

    def _attention(self, x, rope, attend, cache, layer):
        a, h = self.config.attn, self._norm("attn_norm", x)
        up = _whole(self, "kv_b") if a.mla.absorb else None
        q, k, v = self._queries_keys_values(h, rope, layer, up)
        o, cache = attend(q, k, v, cache, layer.local)
        o = values_of(a, o, up) if a.mla.absorb else o
        o = self._linear("o", o.reshape(*x.shape[:-1], -1))
        return x + self._norm("attn_post_norm", o), cache

    def _queries_keys_values(self, h, rope, layer, up):
        a = self.config.attn
        if a.mla.kv_rank:
            inner = dataclasses.replace(self.config, norm_eps=LATENT_EPS)

            def norm(name, y):
                return rms_norm(y, getattr(self, name)[...], inner)

            return queries_keys_values(a, h, self._linear, norm, lambda y: rope(y, layer), up)
        q, k, v = (self._linear(n, h) for n in ("q", "k", "v"))
        if a.qk_norm and a.qk_norm_whole:
            q, k = self._norm("q_norm", q), self._norm("k_norm", k)
        q, k, v = (y.reshape(*h.shape[:-1], -1, a.head_dim) for y in (q, k, v))
        if a.qk_norm and not a.qk_norm_whole:
            q, k = self._norm("q_norm", q), self._norm("k_norm", k)
        return rope(q, layer), rope(k, layer), v

    def _linear(self, name: str, x: jax.Array) -> jax.Array:
        """x through matrix `name`, with its bias and its adapter where the block has them."""
        y = linear(x, getattr(self, name)[...], self._optional(f"{name}_bias"))
        if (a := self._optional(name + A)) is None:
            return y
        return y + self.config.lora_scale * linear(linear(x, a), self._optional(name + B))

    def _optional(self, name: str):
        return getattr(self, name)[...] if hasattr(self, name) else None

    def _norm(self, name: str, x: jax.Array) -> jax.Array:
        weight = self._optional(name)
        return x if weight is None else rms_norm(x, weight, self.config)


def _whole(block: Block, name: str) -> jax.Array:
    """Matrix `name` with its adapter multiplied out, where it has one."""
    found = (block._optional(n) for n in (name, name + A, name + B))
    w, a, b = (x if x is None else x.astype(block.config.compute_dtype) for x in found)
    return w if a is None else w + block.config.lora_scale * (a @ b)


ACTIVATIONS = {"silu": jax.nn.silu, "gelu_tanh": lambda x: jax.nn.gelu(x, approximate=True)}


class Transformer(nnx.Module):
    """Embedding, stacked blocks (`stacks`), final norm, head (absent when tied)."""

    def __init__(self, config: ModelConfig, key: jax.Array):
        shape, dtype = (config.vocab, config.width), config.param_dtype
        keys = jax.random.split(key, 3)

        def table(key):
            value = config.init_std * jax.random.normal(key, shape, jnp.float32)
            return nnx.Param(value.astype(dtype))

        self.embed = table(keys[0])

        def stack(config, layers, key):
            noise = jax.random.normal(key, (layers, block_size(config)), jnp.float32)
            return nnx.vmap(lambda row: Block(config, row))(noise)

        *first, rest = sizes(config)
        self.layers = stack(config, rest, keys[1])
        if first:
            key = jax.random.fold_in(keys[1], 1)
            self.dense = nnx.Dict(layers=stack(config.dense, first[0], key))
        start = jnp.zeros if config.norm_plus_one else jnp.ones
        self.final_norm = nnx.Param(start(config.width, dtype))
        if not config.tied_head:
            self.head = table(keys[2])


def init(config: ModelConfig, key: jax.Array) -> Params:
    """Fresh parameters as a plain nested dict; jit it with out_shardings to create them in
    place."""
    _, state = nnx.split(Transformer(config, key))
    return nnx.to_pure_dict(state)


def _block(config: ModelConfig, layer: dict) -> Block:
    """The block module around one layer's arrays (at trace time; costs nothing at run time)."""
    config = config if "router" in layer else config.dense

    def build():
        block = Block(config, jnp.zeros(block_size(config)))
        for name in adapter_names(layer):
            setattr(block, name, nnx.Param(jnp.zeros(layer[name].shape)))
        return block

    graph, state = nnx.split(nnx.eval_shape(build))
    nnx.replace_by_pure_dict(state, layer)
    return nnx.merge(graph, state)


def embed(config: ModelConfig, params: Params, tokens: jax.Array) -> jax.Array:
    """Token vectors [..., D] in the compute dtype."""
    x = params["embed"][tokens].astype(config.compute_dtype)
    if config.embed_scale:
        x = x * jnp.asarray(config.width**0.5, x.dtype)
    return x


REMAT = {  # what the backward pass finds instead of recomputing it; block inputs are always kept
    "full": jax.checkpoint_policies.nothing_saveable,
    "dots": jax.checkpoint_policies.dots_with_no_batch_dims_saveable,  # the linears, no scores
}


def run_layers(config: ModelConfig, params, x, rope: Rope, attend: Attend, caches=None, mesh=None):
    """All blocks in turn; returns the hidden states and the new caches.

    Caches are a tuple with an entry for each of `stacks`: arrays of one layer when unrolled, with
    the layers leading when scanned.
    """

    def step(x, layer, cache, kind):
        x, cache = _block(config, layer)(x, rope, attend, cache, Layer(*kind), mesh)
        return constrain(x, mesh, *(["batch"] + [None] * (x.ndim - 1))), cache

    kinds = [Layer(config.local(i), config.rotary(i)) for i in range(config.layers)]
    if config.remat != "none":
        policy, static = REMAT[config.remat], (3,) if config.unroll else ()
        step = jax.checkpoint(step, policy=policy, static_argnums=static)
    found, out = stacks(config, params), []
    if not config.unroll:
        kinds = [tuple(map(jnp.asarray, zip(*k, strict=True))) for k in split(config, kinds)]
    for stack, cache, kind in zip(found, caches or [None] * len(found), kinds, strict=True):
        if config.unroll:
            x, cache = step(x, stack, cache, kind)
        else:
            x, cache = jax.lax.scan(lambda x, s: step(x, *s), x, (stack, cache, kind))
        out.append(cache)
    return x, tuple(out)


def for_decoding(config: ModelConfig, params: Params) -> Params:
    """`params` as a loop over tokens wants them: leaves that the model casts to the compute dtype
    on use are cast here, once, and layers unstacked where they are unrolled.  Gives the same bits;
    float32 masters are read once a rollout instead of once a token.  Norms stay as they are: they
    are computed in float32.  What needs no cast is handed on, not copied."""
    found, tree = jax.tree_util.tree_flatten_with_path(params)
    leaves = [leaf for _, leaf in found]
    wide = [
        i
        for i, (path, leaf) in enumerate(found)
        if leaf.dtype != config.compute_dtype and not _FLOAT32.search(path_name(path))
    ]
    cast = _cast([leaves[i] for i in wide], config.compute_dtype)
    for i, leaf in zip(wide, cast, strict=True):
        leaves[i] = leaf
    params = jax.tree.unflatten(tree, leaves)
    if not config.unroll or isinstance(params["layers"], tuple):
        return params
    layers = layers_of(params)
    rest = {name: leaf for name, leaf in params.items() if name not in layers}
    return rest | {"layers": _unstacked(config, layers)}


_FLOAT32 = re.compile(r"(norm|router|router_bias)$|^value_head/")  # leaves used in float32


@functools.partial(jax.jit, static_argnums=1)
def _cast(leaves: list, dtype: str) -> list:
    return [x.astype(dtype) for x in leaves]


_unstacked = jax.jit(stacks, static_argnums=0)


def head_weight(params: Params) -> jax.Array:
    """[V, D]: the output head, or the embedding where they are tied."""
    return params.get("head", params["embed"])


def logits_of(config: ModelConfig, weight: jax.Array, hidden: jax.Array, mesh: Mesh | None = None):
    """float32 logits [..., V] of final hidden states [..., D]; soft-capped where the model says
    so."""
    z = jax.lax.dot_general(
        hidden.reshape(-1, hidden.shape[-1]),
        weight.astype(hidden.dtype),
        (((1,), (1,)), ((), ())),
        preferred_element_type=jnp.float32,
    ).reshape(*hidden.shape[:-1], weight.shape[0])
    if config.logit_softcap:
        z = config.logit_softcap * jnp.tanh(z / config.logit_softcap)
    return constrain(z, mesh, *(["batch"] + [None] * (hidden.ndim - 2) + ["vocab"]))


def attention_mask(config: ModelConfig, allowed: jax.Array, distance: jax.Array, local):
    """`allowed` narrowed to the sliding window on local layers; distance = query - key position."""
    if not config.attn.window:
        return allowed
    near = allowed & (distance < config.attn.window)
    return pick(local, (allowed, near))


def attention_scores(spec: str, q: jax.Array, k: jax.Array) -> jax.Array:
    """einsum of queries and keys in float32.  CPU has no batched bfloat16 product with a float32
    result: there the operands are widened, which gives the same numbers."""

    def product(q, k):
        return jnp.einsum(spec, q, k, preferred_element_type=jnp.float32)

    def widened(q, k):
        return product(q.astype(jnp.float32), k.astype(jnp.float32))

    if q.dtype == jnp.float32:
        return product(q, k)
    return jax.lax.platform_dependent(q, k, cpu=widened, default=product)


def attend_full(config: ModelConfig, allowed: jax.Array, positions: jax.Array, keep) -> Attend:
    """Attention inside rows: q, k, v [R, S, heads, d], allowed [R, S, S]; the cache is keep(k,
    v)."""
    distance = positions[:, :, None] - positions[:, None, :]

    def attend(q, k, v, cache, local):
        del cache
        grouped = q.reshape(*q.shape[:2], k.shape[2], -1, q.shape[-1])
        scores = attention_scores("rqkgd,rskd->rkgqs", grouped, k)
        mask = attention_mask(config, allowed, distance, local)
        probs = masked_softmax(config, [scores], [mask[:, None, None]])[0]
        out = jnp.einsum("rkgqs,rskd->rqkgd", probs.astype(v.dtype), v)
        return out.reshape(*q.shape[:-1], -1), keep(k, v)

    return attend


def attend_lines(config: ModelConfig, valid: jax.Array, positions: jax.Array, line) -> Attend:
    """Attention of rows that hold one prompt and completions in slots: line = (P, T) widths.

    Prompt tokens see the prompt; a completion token sees the prompt and its own slot.  valid,
    positions [R, P + G * T].  The same numbers as `attend_full` without the pairs that are masked.
    """
    prompt, width = line

    def halves(x):
        return x[:, :prompt], x[:, prompt:].reshape(x.shape[0], -1, width, *x.shape[2:])

    (valid_p, valid_c), (at_p, at_c) = halves(valid), halves(positions)
    causal = jnp.arange(prompt)[:, None] >= jnp.arange(prompt)
    inside = attend_full(config, valid_p[:, None, :] & causal, at_p, lambda k, v: None)
    own = valid_c[..., None, :] & (jnp.arange(width)[:, None] >= jnp.arange(width))
    from_own = at_c[..., :, None] - at_c[..., None, :]
    from_prompt = at_c[..., None] - at_p[:, None, None, :]
    seen = jnp.broadcast_to(valid_p[:, None, None, :], from_prompt.shape)

    def attend(q, k, v, cache, local):
        (q_p, q_c), (k_p, k_c), (v_p, v_c) = halves(q), halves(k), halves(v)
        first, _ = inside(q_p, k_p, v_p, cache, local)
        grouped = q_c.reshape(*q_c.shape[:3], k.shape[2], -1, q.shape[-1])
        scores = [
            attention_scores("rgtkhd,rpkd->rkhgtp", grouped, k_p),
            attention_scores("rgtkhd,rgskd->rkhgts", grouped, k_c),
        ]
        masks = [
            attention_mask(config, allowed, distance, local)[:, None, None]
            for allowed, distance in ((seen, from_prompt), (own, from_own))
        ]
        p_prompt, p_own = (p.astype(v.dtype) for p in masked_softmax(config, scores, masks))
        out = jnp.einsum("rkhgtp,rpkd->rgtkhd", p_prompt, v_p)
        out = out + jnp.einsum("rkhgts,rgskd->rgtkhd", p_own, v_c)
        out = out.reshape(q.shape[0], -1, *first.shape[2:])
        return jnp.concatenate([first, out], axis=1), None

    return attend


def masked_softmax(config: ModelConfig, scores: list, masks: list) -> list:
    """Scale, soft-cap, mask and normalise the scores over the last axis of all parts together.

    A query that may look at nothing gets zeros, not NaN.
    """
    parts = []
    for s, mask in zip(scores, masks, strict=True):
        s = s * config.attn.scale
        if config.attn.softcap:
            s = config.attn.softcap * jnp.tanh(s / config.attn.softcap)
        parts.append(jnp.where(mask, s, NEG))
    top = parts[0].max(axis=-1, keepdims=True)
    for s in parts[1:]:
        top = jnp.maximum(top, s.max(axis=-1, keepdims=True))
    top = jax.lax.stop_gradient(jnp.maximum(top, NEG / 2))
    parts = [jnp.exp(s - top) for s in parts]
    total = sum(p.sum(axis=-1, keepdims=True) for p in parts)
    return [p / jnp.maximum(total, 1e-30) for p in parts]


def forward(config: ModelConfig, params: Params, tokens, positions, attend: Attend, mesh=None):
    """Rows of tokens to final hidden states [R, S, D], and the caches that `attend` made.

    tokens, positions: int32 [R, S].  attend: from `attend_full` or `attend_lines`.
    """
    x = constrain(embed(config, params, tokens), mesh, "batch", None, None)
    rope = rope_tables(config, positions)
    x, kept = run_layers(config, params, x, rope, attend, mesh=mesh)
    return rms_norm(x, params["final_norm"], config), kept
