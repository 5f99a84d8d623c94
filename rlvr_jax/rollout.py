"""Problems in, judged completions out.  The one place where strings and arrays meet.

`Actor.roll` is used by training and by evaluation, so the two cannot drift apart.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from rlvr_jax.generate import Address, DecodeConfig, Sampler
from rlvr_jax.log import Clock, sample_row
from rlvr_jax.packing import Sequences
from rlvr_jax.registry import nearest
from rlvr_jax.slots import Samples, bucket
from rlvr_jax.text import PromptFormat, decode, encode_prompt
from rlvr_jax.types import Completion, Problem, Verdict

TRAIN, EVAL, CHECK, TALK = 0, 1, 2, 3  # streams of randomness (generate.Address)


@dataclasses.dataclass(frozen=True)
class RolloutConfig:
    """What one training step samples."""

    prompts: int = 32
    group: int = 8  # completions of each prompt
    dynamic_sampling: bool = False  # keep only groups whose rewards differ; draw more prompts
    drop_unanimous: bool = False  # keep only groups whose rewards differ; draw no more
    max_refills: int = 3  # extra rollouts a step may take to fill the batch
    mask_truncated: bool = False  # overlong filtering: cut-off completions are not trained on
    limits: tuple[int, ...] = ()  # staged response length: token limit of each stage, and
    limit_steps: tuple[int, ...] = ()  # the steps after which the second, third, ... stage begins
    verify_workers: int = 2  # processes for rewards that run in workers

    def __post_init__(self):
        for name in ("prompts", "group", "verify_workers"):
            if getattr(self, name) < 1:
                raise ValueError(f"rollout.{name} must be at least 1, got {getattr(self, name)}")
        if self.max_refills < 1:
            raise ValueError(
                f"rollout.max_refills must be at least 1, got {self.max_refills}; to draw no more, "
                "set drop_unanimous in place of dynamic_sampling"
            )
        if (self.dynamic_sampling or self.drop_unanimous) and self.group < 2:
            raise ValueError(
                "rollout.dynamic_sampling and drop_unanimous need rollout.group >= 2 to see a "
                "difference"
            )
        if self.dynamic_sampling and self.drop_unanimous:
            raise ValueError(
                "rollout.drop_unanimous has no effect: dynamic_sampling drops them and refills"
            )
        increasing = list(self.limit_steps) == sorted(set(self.limit_steps))
        if len(self.limit_steps) != max(0, len(self.limits) - 1) or not increasing:
            raise ValueError(
                "rollout.limit_steps must rise and hold one step less than rollout.limits has "
                f"stages; got {self.limits} and {self.limit_steps}"
            )
        if any(limit < 1 for limit in self.limits):
            raise ValueError(f"rollout.limits must be at least 1, got {self.limits}")

    def limit_at(self, step: int) -> int | None:
        """Most tokens of a completion in this step (counted from 1); None = the decoder's limit."""
        if not self.limits:
            return None
        return self.limits[sum(step > begin for begin in self.limit_steps)]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Judged:
    """Completions with verdicts; B = N * group rows, prompt-major."""

    problems: list[Problem]  # N
    prompts: list[list[int]]  # N, token ids
    group: int
    samples: Samples
    completions: list[Completion]  # B
    verdicts: list[Verdict]  # B

    @property
    def reward_NG(self) -> np.ndarray:
        """float32; 0 where the verifier could not tell (see valid_NG)."""
        return np.array([v.score for v in self.verdicts], np.float32).reshape(-1, self.group)

    @property
    def valid_NG(self) -> np.ndarray:
        """bool: the verifier reached a verdict."""
        flat = np.array([v.status != "unknown" for v in self.verdicts])
        return flat.reshape(-1, self.group)

    @property
    def correct_NG(self) -> np.ndarray:
        return np.array([v.correct for v in self.verdicts]).reshape(-1, self.group)

    @property
    def accurate_NG(self) -> np.ndarray:
        return np.array([v.accurate for v in self.verdicts]).reshape(-1, self.group)

    def parts_CNG(self, names: Sequence[str]) -> np.ndarray:
        """float32: those parts of the verdicts, 0 where it could not be judged.  ValueError for a
        part that a verdict lacks, and for "accuracy": that one is for evaluations alone, a control
        hides it from training."""
        known = sorted({name for v in self.verdicts for name in v.parts} - {"accuracy"})
        rows = []
        for name in names:
            if name == "accuracy" or any(
                name not in v.parts for v in self.verdicts if v.status != "unknown"
            ):
                raise ValueError(
                    f'advantage.parts: not every verdict has a part "{name}"{nearest(name, known)} '
                    f"(there are: {', '.join(known) or 'none'})"
                )
            rows.append([v.parts.get(name, 0.0) for v in self.verdicts])
        return np.array(rows, np.float32).reshape(len(rows), -1, self.group)

    def take(self, groups: Sequence[int]) -> Judged:
        """Some of the groups."""
        g = self.group
        rows = [n * g + i for n in groups for i in range(g)]
        s = self.samples
        part = {
            f.name: getattr(s, f.name)[rows]
            for f in dataclasses.fields(s)
            if isinstance(getattr(s, f.name), np.ndarray)
        }
        return Judged(
            problems=[self.problems[n] for n in groups],
            prompts=[self.prompts[n] for n in groups],
            group=g,
            samples=dataclasses.replace(s, **part),
            completions=[self.completions[b] for b in rows],
            verdicts=[self.verdicts[b] for b in rows],
        )

    def sequences(self) -> Sequences:
        """What the scorer needs."""
        prompt_of_B = np.repeat(np.arange(len(self.prompts)), self.group)
        s = self.samples
        return Sequences(self.prompts, prompt_of_B, s.tokens_BT, s.length_B)

    def rows(self, split: str, count: int) -> list[dict[str, Any]]:
        """Rows for samples.jsonl: the first completion of the first `count` problems."""
        return [
            sample_row(
                p, self.completions[n * self.group], self.verdicts[n * self.group], split=split
            )
            for n, p in enumerate(self.problems[:count])
        ]


