"""Batch types: what the device functions hand to each other.  Frozen, registered as pytrees.

Column t of every [B, T] array speaks of completion token t.  Masks travel with the batch and are
never inferred from a pad id.
"""

from __future__ import annotations

import dataclasses

import jax


def pytree(cls: type) -> type:
    """Frozen keyword-only dataclass registered with jax; every field is data."""
    return jax.tree_util.register_dataclass(dataclasses.dataclass(frozen=True, kw_only=True)(cls))


@pytree
class LossInputs:
    """What a policy loss may look at.

    `weight_BT` is the aggregator (masking.token_weights): the share of each token in the whole
    minibatch, computed before it is split into micro-batches or over devices.  A loss is therefore
    a plain weighted sum, and K micro-batches add up to exactly one batch.
    """

    logp_BT: jax.Array  # f32   current policy; with entropy_BT the only field that carries gradient
    old_logp_BT: jax.Array  # f32   policy at the start of the update phase (proximal policy)
    adv_BT: jax.Array  # f32   constant
    mask_BT: jax.Array  # bool  True where the token is trained on (end token included)
    weight_BT: jax.Array  # f32   aggregation weight, 0 where masked
    entropy_BT: jax.Array  # f32   entropy of the sampling distribution at each token
    ref_logp_BT: jax.Array | None = None  # f32   frozen reference; None = not loaded
    sampler_logp_BT: jax.Array | None = None  # f32   what the sampler reported; None = same as old
    reward_B: jax.Array | None = None  # f32   scalar reward of each sequence
    correct_B: jax.Array | None = None  # bool  the verifier accepted the answer
    nll_weight_BT: jax.Array | None = None  # f32   1 / (tokens of accepted answers) on those tokens
    picked_BT: jax.Array | None = None  # bool  tokens a covariance loss chose (Objective.prepare)
    keep_BT: jax.Array | None = None  # bool  tokens of high entropy (Objective.prepare)


@pytree
class ValueInputs:
    """What the critic's loss looks at."""

    value_BT: jax.Array  # f32   current critic, at the state before token t; carries gradient
    old_value_BT: jax.Array  # f32   the critic when the rollout was made
    return_BT: jax.Array  # f32   target, from the advantage estimator
    mask_BT: jax.Array  # bool  True where the token is trained on
    weight_BT: jax.Array  # f32   aggregation weight, 0 where masked


@pytree
class AdvantageInputs:
    """What an advantage estimator may look at.  B = N * G rows, prompt-major."""

    reward_NG: jax.Array  # f32   scalar reward of each sample, penalties included
    valid_NG: jax.Array  # bool  False: could not be judged; leaves mean, std and counts
    mask_BT: jax.Array  # bool  trained tokens; a row of an invalid sample is all False
    kl_BT: jax.Array | None = (
        None  # f32   beta * KL estimate per token when KL is placed in the reward
    )
    value_BT: jax.Array | None = None  # f32   critic, at the state before token t
    greedy_reward_N: jax.Array | None = None  # f32   reward of the greedy completion (ReMax)
    correct_NG: jax.Array | None = None  # bool  the verifier accepted the answer
    step_reward_BT: jax.Array | None = None  # f32   process rewards at the last token of each step
    step_end_BT: jax.Array | None = None  # bool  True at the last token of each step
    reward_parts_CNG: jax.Array | None = None  # f32   C separate reward components
    length_NG: jax.Array | None = None  # int   sampled tokens; None = those of mask_BT
    running_baseline: jax.Array | None = None  # f32 scalar   average reward of earlier steps


Metrics = dict[str, tuple[jax.Array, jax.Array]]
"""name -> (sum, count); divided once, after micro-batches and devices have been added up."""
