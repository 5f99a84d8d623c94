"""Sampling completions: prefill once per prompt, fan out to G samples, decode, compact.

Read in this order: `DecodeState` (what lives on the device), `_prefill`, `_advance` (the jitted
loop), `make_sampler` (the host's loop over chunks).  Which device slot holds which row is slots.py.

The keys and values of a prompt are stored once; its samples attend to them together.  Completion
caches are separate, all rows write the same column, and the cache grows by doubling.  After each
chunk the rows that are still running move into the next smaller grid of N' x G' slots (a prompt may
take several).

A draw is addressed by (seed, stream, step, prompt uid, sample index, position) and by nothing else,
so how a batch is split or compacted does not change what is sampled.  No tokenizer, no text in this
file.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from rlvr_jax.batch import pytree
from rlvr_jax.interruption import Interruption, begin, force
from rlvr_jax.models import transformer as tf
from rlvr_jax.models.config import ModelConfig
from rlvr_jax.models.stacks import sizes
from rlvr_jax.sampling import SamplingConfig, draw, sampling_logits
from rlvr_jax.sharding import batch_shards, constrain, put_batch, replicated
from rlvr_jax.slots import Output, Samples, place_rows, plan_grid, prompt_batch


@dataclasses.dataclass(frozen=True)
class DecodeConfig:
    """Lengths are in tokens."""

    max_prompt_tokens: int = 64
    max_new_tokens: int = 64
    chunk: int = 64  # decoding steps between two looks at which rows still run

    def __post_init__(self):
        for name in ("max_prompt_tokens", "max_new_tokens", "chunk"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")


@dataclasses.dataclass(frozen=True)
class Address:
    """Where in the run's randomness a batch of rollouts lives."""

    seed: int
    stream: int  # 0 training, 1 evaluation, 2 what the invariants use, 3 rlvr sample
    step: int


@pytree
class DecodeState:
    """The device's side of a generation in progress; slots [N, G]."""

    prompt_kv: Any  # for each of tf.stacks: k [N, K, d, P], v [N, K, P, d], scanned layers leading
    kv: Any  # for each of tf.stacks: k [N, G, K, d, T], v [N, G, K, T, d]
    prompt_len_N: jax.Array  # int32
    key_NG: jax.Array  # typed keys, one per sample
    token_NG: jax.Array  # int32 last sampled token
    length_NG: jax.Array  # int32 tokens so far
    done_NG: jax.Array  # bool
    begin_NG: jax.Array | None  # int32 column where a forced phrase begins (interruption.py)
    time: jax.Array  # int32 scalar: completion tokens of the rows that still run


def sample_keys(address: jax.Array, uid_N: jax.Array, sample_NG: jax.Array) -> jax.Array:
    """Typed keys [N, G] from (seed, stream, step) and the coordinates of each sample."""
    root = jax.random.key(address[0])
    root = jax.random.fold_in(jax.random.fold_in(root, address[1]), address[2])
    per_prompt = jax.vmap(lambda u: jax.random.fold_in(root, u))(uid_N)
    return jax.vmap(lambda k, s: jax.vmap(lambda i: jax.random.fold_in(k, i))(s))(
        per_prompt, sample_NG
    )


def _uniform(key_NG: jax.Array, time: jax.Array) -> jax.Array:
    def one(key):
        return jax.random.uniform(jax.random.fold_in(key, time))

    return jax.vmap(one)(key_NG.reshape(-1)).reshape(key_NG.shape)


def _is_stop(token: jax.Array, stop_ids: tuple[int, ...]) -> jax.Array:
    return functools.reduce(jnp.logical_or, [token == s for s in stop_ids])


@dataclasses.dataclass(frozen=True)
class _Static:
    """Everything a compiled decoding function depends on, hashable."""

    model: ModelConfig
    sampling: SamplingConfig
    stop_ids: tuple[int, ...]
    mesh: Mesh | None
    interruption: Interruption | None


