"""Log-probs, entropies and values of given tokens: the packed forward pass.

The next-token shift is `PackedRows.source`: the hidden state there predicts the target.  The head
runs over slices of the scored tokens and is recomputed in the backward pass, so no [B, T, V] array
exists in either direction.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from rlvr_jax.batch import pytree
from rlvr_jax.models import transformer as tf
from rlvr_jax.models.config import ModelConfig
from rlvr_jax.models.value_head import values_of
from rlvr_jax.packing import PackedRows
from rlvr_jax.sampling import SamplingConfig, logp_and_entropy, sampling_logits
from rlvr_jax.sharding import batch_shards

LOGITS_AT_ONCE = 2**25  # entries of one slice of logits on one device: 128 MiB in float32


@pytree
class Scores:
    """Column t speaks of completion token t; 0 where there is none."""

    logp_BT: jax.Array  # f32 under the sampling distribution (temperature, top-k, top-p)
    entropy_BT: jax.Array  # f32 nats, of the same distribution
    value_BT: jax.Array | None = None  # f32 critic at the state before token t; None = no head


def attention_of(model: ModelConfig, rows: PackedRows) -> tf.Attend:
    """The attention that fits the layout of the rows."""
    if rows.line is not None:
        return tf.attend_lines(model, rows.group_RS > 0, rows.position_RS, rows.line)
    return tf.attend_full(model, allowed_pairs(rows), rows.position_RS, lambda k, v: None)


def allowed_pairs(rows: PackedRows) -> jax.Array:
    """bool [R, S, S]: query q may look at key s."""
    group, segment = rows.group_RS, rows.segment_RS
    column = jnp.arange(group.shape[1])
    causal = column[:, None] >= column
    same = (group[:, :, None] == group[:, None, :]) & (group[:, None, :] > 0)
    own = (segment[:, None, :] == 0) | (segment[:, :, None] == segment[:, None, :])
    return causal & same & own


def token_logprobs(
    weight: jax.Array,
    hidden_RMD: jax.Array,
    target_RM: jax.Array,
    model: ModelConfig,
    sampling: SamplingConfig,
    *,
    entropy_grad: bool = False,
    mesh: Mesh | None = None,
) -> tuple[jax.Array, jax.Array]:
    """log p(target) and the entropy at each of R x M hidden states; both f32 [R, M].

    weight [V, D].  The entropy carries gradient only where `entropy_grad`.  Slices of columns are
    scanned so that one slice of logits holds at most LOGITS_AT_ONCE entries a device.
    """
    rows, columns, width = hidden_RMD.shape
    local_rows = max(1, rows // (1 if mesh is None else batch_shards(mesh)))
    step = max(1, LOGITS_AT_ONCE // (weight.shape[0] * local_rows))
    slices = -(-columns // step)
    step = -(-columns // slices)

    def one(hidden_RmD, target_Rm):
        z = tf.logits_of(model, weight, hidden_RmD, mesh)
        z = sampling_logits(z, sampling, keep=target_Rm)
        return logp_and_entropy(z, target_Rm, entropy_grad)

    if slices == 1:
        return one(hidden_RMD, target_RM)
    extra = slices * step - columns
    hidden = jnp.pad(hidden_RMD, ((0, 0), (0, extra), (0, 0))).reshape(rows, slices, step, width)
    target = jnp.pad(target_RM, ((0, 0), (0, extra))).reshape(rows, slices, step)
    xs = jnp.moveaxis(hidden, 1, 0), jnp.moveaxis(target, 1, 0)
    _, (logp, entropy) = jax.lax.scan(lambda c, x: (c, jax.checkpoint(one)(*x)), None, xs)
    logp, entropy = (
        jnp.moveaxis(a, 0, 1).reshape(rows, slices * step)[:, :columns] for a in (logp, entropy)
    )
    return logp, entropy


def score(
    model: ModelConfig,
    sampling: SamplingConfig,
    params,
    rows: PackedRows,
    shape: tuple[int, int],
    *,
    entropy_grad: bool = False,
    mesh: Mesh | None = None,
) -> Scores:
    """Scores [B, T] = `shape` of the completions in `rows`; values where params hold a value
    head."""
    hidden_RMD = _states(model, params, rows, mesh)
    logp_RM, entropy_RM = token_logprobs(
        tf.head_weight(params),
        hidden_RMD,
        rows.target_RM,
        model,
        sampling,
        entropy_grad=entropy_grad,
        mesh=mesh,
    )
    value_BT = None
    if "value_head" in params:
        value_BT = _unpack(rows, values_of(params["value_head"], hidden_RMD), shape)
    return Scores(
        logp_BT=_unpack(rows, logp_RM, shape),
        entropy_BT=_unpack(rows, entropy_RM, shape),
        value_BT=value_BT,
    )


def values(
    model: ModelConfig, params, rows: PackedRows, shape: tuple[int, int], mesh: Mesh | None = None
) -> jax.Array:
    """f32 [B, T] = `shape`: the value head of `params` at the state before each token."""
    hidden_RMD = _states(model, params, rows, mesh)
    return _unpack(rows, values_of(params["value_head"], hidden_RMD), shape)


def _states(model: ModelConfig, params, rows: PackedRows, mesh: Mesh | None) -> jax.Array:
    """The hidden state from which each scored token is predicted, [R, M, D]."""
    attend = attention_of(model, rows)
    hidden, _ = tf.forward(model, params, rows.tokens_RS, rows.position_RS, attend, mesh)
    return jnp.take_along_axis(hidden, rows.source_RM[..., None], axis=1)


def _unpack(rows: PackedRows, x_RM: jax.Array, shape: tuple[int, int]) -> jax.Array:
    flat = jnp.zeros(shape[0] * shape[1], jnp.float32)
    return flat.at[rows.slot_RM].set(x_RM, mode="drop").reshape(shape)
