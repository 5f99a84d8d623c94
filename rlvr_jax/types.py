"""The host's vocabulary: a problem, a completion, a verdict.  Nothing here imports jax.

The dimension key of the whole package (array names end in these letters, ``logp_BT``):

    N  prompts in a batch              G  samples per prompt          B  sequences, N * G by prompt
    P  prompt positions                T  completion positions        S  positions of one packed row
    R  packed rows                     M  scored tokens of one row    V  vocabulary
    D  model width                     H  query heads                 K  key/value heads
    d  width of one head               F  width of the MLP            L  layers
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

StopReason = Literal["eos", "length"]
Message = Mapping[str, str]  # {"role": ..., "content": ...}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing to solve.

    prompt: plain text, or messages for the model's chat template.
    answer: the gold answer as text (what the reward compares with); "" where the task has none.
    solution: a demonstration in the task's answer format, for supervised warm-up; or None.
    index: position in the task's split; with the task's seed it determines the problem.
    meta: the columns of the data source and whatever else the reward needs.
    """

    prompt: str | tuple[Message, ...]
    answer: str
    index: int
    solution: str | None = None
    meta: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Completion:
    """What the policy wrote: the ids are the truth, the text is a view of them (the end token
    removed).  num_tokens counts the ids, the end token and a forced phrase included;
    interrupted_at: those before the phrase, None where there is none."""

    text: str
    token_ids: tuple[int, ...] = ()
    num_tokens: int = 0
    stop_reason: StopReason = "eos"
    interrupted_at: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a verifier says of one completion.

    status "scored":  `score` holds the reward (also 0.0 and partial credit).
    status "wrong":   the answer fails and `reason` says how; `score` is what a wrong answer earns.
                      An answer that makes the check run out of time or memory is wrong.
    status "unknown": the checker itself failed; masked out of training and counted, never a 0.

    parts: the components that make up the score, by name.  stage: what decided.  extracted, gold:
    the answer found in the completion and the parsed gold, as text for people.
    """

    status: Literal["scored", "wrong", "unknown"]
    score: float = 0.0
    reason: str = ""
    parts: Mapping[str, float] = dataclasses.field(default_factory=dict)
    stage: str = ""
    extracted: str | None = None
    gold: str | None = None

    @property
    def correct(self) -> bool:
        """The answer itself was accepted, as far as training is told: part "correct" if there is
        one, else score > 0."""
        return self.status == "scored" and self.parts.get("correct", self.score) > 0

    @property
    def accurate(self) -> bool:
        """The answer is right: what evaluations count.  Part "accuracy" of a reward that pays by
        another rule, else `correct`."""
        return self.status == "scored" and self.parts.get("accuracy", self.correct) > 0