def _prefill(static: _Static, capacity: int, params, batch, address):
    """Run the prompts and sample the first token of every completion.

    batch: tokens [N, P], length [N], uid [N], sample [N, G] (index of the sample; -1 = unused
    slot).
    """
    tokens_NP, length_N, uid_N, sample_NG = batch
    config, positions = static.model, jnp.arange(tokens_NP.shape[1])
    allowed = (positions[:, None] >= positions) & (positions < length_N[:, None, None])
    rows = jnp.broadcast_to(positions, tokens_NP.shape)
    attend = tf.attend_full(config, allowed, rows, _decode_layout)
    hidden, prompt_kv = tf.forward(config, params, tokens_NP, rows, attend, static.mesh)
    last_ND = jnp.take_along_axis(hidden, (length_N - 1)[:, None, None], axis=1)[:, 0]
    z_NV = tf.logits_of(config, tf.head_weight(params), last_ND, static.mesh)
    z_NV = sampling_logits(z_NV, static.sampling)
    keys = sample_keys(address, uid_N, sample_NG)
    spread = jax.vmap(draw, in_axes=(None, 1), out_axes=1)
    token_NG, logp_NG = spread(z_NV, _uniform(keys, jnp.int32(0)))
    live_NG = sample_NG >= 0
    token_NG, forced_NG, begin_NG = force(
        static.interruption, begin(static.interruption, keys), jnp.int32(0), token_NG
    )
    state = DecodeState(
        prompt_kv=prompt_kv,
        kv=_empty_cache(config, live_NG.shape, capacity, static.mesh),
        prompt_len_N=length_N,
        key_NG=keys,
        token_NG=token_NG,
        length_NG=live_NG.astype(jnp.int32),
        done_NG=~live_NG | _is_stop(token_NG, static.stop_ids),
        begin_NG=begin_NG,
        time=jnp.int32(1),
    )
    first = tuple(x[..., None] for x in (token_NG, logp_NG, forced_NG))
    return state, _to_every_host(static, (*first, state.length_NG, state.done_NG, state.time))


