"""The rows of `presets.PRESETS`: what each published method chooses, and where it says so."""

from __future__ import annotations

import dataclasses
from typing import Any

from rlvr_jax.choices import Sections


@dataclasses.dataclass(frozen=True, kw_only=True)
class Preset:
    """One published method.

    paper: authors and arXiv number.  equation: what is optimised, with its number where known.
    numbers: the settings the paper reports, as text; batch sizes and learning rates belong to its
    models, so they are told and not applied.
    overrides: section -> field -> value.
    """

    name: str
    paper: str
    equation: str
    numbers: str
    overrides: Sections


def _row(name: str, paper: str, equation: str, numbers: str, **overrides) -> Preset:
    return Preset(name=name, paper=paper, equation=equation, numbers=numbers, overrides=overrides)


def _named(name: str, **fields) -> dict[str, Any]:
    return {"name": name, **fields}


def _clip(low: float = 0.2, high: float = 0.2) -> dict[str, Any]:
    return _named("clipped", eps_low=low, eps_high=high)


_GROUP = _named("group", std="group")
_TOKEN_MEAN = {"mode": "token_mean"}
_SEQ_MEAN = {"mode": "seq_mean_token_mean"}
_SEQ_SUM = {"mode": "seq_mean_token_sum"}
_REFILL = {"dynamic_sampling": True}
_FROZEN = {"mode": "frozen"}
# Half: the papers take up to 1 off a reward of -1 or 1; here a wrong answer earns 0 and not -1.
_OVERLONG = {"soft_overlong": 0.2, "soft_overlong_scale": 0.5}

