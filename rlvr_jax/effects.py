"""Keys that change nothing beside others: setting one is an error (config.build)."""

from __future__ import annotations

import dataclasses

from rlvr_jax.losses import KL, LOSSES
from rlvr_jax.losses.covariance import ClipCov


def _forces(kl: KL) -> bool:
    plain = kl.place == "loss" and kl.grad == "value" and not kl.ratio_corrected
    return kl.estimator == "k1" and plain


def _on_policy(run) -> bool:
    """One update a rollout, and the old policy scored as the new one is: every ratio is 1.  In
    bfloat16 two programs round differently, and narrow bounds act."""
    alone = run.learner.minibatches * run.learner.epochs == 1
    exact = run.learner.old_logp == "recompute" and run.model.compute_dtype == "float32"
    return alone and exact


def _picks_nothing(run) -> bool:
    return _on_policy(run) and not isinstance(run.objective.loss, ClipCov)  # it leaves out tokens


def _critic_updates(run) -> int:
    return min(run.critic.minibatches, run.rollout.prompts) * run.critic.epochs


def _limits_nothing(run) -> bool:
    limits = run.rollout.limits
    return bool(limits) and min(limits) == run.decode.max_new_tokens


PICKS = ("share", "cov_low", "cov_high")
WITHOUT_EFFECT = (  # (section, key, said of the built run, reason)
    ("rollout", "max_refills", lambda r: not r.rollout.dynamic_sampling, "dynamic_sampling is off"),
    ("aggregation", "length_limit", lambda r: r.aggregation.mode != "const", 'mode is not "const"'),
    ("optim", "final_scale", lambda r: r.optim.schedule == "constant", "the schedule is constant"),
    *(
        ("entropy", key, lambda r: r.entropy.target is None, "entropy.target is not set")
        for key in ("step", "low", "high")
    ),
    *(
        ("critic", key, lambda r: not r.critic.enabled, "critic.enabled is False")
        for key in ("model", "value_clip", "warmup_steps", "minibatches", "epochs", "optim")
    ),
    *(
        ("lora", key, lambda r: not r.lora.rank, "lora.rank is 0")
        for key in ("alpha", "targets", "stages")
    ),
    *(
        ("loss", key, _on_policy, "with one update a rollout the ratio is 1")
        for key in sorted({f.name for n in LOSSES for f in dataclasses.fields(LOSSES[n])})
        if key not in PICKS
    ),
    *(("loss", key, _picks_nothing, "with one update a rollout the ratio is 1") for key in PICKS),
    (
        "critic",
        "value_clip",
        lambda r: _critic_updates(r) == 1,
        "the critic's only update begins at the values of the rollout",
    ),
    (
        "critic",
        "minibatches",
        lambda r: r.critic.minibatches > r.rollout.prompts,
        "a minibatch holds at least one of rollout.prompts",
    ),
    ("rollout", "limits", _limits_nothing, "no stage is below decode.max_new_tokens"),
    ("kl_control", "horizon", lambda r: r.kl_control.target is None, "kl_control.target is unset"),
    ("shaping", "soft_overlong_scale", lambda r: not r.shaping.soft_overlong, "soft_overlong is 0"),
    ("shaping", "kimi_after", lambda r: not r.shaping.kimi_length, "kimi_length is 0"),
    *(
        ("correction", key, lambda r: r.objective.correction.level == "none", 'level is "none"')
        for key in ("high", "low", "action")
    ),
    *(
        ("advantage", key, lambda r: getattr(r.advantage, "std", "") == "none", 'std is "none"')
        for key in ("ddof", "eps")
    ),
    ("kl", "estimator", lambda r: r.objective.kl.place == "none", 'place is "none"'),
    ("kl", "force", lambda r: not _forces(r.objective.kl), "it is for a plain k1 in the loss"),
    ("shaping", "kimi_length", lambda r: r.rollout.group == 1, "rollout.group is 1"),
    (
        "shaping",
        "kimi_length",
        lambda r: r.shaping.kimi_after >= r.rl.steps,
        "shaping.kimi_after is not below rl.steps",
    ),
    (
        "rollout",
        "limit_steps",
        lambda r: max(r.rollout.limit_steps, default=0) >= r.rl.steps,
        "the stage has fewer steps",
    ),
    ("reference", "every", lambda r: r.reference.every >= r.rl.steps, "the stage has fewer steps"),
    ("curriculum", "min_samples", lambda r: not r.curriculum.active, "nothing is left out"),
    ("reference", "reset_optimizer", lambda r: r.reference.mode != "every_n", "not every_n"),
    *(  # max_bad_updates guards the stage of sft as well
        ("learner", key, lambda r: "rl" not in r.stages, "there is no rl stage")
        for key in ("minibatches", "epochs", "old_logp", "max_sampler_gap")
    ),
)
