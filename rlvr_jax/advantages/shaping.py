"""Shaping of rewards and batches on the host, in numpy.  Lengths are counted in tokens."""

from __future__ import annotations

import numpy as np


def soft_overlong(num_tokens, length_limit: int, buffer: int) -> np.ndarray:
    """0 up to length_limit - buffer, then falling linearly to -1 at length_limit, -1 beyond.

    DAPO, arXiv 2503.14476, eq. 13; to be added to the reward.  Magistral adds a tenth of it.
    """
    if not 0 < buffer <= length_limit:
        raise ValueError(
            f"buffer must be between 1 and the length limit {length_limit}, it is {buffer}"
        )
    excess = np.asarray(num_tokens, np.float64) - (length_limit - buffer)
    return -np.clip(excess / buffer, 0.0, 1.0)


def kimi_length(num_tokens_NG, correct_NG, valid_NG=True) -> np.ndarray:
    """lam = 1/2 - (len - min) / (max - min) in the group; right: lam, wrong: min(0, lam).

    Kimi k1.5, arXiv 2501.12599, sec. 2.3.3; to be added with a weight, after a warm-up without it.
    0 for a group whose completions are all equally long.  Samples that are not valid (they could
    not be judged) have no part in min and max.
    """
    length_NG = np.asarray(num_tokens_NG, np.float64)
    low_N1 = np.where(valid_NG, length_NG, np.inf).min(1, keepdims=True)
    high_N1 = np.where(valid_NG, length_NG, -np.inf).max(1, keepdims=True)
    spread_N1 = np.where(high_N1 > low_N1, high_N1 - low_N1, 0.0)
    lam_NG = 0.5 - (length_NG - low_N1) / np.where(spread_N1 > 0, spread_N1, 1.0)
    reward_NG = np.where(np.asarray(correct_NG, bool), lam_NG, np.minimum(lam_NG, 0.0))
    return np.where((spread_N1 > 0) & valid_NG, reward_NG, 0.0)


def cosine_length(
    num_tokens,
    correct,
    length_limit: int,
    cut=False,
    *,
    right: tuple[float, float] = (2.0, 1.0),
    wrong: tuple[float, float] = (-10.0, 0.0),
    over: float = -10.0,
) -> np.ndarray:
    """b + (a - b) (1 + cos(pi len / limit)) / 2, from a at length 0 to b at the limit.

    Yeo et al., arXiv 2502.03373: (a, b) is `right` or `wrong`; `over` beyond the limit, and for
    completions that it has `cut`.
    It takes the place of the correctness reward.
    """
    length = np.asarray(num_tokens, np.float64)
    correct = np.asarray(correct, bool)
    start, end = (np.where(correct, r, w) for r, w in zip(right, wrong, strict=True))
    reward = end + 0.5 * (start - end) * (1.0 + np.cos(np.pi * length / length_limit))
    return np.where((length > length_limit) | np.asarray(cut, bool), over, reward)


def magistral_reward(correct, formatted, same_language, length_penalty) -> np.ndarray:
    """0.1 format + 0.9 correct + 0.1 language + 0.1 * length penalty; 0 if the format fails.

    Mistral AI, arXiv 2506.10910, sec. 2.2.  length_penalty is that of `soft_overlong`, in [-1, 0].
    """
    correct, same_language = np.asarray(correct, float), np.asarray(same_language, float)
    reward = 0.1 + 0.9 * correct + 0.1 * same_language + 0.1 * np.asarray(length_penalty, float)
    return np.where(np.asarray(formatted, bool), reward, 0.0)


def varied_groups(metric_NG, valid_NG, tol: float = 1e-6) -> np.ndarray:
    """True for prompts whose valid samples differ in the metric by more than tol.  bool [N].

    The test of dynamic sampling (DAPO, arXiv 2503.14476, eq. 11) and of zero-variance filters.
    The paper's metric is the accuracy: an all-right group with a length penalty varies in reward,
    and teaches length only.  A run looks at the verifier's reward before the length is shaped
    (`rollout.informative`).
    """
    metric_NG, valid_NG = np.asarray(metric_NG, np.float64), np.asarray(valid_NG, bool)
    high_N = np.where(valid_NG, metric_NG, -np.inf).max(1)
    low_N = np.where(valid_NG, metric_NG, np.inf).min(1)
    return high_N - low_N > tol


def overlong_filter(mask_BT, truncated_B) -> np.ndarray:
    """mask_BT without the rows that the length limit cut.  DAPO, arXiv 2503.14476, sec. 3.4.

    Masks the loss only: the sample's reward stays in the statistics of its group.
    """
    return np.asarray(mask_BT, bool) & ~np.asarray(truncated_B, bool)[:, None]


def priorities(success_N) -> np.ndarray:
    """Sampling weight of each prompt, proportional to 1 - its success rate; sums to 1.

    Kimi k1.5, arXiv 2501.12599, sec. 2.3.4.  Uniform if every prompt is always solved.
    """
    weight_N = 1.0 - np.clip(np.asarray(success_N, np.float64), 0.0, 1.0)
    total = weight_N.sum()
    return weight_N / total if total > 0 else np.full_like(weight_N, 1.0 / weight_N.size)