_WITHOUT_CRITIC = (
    _row(
        "reinforce",
        "Williams 1992; for language models Ahmadian et al., arXiv 2402.14740",
        "(R - mean R) grad sum_t log pi",
        "baseline: mean reward of the batch",
        advantage=_named("batch_mean"),
        loss=_named("policy_gradient"),
        aggregation=_SEQ_SUM,
    ),
    _row(
        "rloo",
        "Ahmadian et al., arXiv 2402.14740",
        "(R_i - mean of the others) grad sum_t log pi",
        "2 or 4 samples, lr 1e-6, beta 0.03 with k1 in the reward, batch 512, 2 updates a rollout",
        advantage=_named("rloo"),
        loss=_named("policy_gradient"),
        aggregation=_SEQ_SUM,
        kl={"place": "reward", "estimator": "k1", "coef": 0.03},
        reference=_FROZEN,
    ),
    _row(
        "reinforce_pp",
        "Hu et al., arXiv 2501.03262",
        "A_t = whitened(R - beta sum_{s>=t} k1_s); PPO clip",
        "gamma 1, eps 0.2, beta 1e-3 to 1e-2 with k1 in the reward; one sample a prompt is enough",
        advantage=_named("reinforce_pp"),
        loss=_clip(),
        aggregation=_TOKEN_MEAN,
        kl={"place": "reward", "estimator": "k1", "coef": 1e-3},
        reference=_FROZEN,
    ),
    _row(
        "reinforce_pp_baseline",
        "Hu et al., arXiv 2501.03262",
        "A = whitened(R - mean of group); PPO clip + beta k2",
        "eps 0.2, k2 in the loss with beta 1e-3 to 1e-2",
        advantage=_named("reinforce_pp_baseline"),
        loss=_clip(),
        aggregation=_TOKEN_MEAN,
        kl={"place": "loss", "estimator": "k2", "coef": 1e-3},
        reference=_FROZEN,
    ),
    _row(
        "remax",
        "Li et al., arXiv 2310.10505",
        "(R - R_greedy) grad sum_t log pi",
        "one sampled and one greedy completion a prompt",
        advantage=_named("remax"),
        loss=_named("policy_gradient"),
        aggregation=_SEQ_SUM,
    ),
    _row(
        "grpo",
        "Shao et al. (DeepSeekMath), arXiv 2402.03300",
        "A = (R - mean) / std of group; PPO clip + beta k3; 1/|o| (eq. 3 and 4)",
        "lr 1e-6, beta 0.04, 64 samples, length 1024, batch 1024, one update an exploration",
        advantage=_GROUP,
        loss=_clip(),
        aggregation=_SEQ_MEAN,
        kl={"place": "loss", "estimator": "k3", "coef": 0.04},
        reference=_FROZEN,
    ),
    _row(
        "dr_grpo",
        "Liu et al., arXiv 2503.20783",
        "A = R - mean of group; PPO clip; 1 / constant length",
        "8 samples, batch 128, lr 1e-6 constant, T 1, length 3000, no KL",
        advantage=_named("group", std="none"),
        loss=_clip(),
        aggregation={"mode": "const"},
    ),
    _row(
        "dapo",
        "Yu et al., arXiv 2503.14476",
        "GRPO's A; clip(r, 0.8, 1.28); token mean; 0 < right < G (eq. 8 to 13)",
        "lr 1e-6 with 20 warm-up rollouts, 512 prompts x 16, 16 updates a rollout, "
        "length 16384 + 4096 of soft punishment, no KL",
        advantage=_GROUP,
        loss=_clip(0.2, 0.28),
        aggregation=_TOKEN_MEAN,
        rollout=_REFILL,
        shaping=_OVERLONG,
    ),
    _row(
        "gspo",
        "Zheng et al., arXiv 2507.18071",
        "-min(s A, clip(s) A), s = exp(mean_t log r) (eq. 5 to 7)",
        "eps 3e-4 and 4e-4, 4 minibatches a rollout, no KL",
        advantage=_GROUP,
        loss=_named("gspo", eps_low=3e-4, eps_high=4e-4),
        aggregation=_SEQ_MEAN,
        learner={"minibatches": 4},
    ),
    _row(
        "gspo_token",
        "Zheng et al., arXiv 2507.18071",
        "s_t = sg(s) pi / sg(pi) in place of s (eq. 13 and 14)",
        "as gspo; the advantages may differ by token",
        advantage=_GROUP,
        loss=_named("gspo_token", eps_low=3e-4, eps_high=4e-4),
        aggregation=_SEQ_MEAN,
        learner={"minibatches": 4},
    ),
    _row(
        "cispo",
        "MiniMax-M1, arXiv 2506.13585",
        "-sg(min(r, cap)) A log pi",
        "no lower bound, upper bound tuned; here the ratio is capped at 5, the ScaleRL setting",
        advantage=_GROUP,
        loss=_named("cispo", is_floor=0.0, is_cap=5.0),
        aggregation=_TOKEN_MEAN,
    ),
    _row(
        "sapo",
        "arXiv 2511.20347",
        "-(4 / tau) sigmoid(tau (r - 1)) A",
        "tau 1.0 for positive and 1.05 for negative advantages",
        advantage=_GROUP,
        loss=_named("sapo", tau_pos=1.0, tau_neg=1.05),
        aggregation=_SEQ_MEAN,
    ),
    _row(
        "gmpo",
        "Zhao et al., arXiv 2507.20673",
        "-A exp(mean_t clipped log r)",
        "log-ratios clipped at +-0.4 before the geometric mean",
        advantage=_GROUP,
        loss=_named("gmpo", clip_log=0.4),
        aggregation=_SEQ_MEAN,
    ),
    _row(
        "gpg",
        "Chu et al., arXiv 2504.02546",
        "-alpha (R - mean) log pi, alpha = B / (B - M)",
        "F_norm 1, alpha = B / (B - M), resample below 60 % of prompts with signal; no KL",
        advantage=_named("gpg", scale=1.0),
        loss=_named("policy_gradient"),
        aggregation=_TOKEN_MEAN,
    ),
    _row(
        "kimi_k15",
        "Kimi k1.5, arXiv 2501.12599",
        "(R - mean - tau log pi/pi_old)^2 (sec. 2.3.2)",
        "pi_old is the policy at the start of the iteration; length reward after a warm-up",
        advantage=_named("group", std="none"),
        loss=_named("mirror_descent", tau=0.5),
        aggregation=_SEQ_MEAN,
    ),
    _row(
        "magistral",
        "Mistral AI, arXiv 2506.10910",
        "A = (R - mean of group) / std of batch; clip-higher; token mean (sec. 2.1)",
        "eps_high 0.26 to 0.28, no KL, groups without diversity dropped, length cap in stages",
        advantage=_named("magistral"),
        loss=_clip(0.2, 0.28),
        aggregation=_TOKEN_MEAN,
        rollout={"drop_unanimous": True},
        shaping={"soft_overlong": 0.2, "soft_overlong_scale": 0.1},
    ),
    _row(
        "lite_ppo",
        "arXiv 2508.08221",
        "A = (R - mean of group) / std of batch's R; PPO clip; token mean",
        "mean of the group, deviation of the batch, token mean; nothing else",
        advantage=_named("group", std="batch"),
        loss=_clip(),
        aggregation=_TOKEN_MEAN,
    ),
    _row(
        "opo",
        "Hao et al., arXiv 2505.23585",
        "(R - sum |o| R / sum |o|) grad sum_t log pi",
        "exactly on-policy, no KL, no entropy bonus",
        advantage=_named("opo"),
        loss=_named("policy_gradient"),
        aggregation=_SEQ_SUM,
        learner={"minibatches": 1},
    ),
    _row(
        "prorl",
        "Liu et al., arXiv 2505.24864",
        "GRPO's A; clip(r, 0.8, 1.4) + beta k3; reference <- policy, optimizer reset",
        "eps 0.2 and 0.4, T 1.2, 16 samples, 8k then 16k tokens, batch 256 in minibatches of 64, "
        "lr 2e-6; reference and optimizer reset when validation stalls",
        advantage=_GROUP,
        loss=_clip(0.2, 0.4),
        aggregation=_TOKEN_MEAN,
        kl={"place": "loss", "estimator": "k3", "coef": 1e-3},
        reference={"mode": "every_n", "every": 200, "reset_optimizer": True},
        rollout=_REFILL,
        sampling={"temperature": 1.2},
        learner={"minibatches": 4},
    ),
    _row(
        "skywork_or1",
        "He et al., arXiv 2505.22312",
        "GRPO's A; PPO clip - c H, c moved toward H >= target",
        "lr 1e-6, T 1, 256 prompts x 16, one update a rollout, 8k to 16k to 32k tokens, no KL, "
        "entropy target 0.2, step 1e-4, coefficient in [0, 0.005]",
        advantage=_GROUP,
        loss=_clip(),
        aggregation=_TOKEN_MEAN,
        entropy={"target": 0.2, "step": 1e-4, "low": 0.0, "high": 5e-3},
        rollout={"drop_unanimous": True},
        learner={"minibatches": 1},
    ),
    _row(
        "minimax_m1",
        "MiniMax-M1, arXiv 2506.13585",
        "-sg(min(r, cap)) A log pi; dynamic sampling; length penalty",
        "CISPO with dynamic sampling and length penalty, no KL, f32 output head",
        advantage=_GROUP,
        loss=_named("cispo", is_floor=0.0, is_cap=5.0),
        aggregation=_TOKEN_MEAN,
        rollout=_REFILL,
        shaping=_OVERLONG,
    ),
    _row(
        "scalerl",
        "Khatri et al., arXiv 2510.13786",
        "A = (R - mean of group) / std of batch; -sg(min(r, cap)) A log pi; prompt mean",
        "CISPO cap 5, prompt-level aggregation, deviation of the batch, f32 output head, "
        "zero-variance filter, prompts with pass rate >= 0.9 retired, interruption after 10k to "
        "12k tokens",
        advantage=_named("group", std="batch"),
        loss=_named("cispo", is_floor=0.0, is_cap=5.0),
        aggregation={"mode": "prompt_token_mean"},
        rollout={"drop_unanimous": True},
        curriculum={"retire_at": 0.9},
    ),
    _row(
        "passk_grpo",
        "Chen et al., arXiv 2508.10751",
        "A of right and wrong samples in expectation over draws of k",
        "k 4 with 8 or more samples",
        advantage=_named("passk", k=4),
        loss=_clip(),
        aggregation=_SEQ_MEAN,
    ),
    _row(
        "pkpo",
        "Walder & Karkhanis, arXiv 2505.15201",
        "s_i grad log pi, s_i = k/n of the mean over k-subsets with i of max R - max R without i",
        "baseline LOO-1; k may be annealed to 1",
        advantage=_named("pkpo", k=4, variance_baseline="loo_minus_one"),
        loss=_named("policy_gradient"),
        aggregation=_SEQ_SUM,
    ),
    _row(
        "klcov",
        "Cui et al., arXiv 2505.22617",
        "-r A + |log r| on the tokens of highest covariance of A and log pi",
        "share 2e-4 (2e-3 for 7B), penalty 1, no clip",
        advantage=_GROUP,
        loss=_named("kl_cov", share=2e-4, penalty=1.0),
        aggregation=_TOKEN_MEAN,
    ),
    _row(
        "clipcov",
        "Cui et al., arXiv 2505.22617",
        "PPO clip without random tokens of high covariance of A and log pi",
        "share 2e-4, window 1 to 5, eps 0.2",
        advantage=_GROUP,
        loss=_named("clip_cov", share=2e-4, cov_low=1.0, cov_high=5.0),
        aggregation=_TOKEN_MEAN,
    ),
)

