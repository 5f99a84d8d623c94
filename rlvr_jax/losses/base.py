"""What every loss is made of: the registry, the contract, the log-ratio."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal, Protocol

import jax
import jax.numpy as jnp

from rlvr_jax.batch import LossInputs, Metrics
from rlvr_jax.masking import masked_sum
from rlvr_jax.registry import Registry

LOSSES = Registry("loss")

MAX_LOG_RATIO = 20.0
"""Log-ratios are clipped to +-this before exp; e^20 = 4.9e8 is still exact arithmetic in f32."""


class Loss(Protocol):
    """A frozen dataclass of hyper-parameters.  Calling it gives the weighted sum and its metrics.

    level "token":    the ratio belongs to a token; any aggregation and any token weight fits.
    level "sequence": one ratio a sequence, the same loss on each of its tokens; it is made for
                      aggregation seq_mean_token_mean and cannot take weights that differ by token.
    level "bandit":   like "sequence", but the ratio is the product over the tokens, so a token's
                      gradient does not shrink with the length of its sequence.
    """

    level: ClassVar[Literal["token", "sequence", "bandit"]]

    def __call__(self, x: LossInputs) -> tuple[jax.Array, Metrics]: ...


def under_mask(x: LossInputs) -> LossInputs:
    """`x` with every [B, T] number set to 0 where the mask is False.

    Done once at the entry of a loss: whatever a masked token holds (also inf and NaN) can reach
    neither the value nor, through an unselected branch, the gradient.
    """

    def clean(a):
        if a is None or getattr(a, "ndim", 0) != 2 or a.dtype == jnp.bool_:
            return a
        return jnp.where(x.mask_BT, a, jnp.zeros_like(a))

    fields = {f.name: clean(getattr(x, f.name)) for f in dataclasses.fields(x)}
    return dataclasses.replace(x, **fields)


def log_ratio(logp_BT: jax.Array, base_BT: jax.Array, mask_BT: jax.Array) -> jax.Array:
    """log pi / pi_base, 0 where masked, clipped to +-MAX_LOG_RATIO (no gradient beyond): what may
    be put under an exponential."""
    return jnp.clip(difference(logp_BT, base_BT, mask_BT), -MAX_LOG_RATIO, MAX_LOG_RATIO)


def difference(logp_BT: jax.Array, base_BT: jax.Array, mask_BT: jax.Array) -> jax.Array:
    """log pi / pi_base, at least in float32, 0 where masked, without a bound."""
    wide = jnp.promote_types(logp_BT.dtype, jnp.float32)
    return jnp.where(mask_BT, logp_BT.astype(wide) - base_BT.astype(wide), 0.0)


def weighted_sum(loss_BT: jax.Array, x: LossInputs) -> jax.Array:
    """sum_BT weight * loss over unmasked tokens: this micro-batch's share of the loss."""
    return masked_sum(x.weight_BT * loss_BT, x.mask_BT)


def token_metric(value_BT: jax.Array, mask_BT: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(sum, count) over unmasked tokens."""
    value_BT = value_BT.astype(jnp.float32)
    return masked_sum(value_BT, mask_BT), jnp.sum(mask_BT).astype(jnp.float32)


def row_metric(value_B: jax.Array, mask_BT: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(sum, count) over rows that have at least one unmasked token."""
    live_B = jnp.any(mask_BT, axis=1)
    return masked_sum(value_B.astype(jnp.float32), live_B), jnp.sum(live_B).astype(jnp.float32)


def max_metric(value_BT: jax.Array, mask_BT: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(largest value, 1) over unmasked tokens, for non-negative values and names in `_max`."""
    return jnp.max(jnp.where(mask_BT, value_BT, 0.0)), jnp.ones(())
