"""Reward models on the devices: sequence classifiers with one label, lent to `rewards.learned`.

A text is a prompt and its completion in the reward model's own tokenizer (text.encode_answered).
Its score is the head on the state of its last token.  To the packed scoring that is the value of
the state before one more token, so texts are packed, cut into micro-batches and sharded like the
sequences of a training step.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from jax.sharding import Mesh

from rlvr_jax.critic import make_values
from rlvr_jax.models.config import ModelConfig
from rlvr_jax.models.hf import load_reward_model, locate, read_config
from rlvr_jax.packing import PackConfig, Sequences
from rlvr_jax.rewards import Reward
from rlvr_jax.rewards.learned import Scores, serving
from rlvr_jax.text import encode_answered, load_tokenizer, ordinary_size
from rlvr_jax.types import Completion, Problem


@dataclasses.dataclass(frozen=True)
class RewardModel:
    """A scorer for `rewards.learned.Learned`.

    A text of more tokens than the model sees gets no score: the reward could not tell.
    """

    tokenizer: Any
    params: Any
    values: Callable  # critic.make_values
    longest: int  # tokens that the model sees

    def __call__(
        self, completions: Sequence[Completion], problems: Sequence[Problem]
    ) -> list[Scores]:
        pairs = zip(completions, problems, strict=True)
        texts = [encode_answered(self.tokenizer, p, c.text) for c, p in pairs]
        seen = [i for i, ids in enumerate(texts) if len(ids) <= self.longest]
        why = f"too long: the reward model sees {self.longest} tokens, prompt and answer together"
        scores = [Scores(reason=why)] * len(texts)
        if seen:
            found = self.score([texts[i] for i in seen])
            for i, value in zip(seen, found, strict=True):
                scores[i] = Scores(value=float(value))
        return scores

    def score(self, texts: Sequence[Sequence[int]]) -> np.ndarray:
        """float32 [B]: the head at the last token of each text."""
        count = len(texts)
        next_B1, one_B = np.zeros((count, 1), np.int32), np.ones(count, np.int32)
        sequences = Sequences(texts, np.arange(count), next_B1, one_B)
        return self.values(self.params, {}, sequences, 1)[:, 0]


def open_reward_model(
    name: str, precision: ModelConfig, pack: PackConfig, mesh: Mesh
) -> RewardModel:
    """The reward model in this folder or on the hub.  precision: param_dtype, compute_dtype and
    unroll are taken from it.  ValueError in one line for what is no reward model."""
    folder = str(locate(name))
    try:
        model = dataclasses.replace(
            read_config(folder),
            param_dtype=precision.param_dtype,
            compute_dtype=precision.compute_dtype,
            unroll=precision.unroll,
        )
        tokenizer = load_tokenizer(folder)
        if model.vocab < ordinary_size(tokenizer):
            raise ValueError(
                f"its embedding has {model.vocab} rows, but its tokenizer has {len(tokenizer)} ids"
            )
        params = load_reward_model(folder, model, mesh)
    except ValueError as error:
        raise ValueError(f'reward model "{name}": {error}') from error
    rope = model.attn.rope  # the stretch of LongRoPE's long factors must not depend on a batch
    longest = rope.original_context if rope.kind == "longrope" else model.context
    return RewardModel(tokenizer, params, make_values(model, pack, mesh), longest or 2**31)


@contextlib.contextmanager
def reward_models(
    reward: Reward, precision: ModelConfig, pack: PackConfig, mesh: Mesh
) -> Iterator[dict[str, RewardModel]]:
    """Serve every model that `reward` names (`Reward.models`) for the time of the `with`."""
    with contextlib.ExitStack() as stack:
        models = {}
        for name in reward.models:
            models[name] = open_reward_model(name, precision, pack, mesh)
            stack.enter_context(serving(name, models[name]))
        yield models
