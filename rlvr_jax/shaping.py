"""Terms for the length of a completion, added to the verifier's reward before training.

They come after dynamic sampling has looked at the groups: a group whose answers are all right
differs in length only, and would teach nothing else.  Evaluation does not see them.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from rlvr_jax.advantages.shaping import cosine_length, kimi_length, soft_overlong
from rlvr_jax.rollout import Judged


@dataclasses.dataclass(frozen=True)
class ShapingConfig:
    """Lengths are tokens; the limit is the one completions were sampled under."""

    soft_overlong: float = 0.0  # last share of the limit over which the punishment grows to -1
    soft_overlong_scale: float = 1.0  # Magistral takes a tenth of it
    kimi_length: float = 0.0  # weight of the length reward within a group (Kimi k1.5)
    kimi_after: int = 0  # steps without it, its warm-up
    cosine_length: bool = False  # the reward becomes the cosine of arXiv 2502.03373

    def __post_init__(self):
        if not 0 <= self.soft_overlong <= 1:
            raise ValueError(f"shaping.soft_overlong is a share, got {self.soft_overlong}")
        for name in ("soft_overlong_scale", "kimi_length", "kimi_after"):
            if getattr(self, name) < 0:
                raise ValueError(f"shaping.{name} must not be negative, got {getattr(self, name)}")
        if self.soft_overlong and not self.soft_overlong_scale:
            raise ValueError("shaping.soft_overlong has no effect with soft_overlong_scale 0")

    def acts(self, step: int) -> bool:
        """Whether anything is added in this step."""
        kimi = self.kimi_length > 0 and step > self.kimi_after
        return self.soft_overlong > 0 or kimi or self.cosine_length


def shaped(judged: Judged, config: ShapingConfig, limit: int, step: int) -> Judged:
    """The same completions with the shaped reward as their score and its length part told apart.

    What could not be judged stays so, and whether an answer is right does not change.
    """
    if not config.acts(step):
        return judged
    length_B, plain_B = judged.samples.length_B, judged.reward_NG.reshape(-1)
    score_B = plain_B.astype(np.float64)
    if config.cosine_length:
        correct_B, cut_B = judged.correct_NG.reshape(-1), ~judged.samples.eos_B
        score_B = cosine_length(length_B, correct_B, limit, cut_B)
    if config.soft_overlong:
        buffer = max(1, round(config.soft_overlong * limit))
        score_B = score_B + config.soft_overlong_scale * soft_overlong(length_B, limit, buffer)
    if config.kimi_length and step > config.kimi_after:
        length_NG = length_B.reshape(-1, judged.group)
        term_NG = kimi_length(length_NG, judged.correct_NG, judged.valid_NG)
        score_B = score_B + config.kimi_length * term_NG.reshape(-1)
    verdicts = [
        v
        if v.status == "unknown"
        else dataclasses.replace(
            v,
            score=float(score),
            parts=dict(v.parts) | {"correct": float(v.correct), "length": float(score - plain)},
        )
        for v, score, plain in zip(judged.verdicts, score_B, plain_B, strict=True)
    ]
    return dataclasses.replace(judged, verdicts=verdicts)


def shaping_metrics(judged: Judged) -> dict[str, float]:
    """reward/shaped and reward/length of a shaped batch."""
    valid_B = judged.valid_NG.reshape(-1)
    terms = [v.parts["length"] for v in judged.verdicts if "length" in v.parts]
    if not terms or not valid_B.any():
        return {}
    mean = float(judged.reward_NG.reshape(-1)[valid_B].mean())
    return {"reward/shaped": mean, "reward/length": float(np.mean(terms))}