def join(parts: Sequence[Judged]) -> Judged:
    """Several rollouts as one; completions are padded to the longest."""
    width = max(p.samples.tokens_BT.shape[1] for p in parts)

    def stack(name: str) -> np.ndarray:
        arrays = [getattr(p.samples, name) for p in parts]
        if arrays[0].ndim == 2:
            arrays = [np.pad(a, ((0, 0), (0, width - a.shape[1]))) for a in arrays]
        return np.concatenate(arrays)

    names = ("tokens_BT", "logp_BT", "forced_BT", "length_B", "eos_B")
    return Judged(
        problems=[x for p in parts for x in p.problems],
        prompts=[x for p in parts for x in p.prompts],
        group=parts[0].group,
        samples=Samples(
            **{name: stack(name) for name in names},
            decode_steps=sum(p.samples.decode_steps for p in parts),
            decode_rows=sum(p.samples.decode_rows for p in parts),
        ),
        completions=[x for p in parts for x in p.completions],
        verdicts=[x for p in parts for x in p.verdicts],
    )


@dataclasses.dataclass(frozen=True)
class Actor:
    """A sampler with the text and the checker around it."""

    sampler: Sampler
    tokenizer: Any
    format: PromptFormat
    stop_ids: tuple[int, ...]
    grader: Any  # rewards.make_grader
    decode: DecodeConfig
    clock: Clock
    limit: int | None = None  # most tokens of a completion, below decode.max_new_tokens

    def encode(self, problem: Problem) -> list[int]:
        """Prompt ids; ValueError where they exceed the limit."""
        ids = encode_prompt(self.tokenizer, problem, self.format)
        if len(ids) > self.decode.max_prompt_tokens:
            raise ValueError(
                f"problem {problem.index} has a prompt of {len(ids)} tokens; "
                f"decode.max_prompt_tokens allows {self.decode.max_prompt_tokens}"
            )
        return ids

    def roll(
        self, params, problems: Sequence[Problem], uids: Sequence[int], group: int, address: Address
    ) -> Judged:
        """Sample `group` completions of each problem and judge them."""
        prompts = [self.encode(p) for p in problems]
        with self.clock("generate"):
            given = {} if self.limit is None else {"limit": self.limit}
            s = self.sampler(params, prompts, uids, group, address, **given)
        completions = [self._completion(s, b) for b in range(len(s.length_B))]
        repeated = [p for p in problems for _ in range(group)]
        with self.clock("verify"):
            verdicts = self.grader.grade(completions, repeated)
        return Judged(
            problems=list(problems),
            prompts=prompts,
            group=group,
            samples=s,
            completions=completions,
            verdicts=verdicts,
        )

    def _completion(self, s: Samples, b: int) -> Completion:
        ids = tuple(map(int, s.tokens_BT[b, : s.length_B[b]]))
        return Completion(
            text=decode(self.tokenizer, ids, self.stop_ids),
            token_ids=ids,
            num_tokens=len(ids),
            stop_reason="eos" if s.eos_B[b] else "length",
            interrupted_at=int(s.forced_BT[b].argmax()) if s.forced_BT[b].any() else None,
        )


def informative(judged: Judged, tol: float = 1e-6) -> np.ndarray:
    """bool [N]: the judged rewards of the group differ (decided by max - min, whole groups
    only)."""
    r, valid = judged.reward_NG, judged.valid_NG
    high = np.where(valid, r, -np.inf).max(1)
    low = np.where(valid, r, np.inf).min(1)
    return (valid.sum(1) > 1) & (high - low > tol * np.maximum(1.0, np.abs(r).max(1)))


MAX_SKIPS = 1000  # positions in a row that may be skipped; then the next is taken as it comes


class Chooser(Protocol):
    """Which prompts to sample, and what came of them (curriculum.Curriculum)."""

    def admits(self, position: int, problem: Problem) -> bool: ...

    def remember(self, judged: Judged) -> None: ...