_WITH_CRITIC = (
    _row(
        "ppo",
        "Schulman et al., arXiv 1707.06347 and 1506.02438",
        "GAE, lambda 0.95; PPO clip (eq. 7)",
        "lambda 0.95, eps 0.2, value clip 0.2, k1 in the reward",
        advantage=_named("gae", lam_policy=0.95, lam_value=0.95, whiten=True),
        loss=_clip(),
        aggregation=_TOKEN_MEAN,
        kl={"place": "reward", "estimator": "k1", "coef": 1e-3},
        reference=_FROZEN,
        critic={"enabled": True, "value_clip": 0.2},
    ),
    _row(
        "orz_ppo",
        "Open-Reasoner-Zero, arXiv 2503.24290",
        "A = R - V (gamma = lambda = 1); PPO clip",
        "gamma and lambda 1, no KL, no entropy bonus, actor lr 1e-6, critic lr 5e-6, 128 prompts "
        "x 64, one actor step and 12 critic steps a rollout",
        advantage=_named("gae", lam_policy=1.0, lam_value=1.0, whiten=True),
        loss=_clip(),
        aggregation=_TOKEN_MEAN,
        critic={"enabled": True, "value_clip": 0.2, "minibatches": 12},
        learner={"minibatches": 1},
    ),
    _row(
        "vc_ppo",
        "Yuan et al., arXiv 2503.01491",
        "GAE, lambda 0.95 for the policy, 1 for the critic; value pretraining",
        "value pretraining of 50 to 100 steps, lambda 1 for the critic and 0.95 for the policy",
        advantage=_named("gae", lam_policy=0.95, lam_value=1.0, whiten=True),
        loss=_clip(),
        aggregation=_TOKEN_MEAN,
        critic={"enabled": True, "value_clip": 0.2, "warmup_steps": 50},
    ),
    _row(
        "vapo",
        "Yue et al., arXiv 2504.05118",
        "GAE, lambda = 1 - 1 / (0.05 |o|); clip-higher; token mean; + 0.1 NLL of right answers",
        "50 steps of value warm-up, alpha 0.05, eps 0.2 and 0.28, mu 0.1, actor lr 1e-6, critic "
        "lr 2e-6, 512 prompts x 16, minibatch 512",
        advantage=_named("gae", length_alpha=0.05, lam_value=1.0, whiten=True),
        loss=_clip(0.2, 0.28),
        aggregation=_TOKEN_MEAN,
        objective={"nll_coef": 0.1},
        critic={"enabled": True, "value_clip": 0.2, "warmup_steps": 50},
    ),
)

ROWS = _WITHOUT_CRITIC + _WITH_CRITIC
