"""From logits to the sampling distribution, and from the distribution to a token.

Sampler and scorer both call `sampling_logits`; there is no other place where a temperature, top-k
or top-p is applied.  Tokens are drawn by inverting the cumulative distribution with one uniform
number per token, so the cost of randomness does not grow with the vocabulary.
"""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp

NEG = -1e30  # "impossible" for logits: finite, so that arithmetic under a mask stays finite


@dataclasses.dataclass(frozen=True)
class SamplingConfig:
    """temperature 0 is greedy; top_k 0 and top_p 1 are off."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    def __post_init__(self):
        if self.temperature < 0 or not math.isfinite(self.temperature):
            raise ValueError(f"temperature must be >= 0, got {self.temperature}")
        if self.top_k < 0:
            raise ValueError(f"top_k must be >= 0 (0 = off), got {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be in (0, 1] (1 = off), got {self.top_p}")

    @property
    def greedy(self) -> bool:
        return self.temperature == 0


def sampling_logits(
    logits: jax.Array, config: SamplingConfig, keep: jax.Array | None = None
) -> jax.Array:
    """Logits [..., V] of the distribution that is sampled from, float32.

    Temperature first, then top-k, then top-p over what is left (the smallest set of tokens whose
    mass reaches top_p, ties at the border kept).  `keep` [...] names a token that stays possible
    whatever the
    rounding: the scorer passes the sampled token, which was in the sampler's set by construction.
    Greedy (temperature 0) leaves the argmax alone as the only possible token.
    """
    z = logits.astype(jnp.float32)
    if config.greedy:
        border = jnp.max(z, axis=-1, keepdims=True)
        return _truncate(z, border, keep)
    if config.temperature != 1.0:
        z = z / config.temperature
    if 0 < config.top_k < z.shape[-1]:
        border = jax.lax.top_k(z, config.top_k)[0][..., -1:]
        z = _truncate(z, border, keep)
    if config.top_p < 1:
        ordered = jnp.sort(z, axis=-1, descending=True)
        probs = jax.nn.softmax(ordered, axis=-1)
        before = jnp.cumsum(probs, axis=-1) - probs
        last = jnp.sum(before < config.top_p, axis=-1, keepdims=True) - 1
        z = _truncate(z, jnp.take_along_axis(ordered, last, axis=-1), keep)
    return z


def _truncate(z: jax.Array, border: jax.Array, keep: jax.Array | None) -> jax.Array:
    if keep is not None:
        border = jnp.minimum(border, jnp.take_along_axis(z, keep[..., None], axis=-1))
    return jnp.where(z >= border, z, NEG)


def logp_and_entropy(
    z: jax.Array, token: jax.Array, entropy_grad: bool = False
) -> tuple[jax.Array, jax.Array]:
    """log softmax(z)[token] and -sum p log p (nats) of softmax(z); z [..., V] float32, token [...].

    entropy_grad: False keeps the entropy out of the backward pass.  With e = exp(z - max z) and
    Z = sum e, the entropy is log Z - sum e (z - max z) / Z; impossible tokens have e = 0.
    """
    top = jax.lax.stop_gradient(jnp.max(z, axis=-1, keepdims=True))
    shifted = z - top
    log_total = jnp.log(jnp.sum(jnp.exp(shifted), axis=-1))
    logp = jnp.take_along_axis(shifted, token[..., None], axis=-1)[..., 0] - log_total
    s = shifted if entropy_grad else jax.lax.stop_gradient(shifted)
    s = jnp.where(s > NEG / 2, s, 0.0)
    e = jnp.where(shifted > NEG / 2, jnp.exp(s), 0.0)
    total = jnp.sum(e, axis=-1)
    return logp, jnp.log(total) - jnp.sum(e * s, axis=-1) / total


def draw(z: jax.Array, uniform: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The token at quantile `uniform` [...] in [0, 1) of softmax(z [..., V]), and its
    log-probability.

    Two levels: find the block of the vocabulary that holds the quantile, then the token inside it.
    """
    vocab = z.shape[-1]
    width = 1 << max(1, math.isqrt(vocab - 1).bit_length())
    blocks = -(-vocab // width)
    lse = jax.nn.logsumexp(z, axis=-1)
    p = jnp.exp(z - lse[..., None])
    p = jnp.pad(p, [(0, 0)] * (z.ndim - 1) + [(0, blocks * width - vocab)])
    p = p.reshape(*z.shape[:-1], blocks, width)
    mass = jnp.sum(p, axis=-1)
    block, rest = _invert(mass, uniform * jnp.sum(mass, axis=-1))
    inside = jnp.take_along_axis(p, block[..., None, None], axis=-2)[..., 0, :]
    offset, _ = _invert(inside, rest)
    token = block * width + offset
    return token, jnp.take_along_axis(z, token[..., None], axis=-1)[..., 0] - lse


def _invert(mass: jax.Array, target: jax.Array) -> tuple[jax.Array, jax.Array]:
    """First index whose cumulative mass exceeds `target`, and what of the target lies inside it.

    Rounding can leave the target at or above the total; then the last index with any mass.
    """
    total = jnp.cumsum(mass, axis=-1)
    index = jnp.sum(total <= target[..., None], axis=-1)
    width = mass.shape[-1]
    last = width - 1 - jnp.argmax(jnp.flip(mass > 0, axis=-1), axis=-1)
    index = jnp.minimum(index, last).astype(jnp.int32)
    before = jnp.take_along_axis(total - mass, index[..., None], axis=-1)[..., 0]
    return index, jnp.maximum(target - before, 0.0)
