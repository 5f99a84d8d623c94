"""Sums under a mask, statistics of groups, and the aggregators that turn token losses into one.

A loss is `sum_BT weight * token_loss`.  The weight of each token is decided here, once, on the
whole minibatch; after that micro-batches and devices only add, so K micro-batches give exactly the
gradient of one batch.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from rlvr_jax.registry import nearest

AGGREGATIONS = (
    "seq_mean_token_mean",
    "token_mean",
    "prompt_token_mean",
    "seq_mean_token_sum",
    "const",
)


def check_aggregation(mode: str, length_limit: int | None = None) -> None:
    """ValueError if `mode` is unknown, or if `length_limit` does not fit it."""
    if mode not in AGGREGATIONS:
        raise ValueError(
            f'no aggregation "{mode}"{nearest(mode, list(AGGREGATIONS))} '
            f"(there are: {', '.join(AGGREGATIONS)})"
        )
    if mode == "const" and (length_limit is None or length_limit <= 0):
        raise ValueError(
            f'aggregation "const" divides by a length limit fixed for the whole run; '
            f"length_limit is {length_limit}, it must be a positive number of tokens"
        )


def token_weights(
    mask_BT,
    mode: str,
    *,
    group_B=None,
    num_groups: int | None = None,
    length_limit: int | None = None,
):
    """The weight of each token in the loss of this minibatch; 0 where masked.  f32 [B, T].

    With |o_i| the number of unmasked tokens of row i and N the number of rows that have any:

        seq_mean_token_mean  1 / (N |o_i|)               GRPO, GSPO, SAPO
        token_mean           1 / sum_i |o_i|             DAPO (code), CISPO, GPG
        prompt_token_mean    1 / (P sum_{i in p} |o_i|)  DAPO (equation), ScaleRL; P live prompts
        seq_mean_token_sum   1 / N                       REINFORCE, RLOO
        const                1 / (N length_limit)        Dr. GRPO

    mask_BT: bool, numpy or jax (also traced); the answer is of the same kind.
    group_B: int, the prompt of each row in [0, num_groups), for prompt_token_mean only;
    num_groups must be given when group_B is traced.
    """
    check_aggregation(mode, length_limit)
    if np.dtype(mask_BT.dtype) != np.bool_:
        raise ValueError(f"mask_BT must be bool, it is {mask_BT.dtype}")
    xp = jnp if isinstance(mask_BT, jax.Array) else np
    length_B = xp.sum(mask_BT, axis=1)
    rows = xp.maximum(xp.sum(length_B > 0), 1).astype(np.float32)  # products outgrow int32
    if mode == "token_mean":
        inverse_B = xp.maximum(xp.sum(length_B), 1) + 0 * length_B
    elif mode == "prompt_token_mean":
        inverse_B = _prompt_normaliser(xp, length_B, group_B, num_groups)
    elif mode == "seq_mean_token_mean":
        inverse_B = rows * xp.maximum(length_B, 1)
    else:
        inverse_B = rows * (length_limit if mode == "const" else 1) + 0 * length_B
    weight_B1 = (1.0 / inverse_B).astype(np.float32)[:, None]
    return xp.where(mask_BT, weight_B1, xp.zeros_like(weight_B1))


def _prompt_normaliser(xp, length_B, group_B, num_groups: int | None):
    if group_B is None:
        raise ValueError('aggregation "prompt_token_mean" needs group_B, the prompt of each row')
    if num_groups is None:
        if isinstance(group_B, jax.core.Tracer):
            raise ValueError("num_groups must be given when group_B is traced")
        num_groups = int(np.max(group_B)) + 1
    member_BN = xp.asarray(group_B)[:, None] == xp.arange(num_groups)
    tokens_N = xp.sum(xp.where(member_BN, length_B[:, None], 0), axis=0)
    prompts = xp.maximum(xp.sum(tokens_N > 0), 1).astype(np.float32)
    return prompts * xp.maximum(tokens_N[xp.asarray(group_B)], 1)


def nll_weights(mask_BT, correct_B):
    """1 / (number of tokens of accepted answers) on those tokens, 0 elsewhere.  f32 [B, T].

    The normaliser of the positive-example likelihood term of VAPO (arXiv 2504.05118).
    """
    xp = jnp if isinstance(mask_BT, jax.Array) else np
    chosen_BT = mask_BT & xp.asarray(correct_B)[:, None]
    share = 1.0 / xp.maximum(xp.sum(chosen_BT), 1)
    return xp.where(chosen_BT, share, 0.0).astype(np.float32)


# Sums and moments under a mask.  Selection, never multiplication: 0 * inf is NaN.


def masked_sum(x: jax.Array, mask: jax.Array, axis=None, keepdims: bool = False) -> jax.Array:
    """sum of x where mask is True; 0 for an empty selection."""
    return jnp.sum(jnp.where(mask, x, jnp.zeros_like(x)), axis=axis, keepdims=keepdims)


def masked_count(mask: jax.Array, axis=None, keepdims: bool = False) -> jax.Array:
    """Number of True entries as f32, at least 1."""
    return jnp.maximum(jnp.sum(mask, axis=axis, keepdims=keepdims), 1).astype(jnp.float32)


def masked_mean(x: jax.Array, mask: jax.Array, axis=None, keepdims: bool = False) -> jax.Array:
    """mean of x where mask is True; 0 for an empty selection."""
    return masked_sum(x, mask, axis, keepdims) / masked_count(mask, axis, keepdims)


def masked_std(
    x: jax.Array, mask: jax.Array, axis=None, *, ddof: int = 0, keepdims: bool = False
) -> jax.Array:
    """Standard deviation where mask is True, divisor max(n - ddof, 1); 0 if n <= 1."""
    centred = x - masked_mean(x, mask, axis, keepdims=True)
    squares = masked_sum(centred * centred, mask, axis, keepdims)
    divisor = jnp.maximum(jnp.sum(mask, axis=axis, keepdims=keepdims) - ddof, 1)
    return jnp.sqrt(squares / divisor)


def unanimous(x: jax.Array, mask: jax.Array, axis=None, *, tol: float) -> jax.Array:
    """True where the selected values are equal: max - min <= tol * max(1, max |x|).

    Decided by the range and not by the standard deviation: rewards that are equal up to rounding
    have a tiny positive deviation, and dividing by it makes noise look like signal.  Keeps dims.
    An empty or one-element selection is unanimous.
    """
    high = jnp.max(jnp.where(mask, x, -jnp.inf), axis=axis, keepdims=True)
    low = jnp.min(jnp.where(mask, x, jnp.inf), axis=axis, keepdims=True)
    size = jnp.max(jnp.where(mask, jnp.abs(x), 0.0), axis=axis, keepdims=True)
    return high - low <= tol * jnp.maximum(size, 1.0)  # NaN is no agreement


def per_token(x_B: jax.Array, mask_BT: jax.Array) -> jax.Array:
    """One value a row, on each unmasked token of the row; 0 elsewhere.  [B] or [N, G] -> [B, T]."""
    x_B1 = x_B.reshape(mask_BT.shape[0], 1)
    return jnp.where(mask_BT, x_B1, jnp.zeros_like(x_B1))
