"""Experience: a judged rollout with everything an update needs, on the host, and its minibatches.

The order of things: log-probs of the reference and (on request) of the old policy, KL in the
reward, advantages over the whole rollout; then, minibatch by minibatch, token weights over the
whole minibatch, and only then the split into micro-batches.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

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
    entropy_BT: np.ndarray | None = None  # f32   of the old policy, where something ranks by it
    value_BT: np.ndarray | None = None  # f32   of the critic when the rollout was made
    return_BT: np.ndarray | None = None  # f32   the critic's targets
    next_baseline: float | None = None  # of advantage running_mean

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


Score = Callable[[Sequences, int], Any]  # sequences, width -> arrays [B, width]


@dataclasses.dataclass(frozen=True)
class Extras:
    """What only some methods look at."""

    rescore: Score | None = None  # (log-probs, entropies) of the policy before its updates
    value: Score | None = None  # the critic
    greedy_reward_N: np.ndarray | None = None  # f32, NaN where it could not be judged (ReMax)
    baseline: float | None = None  # average reward of earlier steps
    kl_coef: float | None = None  # in place of kl.coef, under adaptive control


def make_experience(
    judged: Judged,
    mask_BT: np.ndarray,
    advantage: Advantage,
    kl: KL,
    old_logp: Score | None = None,
    ref_logp: Score | None = None,
    extras: Extras = Extras(),  # noqa: B008 (frozen)
) -> tuple[Experience, dict[str, float]]:
    """Experience of a judged rollout, and adv/* metrics.

    old_logp, ref_logp: score the sequences under the parameters at the start of the update phase
    and under the reference; None = the sampler's own log-probs, and no reference.  Prompts whose
    greedy completion could not be judged are masked, like samples that could not be.
    """
    sequences, width = judged.sequences(), mask_BT.shape[1]
    pad = width - judged.samples.logp_BT.shape[1]
    sampler_BT = np.pad(judged.samples.logp_BT, ((0, 0), (0, pad)))
    tokens_BT = np.pad(judged.samples.tokens_BT, ((0, 0), (0, pad)))
    sequences = dataclasses.replace(sequences, tokens_BT=tokens_BT)
    if extras.greedy_reward_N is not None:
        known_B = np.repeat(np.isfinite(extras.greedy_reward_N), judged.group)
        mask_BT = mask_BT & known_B[:, None]
    entropy_BT = None
    if extras.rescore is not None:
        logp_BT, entropy_BT = extras.rescore(sequences, width)
    if old_logp is None:
        old_BT = sampler_BT
    else:
        old_BT = old_logp(sequences, width) if entropy_BT is None else logp_BT
    e = Experience(
        sequences=sequences,
        mask_BT=mask_BT,
        sampler_logp_BT=sampler_BT,
        old_logp_BT=old_BT,
        adv_BT=np.zeros_like(old_BT),
        reward_B=judged.reward_NG.reshape(-1),
        correct_B=judged.correct_NG.reshape(-1),
        ref_logp_BT=None if ref_logp is None else ref_logp(sequences, width),
        entropy_BT=entropy_BT,
        value_BT=None if extras.value is None else extras.value(sequences, width),
    )
    e = _with_advantages(e, advantage, _advantage_inputs(judged, e, advantage, kl, extras))
    return e, _advantage_metrics(e.adv_BT, e.mask_BT)


def _advantage_inputs(
    judged: Judged, e: Experience, advantage: Advantage, kl: KL, extras: Extras
) -> AdvantageInputs:
    """What the estimator may look at, on the device."""
    arrays = {
        "reward_NG": judged.reward_NG,
        "valid_NG": judged.valid_NG,
        "mask_BT": e.mask_BT,
        "correct_NG": judged.correct_NG,
        "value_BT": e.value_BT,
        "length_NG": judged.samples.drawn_BT.sum(1).reshape(-1, judged.group),
    }
    if kl.place == "reward":
        arrays["kl_BT"] = kl.reward_BT(e.old_logp_BT, e.ref_logp_BT, e.mask_BT, extras.kl_coef)
    if "reward_parts_CNG" in advantage.needs:
        arrays["reward_parts_CNG"] = judged.parts_CNG(advantage.parts)
    if extras.greedy_reward_N is not None:
        arrays["greedy_reward_N"] = np.nan_to_num(extras.greedy_reward_N)
    if extras.baseline is not None:
        arrays["running_baseline"] = np.float32(extras.baseline)
    given = {name: jax.numpy.asarray(a) for name, a in arrays.items() if a is not None}
    return AdvantageInputs(**given)


def _with_advantages(e: Experience, advantage: Advantage, x: AdvantageInputs) -> Experience:
    """The experience with advantages, and with what the estimator leaves for others: targets of a
    critic, the next baseline."""
    more = {"adv_BT": np.asarray(advantage(x))}
    if e.value_BT is not None:
        more["return_BT"] = np.asarray(advantage.returns(x))
    if "running_baseline" in advantage.needs:
        more["next_baseline"] = float(advantage.update(x))
    return dataclasses.replace(e, **more)


def _advantage_metrics(adv_BT: np.ndarray, mask_BT: np.ndarray) -> dict[str, float]:
    adv = adv_BT[mask_BT] if mask_BT.any() else np.zeros(1)
    return {
        "adv/mean": float(adv.mean()),
        "adv/std": float(adv.std()),
        "adv/min": float(adv.min()),
        "adv/max": float(adv.max()),
        "data/tokens": int(mask_BT.sum()),
    }


class Passes(Protocol):
    """How often an experience is learned from: LearnerConfig, and a critic's own."""

    epochs: int
    minibatches: int


def minibatches(
    experience: Experience, config: Passes, address: tuple[int, ...]
) -> Iterator[Experience]:
    """config.epochs passes over the prompts, each shuffled and cut into config.minibatches.

    Whole groups stay together.  The order depends on `address`, (seed, step) and perhaps more,
    alone.
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
    if e.entropy_BT is not None:
        arrays["entropy_BT"] = e.entropy_BT
    if objective.nll_coef:
        arrays["nll_weight_BT"] = nll_weights(e.mask_BT, e.correct_B)
    if objective.top_entropy < 1 and e.entropy_BT is None:
        raise ValueError("objective.top_entropy ranks tokens by entropies that were not scored")
    whole = objective.prepare(LossInputs(**arrays))
    for name in ("picked_BT", "keep_BT"):
        if getattr(whole, name) is not None:
            arrays[name] = np.asarray(getattr(whole, name))
    for rows, index in pack(s, pack_config, e.mask_BT.shape[1], batch_shards(mesh)):
        yield put_batch((rows, LossInputs(**take_rows(arrays, index))), mesh)


def take_rows(arrays: Mapping[str, np.ndarray], index: np.ndarray) -> dict[str, np.ndarray]:
    """Rows `index` of every array; zeros (False) where the index is -1."""

    def one(array):
        out = array[np.maximum(index, 0)]
        used = (index >= 0).reshape(-1, *[1] * (out.ndim - 1))
        return np.where(used, out, np.zeros_like(out))

    return {name: one(a) for name, a in arrays.items()}