def _decode_layout(k: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Keys [N, P, K, d] to [N, K, d, P] and values to [N, K, P, d]: both products of a decoding
    step then run along contiguous memory."""
    return jnp.transpose(k, (0, 2, 3, 1)), jnp.transpose(v, (0, 2, 1, 3))


def _empty_cache(config: ModelConfig, slots: tuple[int, int], capacity: int, mesh: Mesh | None):
    names = "batch", None, "heads", None, None
    heads, size_k, size_v = config.attn.cached
    one = tuple(
        constrain(jnp.zeros((*slots, heads, *s), config.compute_dtype), mesh, *names)
        for s in ((size_k, capacity), (capacity, size_v))
    )
    if config.unroll:
        return (one,) * config.layers
    return tuple(
        jax.tree.map(lambda x, n=n: jnp.zeros((n, *x.shape), x.dtype), one) for n in sizes(config)
    )


def _to_every_host(static: _Static, tree):
    if static.mesh is None or static.mesh.size == 1:
        return tree
    return jax.lax.with_sharding_constraint(tree, replicated(static.mesh))


def _attend_cached(config: ModelConfig, state: DecodeState) -> tf.Attend:
    """One new token a slot against the prompt's keys and its own: q [N, G, H, d]."""
    prompt = jnp.arange(jax.tree.leaves(state.prompt_kv)[0].shape[-1])
    own = jnp.arange(jax.tree.leaves(state.kv)[0].shape[-1])
    length_N1 = state.prompt_len_N[:, None]
    in_prompt = (prompt < length_N1)[:, None, None, None, :]
    in_own = (own < state.time)[None, None, None, None, :]
    from_prompt = (length_N1 + state.time - 1 - prompt)[:, None, None, None, :]
    from_own = (state.time - 1 - own)[None, None, None, None, :]

    def attend(q, k, v, cache, local):
        (kp, vp), (kt, vt) = cache
        column = state.time - 1
        kt = jax.lax.dynamic_update_slice_in_dim(kt, k[..., None], column, axis=-1)
        vt = jax.lax.dynamic_update_slice_in_dim(vt, v[..., None, :], column, axis=-2)
        grouped = q.reshape(*q.shape[:2], k.shape[2], -1, q.shape[-1])
        scores = [
            tf.attention_scores("ngkrd,nkdp->ngkrp", grouped, kp),
            tf.attention_scores("ngkrd,ngkdt->ngkrt", grouped, kt),
        ]
        masks = [
            tf.attention_mask(config, in_prompt, from_prompt, local),
            tf.attention_mask(config, in_own, from_own, local),
        ]
        p_prompt, p_own = tf.masked_softmax(config, scores, masks)
        out = jnp.einsum("ngkrp,nkpd->ngkrd", p_prompt.astype(v.dtype), vp)
        out = out + jnp.einsum("ngkrt,ngktd->ngkrd", p_own.astype(v.dtype), vt)
        return out.reshape(*q.shape[:-1], -1), (kt, vt)

    return attend


def _decode_one(static: _Static, params, state: DecodeState):
    """Feed the last token, sample the next: the new state and (token, logp, forced) [N, G]."""
    config = static.model
    position = state.prompt_len_N[:, None] + state.time - 1
    x = tf.embed(config, params, state.token_NG)
    rope = tf.rope_tables(config, jnp.broadcast_to(position, state.token_NG.shape))
    caches = tuple(zip(state.prompt_kv, state.kv, strict=True))
    attend = _attend_cached(config, state)
    x, kv = tf.run_layers(config, params, x, rope, attend, caches, static.mesh)
    hidden = tf.rms_norm(x, params["final_norm"], config)
    z = tf.logits_of(config, tf.head_weight(params), hidden, static.mesh)
    z = sampling_logits(z, static.sampling)
    token, logp = draw(z, _uniform(state.key_NG, state.time))
    token, forced, begin_NG = force(static.interruption, state.begin_NG, state.time, token)
    state = dataclasses.replace(
        state,
        kv=kv,
        token_NG=jnp.where(state.done_NG, 0, token),
        length_NG=state.length_NG + ~state.done_NG,
        done_NG=state.done_NG | _is_stop(token, static.stop_ids),
        begin_NG=begin_NG,
        time=state.time + 1,
    )
    return state, (token, jnp.where(forced, 0.0, logp), forced)


def _advance(static: _Static, steps: int, params, state: DecodeState, until):
    """Sample until the completions have `until` tokens (at most `steps` more) or every row is done.

    params: from `tf.for_decoding`.  Returns the state and what the host needs: tokens, logp
    and forced [N, G, steps], length, done, time.
    """
    start, slots = state.time, state.done_NG.shape
    buffers = tuple(jnp.zeros((*slots, steps), t) for t in (jnp.int32, jnp.float32, bool))

    def running(carry):
        return (carry[0].time < until) & ~jnp.all(carry[0].done_NG)

    def step(carry):
        state, buffers = carry
        column = state.time - start
        state, new = _decode_one(static, params, state)
        write = jax.lax.dynamic_update_slice_in_dim
        return state, tuple(
            write(b, x[..., None], column, axis=-1) for b, x in zip(buffers, new, strict=True)
        )

    state, buffers = jax.lax.while_loop(running, step, (state, buffers))
    return state, _to_every_host(static, (*buffers, state.length_NG, state.done_NG, state.time))


def _regrid(static: _Static, capacity: int, state: DecodeState, prompt_N, slot_NG):
    """Move rows into a new grid and grow the completion cache to `capacity` columns.

    prompt_N: old prompt slot of each new one.  slot_NG: old flat slot of each new one; -1 = unused.
    """
    axis = 0 if static.model.unroll else 1
    slots = state.done_NG.size

    def rows(x, at=0):
        flat = x.reshape(*x.shape[:at], slots, *x.shape[at + 2 :])
        return jnp.take(flat, jnp.maximum(slot_NG, 0), axis=at)

    def grow(x, at):
        pad = [(0, 0)] * x.ndim
        pad[at] = (0, capacity - x.shape[at])
        return jnp.pad(x, pad)

    def k_v(pair):
        return grow(rows(pair[0], axis), -1), grow(rows(pair[1], axis), -2)

    return DecodeState(
        prompt_kv=jax.tree.map(lambda x: jnp.take(x, prompt_N, axis=axis), state.prompt_kv),
        kv=tuple(map(k_v, state.kv)),
        prompt_len_N=state.prompt_len_N[prompt_N],
        key_NG=rows(state.key_NG),
        token_NG=rows(state.token_NG),
        length_NG=rows(state.length_NG),
        done_NG=rows(state.done_NG) | (slot_NG < 0),
        begin_NG=jax.tree.map(rows, state.begin_NG),
        time=state.time,
    )


Sampler = Callable[..., Samples]
"""sampler(params, prompts, uids, group, address, sample_start=0, limit=None) -> Samples."""


def make_sampler(
    model: ModelConfig,
    decode: DecodeConfig,
    sampling: SamplingConfig,
    stop_ids: Sequence[int],
    mesh: Mesh | None = None,
    watch: Callable[[Output], None] | None = None,
    interruption: Interruption | None = None,
) -> Sampler:
    """Build the compiled pieces once and return the sampling function.

    sampler(params, prompts, uids, group, address): `prompts` are N lists of token ids, `uids` N
    integers that name them in the run's randomness; returns Samples with N * group rows.  `limit`
    (at most decode.max_new_tokens) shortens the completions without a new compilation.  `watch`
    looks at the buffers after every token.  `interruption` writes its phrase into completions that
    run long.
    """
    if not stop_ids:
        raise ValueError("a sampler needs at least one end token id")
    static = _Static(model.for_sampling, sampling, tuple(map(int, stop_ids)), mesh, interruption)
    shards = 1 if mesh is None else batch_shards(mesh)
    ahead, look = (1, watch) if watch else (decode.chunk, lambda out: None)
    prefill = jax.jit(functools.partial(_prefill, static), static_argnums=(0,))
    advance = jax.jit(functools.partial(_advance, static), static_argnums=(0,), donate_argnums=(2,))
    regrid = jax.jit(functools.partial(_regrid, static), static_argnums=(0,))

    def sample(params, prompts, uids, group, address, sample_start=0, limit=None) -> Samples:
        limit = min(limit or decode.max_new_tokens, decode.max_new_tokens)
        batch, row = prompt_batch(
            prompts, uids, group, sample_start, decode.max_prompt_tokens, shards
        )
        place = np.array([address.seed, address.stream, address.step], np.uint32)
        capacity = min(decode.chunk, decode.max_new_tokens)
        batch = batch if mesh is None else put_batch(batch, mesh)
        params = tf.for_decoding(model, params)
        state, chunk = prefill(capacity, params, batch, place)
        out = Output.start(len(prompts) * group, limit)
        out.take(row, 0, jax.device_get(chunk))
        look(out)
        while not out.complete(limit):
            live = (row >= 0) & ~out.done_B[row]
            until = min((out.time // ahead + 1) * ahead, limit)
            grid = plan_grid(live.sum(1)[live.any(1)], row.shape[1], shards)
            if grid[0] * grid[1] > row.size // 2:
                grid, live = row.shape, row >= 0
            if grid != row.shape or until > capacity:
                capacity = capacity * 2 if until > capacity else capacity
                prompt, slot, row = place_rows(row, live, grid)
                moved = (prompt, slot) if mesh is None else put_batch((prompt, slot), mesh)
                state = regrid(capacity, state, *moved)
            start = out.time
            state, chunk = advance(decode.chunk, params, state, until)
            out.take(row, start, jax.device_get(chunk))
            look(out)
        return out.finish()

    return sample
