"""Experience: a judged rollout with everything an update needs, on the host, and its minibatches.

The order of things: log-probs of the reference and (on request) of the old policy, KL in the
reward, advantages over the whole rollout; then, minibatch by minibatch, token weights over the
whole minibatch, and only then the split into micro-batches.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from rlvr_jax.advantages import Advantage
from rlvr_jax.batch import AdvantageInputs, LossInputs
from rlvr_jax.losses import KL, Objective
from rlvr_jax.masking import nll_weights, token_weights
from rlvr_jax.packing import PackConfig, PackedRows, Sequences, pack
from rlvr_jax.rollout import Judged
from rlvr_jax.sharding import batch_shards, put_batch

Scorer = Callable[[Any, Sequences, int], np.ndarray]


@dataclasses.dataclass(frozen=True)
class AggregationConfig:
    """How token losses become one number (docs/algorithms.md)."""

    mode: str = "token_mean"
    length_limit: int = 0  # divisor of mode "const"; 0 = decode.max_new_tokens


@dataclasses.dataclass(frozen=True)
class LearnerConfig:
    """How often a rollout is learned from, and what is checked."""

    minibatches: int = 1  # optimizer updates an epoch; prompts are shuffled and split evenly
    epochs: int = 1
    old_logp: str = "sampler"  # proximal policy: what the sampler reported, or "recompute" it
    max_sampler_gap: float = 0.05  # mean |scorer - sampler log-prob| above which the run stops
    max_bad_updates: int = 5  # updates in a row with a non-finite gradient before the run stops

    def __post_init__(self):
        if self.minibatches < 1 or self.epochs < 1 or self.max_bad_updates < 1:
            raise ValueError("learner.minibatches, epochs and max_bad_updates must be at least 1")
        if self.old_logp not in ("sampler", "recompute"):
            raise ValueError(f'learner.old_logp is sampler or recompute, got "{self.old_logp}"')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Experience:
    """A judged rollout, on the host; B rows, prompt-major by `sequences.prompt_of_B`."""

    sequences: Sequences
    mask_BT: np.ndarray  # bool   trained tokens
    sampler_logp_BT: np.ndarray  # f32
    old_logp_BT: np.ndarray  # f32
    adv_BT: np.ndarray  # f32
    reward_B: np.ndarray  # f32
    correct_B: np.ndarray  # bool
    ref_logp_BT: np.ndarray | None = None  # f32

    def rows(self, index: np.ndarray) -> Experience:
        """The experience of some rows."""
        s = self.sequences
        part = {
            f.name: getattr(self, f.name)[index]
            for f in dataclasses.fields(self)
            if isinstance(getattr(self, f.name), np.ndarray)
        }
        sequences = Sequences(
            s.prompts, s.prompt_of_B[index], s.tokens_BT[index], s.length_B[index]
        )
        return dataclasses.replace(self, sequences=sequences, **part)


def make_experience(
    judged: Judged,
    mask_BT: np.ndarray,
    advantage: Advantage,
    kl: KL,
    old_logp: Callable[[Sequences, int], np.ndarray] | None = None,
    ref_logp: Callable[[Sequences, int], np.ndarray] | None = None,
) -> tuple[Experience, dict[str, float]]:
    """Experience of a judged rollout, and adv/* metrics.

    old_logp, ref_logp: score the sequences under the parameters at the start of the update phase
    and under the reference; None = the sampler's own log-probs, and no reference.
    """
    sequences, width = judged.sequences(), mask_BT.shape[1]
    pad = width - judged.samples.logp_BT.shape[1]
    sampler_BT = np.pad(judged.samples.logp_BT, ((0, 0), (0, pad)))
    tokens_BT = np.pad(judged.samples.tokens_BT, ((0, 0), (0, pad)))
    sequences = dataclasses.replace(sequences, tokens_BT=tokens_BT)
    old_BT = sampler_BT if old_logp is None else old_logp(sequences, width)
    ref_BT = None if ref_logp is None else ref_logp(sequences, width)
    kl_BT = None
    if kl.place == "reward":
        kl_BT = np.asarray(kl.reward_BT(old_BT, ref_BT, mask_BT))
    adv_BT = np.asarray(
        advantage(
            AdvantageInputs(
                reward_NG=jax.numpy.asarray(judged.reward_NG),
                valid_NG=jax.numpy.asarray(judged.valid_NG),
                mask_BT=jax.numpy.asarray(mask_BT),
                correct_NG=jax.numpy.asarray(judged.correct_NG),
                kl_BT=None if kl_BT is None else jax.numpy.asarray(kl_BT),
            )
        )
    )
    experience = Experience(
        sequences=sequences,
        mask_BT=mask_BT,
        sampler_logp_BT=sampler_BT,
        old_logp_BT=old_BT,
        adv_BT=adv_BT,
        reward_B=judged.reward_NG.reshape(-1),
        correct_B=judged.correct_NG.reshape(-1),
        ref_logp_BT=ref_BT,
    )
    return experience, _advantage_metrics(adv_BT, mask_BT)


def _advantage_metrics(adv_BT: np.ndarray, mask_BT: np.ndarray) -> dict[str, float]:
    adv = adv_BT[mask_BT] if mask_BT.any() else np.zeros(1)
    return {
        "adv/mean": float(adv.mean()),
        "adv/std": float(adv.std()),
        "adv/min": float(adv.min()),
        "adv/max": float(adv.max()),
        "data/tokens": int(mask_BT.sum()),
    }


def minibatches(
    experience: Experience, config: LearnerConfig, address: tuple[int, int]
) -> Iterator[Experience]:
    """config.epochs passes over the prompts, each shuffled and cut into config.minibatches.

    Whole groups stay together.  The order depends on `address` = (seed, step) alone.
    """
    prompt_of_B = experience.sequences.prompt_of_B
    prompts = np.unique(prompt_of_B)
    for epoch in range(config.epochs):
        if config.minibatches == 1:
            yield experience
            continue
        rng = np.random.Generator(np.random.Philox(np.random.SeedSequence([*address, epoch])))
        order = rng.permutation(prompts)
        for part in np.array_split(order, min(config.minibatches, len(order))):
            yield experience.rows(np.flatnonzero(np.isin(prompt_of_B, part)))


def micro_batches(
    experience: Experience,
    aggregation: AggregationConfig,
    pack_config: PackConfig,
    mesh: Mesh,
    objective: Objective,
) -> Iterable[tuple[PackedRows, LossInputs]]:
    """Device micro-batches of one minibatch, token weights taken over the whole of it."""
    e, s = experience, experience.sequences
    groups, group_B = np.unique(s.prompt_of_B, return_inverse=True)
    weight_BT = token_weights(
        e.mask_BT,
        aggregation.mode,
        group_B=group_B,
        num_groups=len(groups),
        length_limit=aggregation.length_limit or None,
    )
    arrays = {
        "logp_BT": np.zeros_like(e.old_logp_BT),
        "entropy_BT": np.zeros_like(e.old_logp_BT),
        "old_logp_BT": e.old_logp_BT,
        "adv_BT": e.adv_BT,
        "mask_BT": e.mask_BT,
        "weight_BT": weight_BT,
        "sampler_logp_BT": e.sampler_logp_BT,
        "reward_B": e.reward_B,
        "correct_B": e.correct_B,
    }
    if e.ref_logp_BT is not None:
        arrays["ref_logp_BT"] = e.ref_logp_BT
    if objective.nll_coef:
        arrays["nll_weight_BT"] = nll_weights(e.mask_BT, e.correct_B)
    if objective.top_entropy < 1:
        raise ValueError("objective.top_entropy ranks tokens by entropies that are not recorded")
    whole = objective.prepare(LossInputs(**arrays))
    if whole.picked_BT is not None:
        arrays["picked_BT"] = np.asarray(whole.picked_BT)
    for rows, index in pack(s, pack_config, e.mask_BT.shape[1], batch_shards(mesh)):
        used = index >= 0
        taken = {name: _take(a, index, used) for name, a in arrays.items()}
        yield put_batch((rows, LossInputs(**taken)), mesh)


def _take(array: np.ndarray, index: np.ndarray, used: np.ndarray) -> np.ndarray:
    """Rows of `array`; zeros (False) where unused."""
    out = array[np.maximum(index, 0)]
    return np.where(used.reshape(-1, *[1] * (out.ndim - 1)), out, np.zeros_like(out))
