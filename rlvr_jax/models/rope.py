"""Rotary position embeddings; Su et al. 2021, arXiv 2104.09864, in the half-split layout.

Frequencies are constants of the configuration, computed in float64 on the host.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from rlvr_jax.models.config import ModelConfig, RopeScaling


@dataclasses.dataclass(frozen=True)
class Rope:
    """Rotary tables of the tokens at hand, for the global and the local (sliding) layers."""

    cos: tuple[jax.Array, jax.Array]  # f32 [..., 1, rotated / 2]
    sin: tuple[jax.Array, jax.Array]

    def __call__(self, x: jax.Array, layer) -> jax.Array:
        """Rotate the leading dimensions of x [..., heads, d] by halves; `layer` says how."""
        if layer.rotary is False:
            return x
        cos, sin = (pick(layer.local, table) for table in (self.cos, self.sin))
        f, size = x.astype(jnp.float32), 2 * cos.shape[-1]
        a, b = jnp.split(f[..., :size], 2, axis=-1)
        turned = [a * cos - b * sin, b * cos + a * sin, f[..., size:]]
        turned = jnp.concatenate(turned, axis=-1).astype(x.dtype)
        return turned if layer.rotary is True else jnp.where(layer.rotary, turned, x)


def pick(local, pair):
    """pair[local], for a Python bool or a traced one."""
    if isinstance(local, bool):
        return pair[local]
    return jnp.where(local, pair[1], pair[0])


def frequencies(theta: float, size: int, scaling: RopeScaling) -> np.ndarray:
    """Radians a token, float64 [size / 2]: theta^(-2i/size), stretched.

    llama3 (Llama 3.1): with turns = original_context * frequency / 2 pi, frequencies of fewer
    than low_freq_factor turns are divided by `factor`, those of more than high_freq_factor stay,
    and the ones between are interpolated.  longrope (Ding et al. 2024, arXiv 2402.13753): each
    is divided by its own number.  yarn: `_yarn`.
    """
    plain = theta ** -(np.arange(0, size, 2, dtype=np.float64) / size)
    if scaling.kind == "linear":
        return plain / scaling.factor
    if scaling.kind == "longrope":
        return plain / np.array(scaling.long_factor if scaling.long else scaling.short_factor)
    if scaling.kind == "llama3":
        low, high = scaling.low_freq_factor, scaling.high_freq_factor
        turns = scaling.original_context * plain / (2 * np.pi)
        share = np.clip((turns - low) / (high - low), 0.0, 1.0)
        return share * plain + (1 - share) * plain / scaling.factor
    return _yarn(plain, theta, size, scaling) if scaling.kind == "yarn" else plain


def _yarn(plain: np.ndarray, theta: float, size: int, scaling: RopeScaling) -> np.ndarray:
    """YaRN (Peng et al. 2023, arXiv 2309.00071, section 3.2): pairs before the one that makes
    beta_fast turns in original_context stay, those after the one of beta_slow turns are divided by
    `factor`, the ones between are interpolated by their index.  Both borders are whole numbers,
    rounded outwards, as in the checkpoints trained with it."""

    def pair(turns):
        wavelength = scaling.original_context / turns
        return size * np.log(wavelength / (2 * np.pi)) / (2 * np.log(theta))

    low = max(np.floor(pair(scaling.beta_fast)), 0)
    high = min(np.ceil(pair(scaling.beta_slow)), size - 1)
    high = high if high != low else low + 0.001
    slow = np.clip((np.arange(size // 2) - low) / (high - low), 0.0, 1.0)
    return slow * plain / scaling.factor + (1 - slow) * plain


def rope_tables(config: ModelConfig, positions: jax.Array) -> Rope:
    """Tables for `positions` [...] int32."""
    a, plain = config.attn, RopeScaling()
    pairs = (a.rope_theta, a.rope), (a.rope_theta_local or a.rope_theta, a.rope)
    if a.rope_theta_local:
        pairs = pairs[0], (a.rope_theta_local, plain)
    where = positions[..., None, None].astype(jnp.float32)
    angles = [where * frequencies(t, a.rotated, s).astype(np.float32) for t, s in pairs]
    scales = [s.amplitude for _, s in pairs]
    cos = tuple(jnp.cos(x) * s for x, s in zip(angles, scales, strict=True))
    return Rope(cos, tuple(jnp.sin(x) * s for x, s in zip(angles, scales, strict=True)))