def _take(problem_at, cursor: int, count: int, chooser: Chooser | None):
    """The next `count` admitted positions: (positions, problems, new cursor)."""
    positions, problems, skipped = [], [], 0
    while len(positions) < count:
        problem = problem_at(cursor)
        if chooser is None or skipped >= MAX_SKIPS or chooser.admits(cursor, problem):
            positions.append(cursor)
            problems.append(problem)
            skipped = 0
        else:
            skipped += 1
        cursor += 1
    return positions, problems, cursor


def collect(
    actor: Actor,
    params,
    problem_at: Callable[[int], Problem],
    cursor: int,
    config: RolloutConfig,
    address: Address,
    chooser: Chooser | None = None,
) -> tuple[Judged, int, dict[str, float]]:
    """The rollout of one step: (judged groups, new cursor, metrics).

    problem_at: position in the training stream -> problem; `cursor` is the next position, and a
    position is also the uid under which the prompt's samples are drawn.  Positions that the
    chooser refuses are skipped.  With dynamic sampling, groups without a difference in reward are
    dropped and further prompts drawn until the batch is full or max_refills is reached; the batch
    is then what was found, at least one group.  drop_unanimous drops them and draws no more.
    """
    start, kept, seen, refills = cursor, [], [], 0
    selective = config.dynamic_sampling or config.drop_unanimous
    while True:
        positions, problems, cursor = _take(problem_at, cursor, config.prompts, chooser)
        judged = actor.roll(params, problems, positions, config.group, address)
        seen.append(judged)
        if chooser is not None:
            chooser.remember(judged)
        useful = np.flatnonzero(informative(judged)) if selective else range(len(problems))
        missing = config.prompts - sum(len(k.problems) for k in kept)
        if len(useful):
            kept.append(judged.take(list(useful)[:missing]))
        full = sum(len(k.problems) for k in kept) == config.prompts
        if full or not config.dynamic_sampling or refills == config.max_refills:
            break
        refills += 1
    everything = join(seen)
    batch = join(kept) if kept else seen[-1].take([0])
    metrics = rollout_metrics(everything) | {
        "data/refills": refills,
        "data/dropped": len(everything.problems) - len(batch.problems),
        "data/skipped": cursor - start - len(everything.problems),
        "data/prompts": len(batch.problems),
        "data/sampled_tokens": int(everything.samples.length_B.sum()),
        "data/unique_prompts": len({str(p.prompt) for p in batch.problems}),
    }
    return batch, cursor, metrics


def trained_mask(judged: Judged, config: RolloutConfig) -> np.ndarray:
    """bool [B, T]: tokens that the policy drew in judged rows; cut-off rows only where the config
    trains them."""
    s = judged.samples
    drawn_BT, width = s.drawn_BT, bucket(s.tokens_BT.shape[1], 8)
    keep_B = judged.valid_NG.reshape(-1)
    if config.mask_truncated:
        keep_B = keep_B & s.eos_B
    drawn_BT = np.pad(drawn_BT, ((0, 0), (0, width - drawn_BT.shape[1])))
    return drawn_BT & keep_B[:, None]


def rollout_metrics(judged: Judged) -> dict[str, float]:
    """reward/*, group/*, len/*, verifier/* of everything that was sampled (docs/metrics.md)."""
    r, valid, s = judged.reward_NG, judged.valid_NG, judged.samples
    some = np.where(valid.any(1))[0]
    groups = [r[n][valid[n]] for n in some]
    right = judged.correct_NG
    length, flat = s.length_B, right.reshape(-1)
    ok = valid.reshape(-1)
    scores = r[valid] if valid.any() else np.zeros(1, np.float32)
    metrics = {
        "reward/mean": scores.mean(),
        "reward/std": scores.std(),
        "group/zero_std_frac": 1 - informative(judged).mean(),
        "group/all_wrong_frac": np.mean([not right[n][valid[n]].any() for n in some] or [0.0]),
        "group/all_right_frac": np.mean([right[n][valid[n]].all() for n in some] or [0.0]),
        "group/std_mean": np.mean([g.std() for g in groups] or [0.0]),
        "len/mean": length.mean(),
        "len/p10": np.percentile(length, 10),
        "len/p90": np.percentile(length, 90),
        "len/max": length.max(),
        "len/truncated_frac": 1 - s.eos_B.mean(),
        "len/interrupted_frac": s.forced_BT.any(1).mean(),
        "verifier/unknown_frac": 1 - ok.mean(),
    }
    for name, rows in (("correct", flat & ok), ("incorrect", ~flat & ok)):
        if rows.any():
            metrics[f"len/{name}"] = length[rows].mean()
    for part in sorted({k for v in judged.verdicts for k in v.parts}):
        metrics[f"reward/{part}"] = np.mean(
            [v.parts[part] for v in judged.verdicts if part in v.parts]
        )
    reasons = [v.reason for v in judged.verdicts]
    metrics["verifier/parse_fail"] = np.mean([x in _PARSE_FAIL for x in reasons])
    metrics["verifier/timeout"] = np.mean([x == "timeout" for x in reasons])
    return {name: float(value) for name, value in metrics.items()}


_PARSE_FAIL = frozenset({"no_answer", "unparsable", "empty"})
