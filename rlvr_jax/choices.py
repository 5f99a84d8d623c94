"""Which choices go together.  Everything here speaks of plain nested values, section by section."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlvr_jax.advantages import ADVANTAGES
from rlvr_jax.losses import KL, LOSSES, Correction, Objective
from rlvr_jax.masking import check_aggregation
from rlvr_jax.registry import Registry, nearest
from rlvr_jax.rewards.compose import Compose

Sections = Mapping[str, Mapping[str, Any]]

REFERENCE_MODES = ("none", "frozen", "every_n", "ema")


def make(registry: Registry, section: Mapping[str, Any]):
    """Build the entry a section names: {"name": ..., **fields}."""
    fields = dict(section)
    if "name" not in fields:
        raise ValueError(f'a {registry.kind} section needs "name"; it has {sorted(fields)}')
    return registry.make(fields.pop("name"), **fields)


def make_objective(sections: Sections) -> Objective:
    """The objective that the sections loss, kl, correction, entropy and objective describe."""
    return Objective(
        loss=make(LOSSES, sections["loss"]),
        kl=KL(**sections.get("kl", {})),
        correction=Correction(**sections.get("correction", {})),
        entropy_coef=sections.get("entropy", {}).get("coef", 0.0),
        **sections.get("objective", {}),
    )


def validate(sections: Sections) -> None:
    """ValueError, with the reason, if a choice contradicts another or has no effect.

    A section or a field that is absent has its default.
    """
    objective = make_objective(sections)
    advantage = make(ADVANTAGES, sections["advantage"])
    _check_level(sections, objective, advantage)
    _check_reference(sections, objective, advantage)
    _check_critic(sections, advantage)
    _check_entropy(sections)
    _check_sampler(sections, objective)
    _check_group(sections, objective, advantage)
    _check_reward(sections, advantage)


def check_training(config: Mapping[str, Any]) -> None:
    """ValueError if what a stage trains contradicts the reference.

    config: all sections, with every field.
    """
    lora, stages = config["lora"], config["stages"]
    bad = [s for s in lora["stages"] if s not in stages]
    if bad:
        raise ValueError(f'lora.stages names "{bad[0]}", which is not among stages {stages}')
    adapted = (lora["stages"] or stages) if lora["rank"] else ()
    mode = config["reference"]["mode"]
    if "rl" in adapted and mode in ("every_n", "ema"):
        raise ValueError(
            f'reference.mode "{mode}" does not go with lora.rank {lora["rank"]}: the reference is '
            'the frozen base, which does not move; use "frozen" (or kl.place "none")'
        )


def _check_level(sections: Sections, objective: Objective, advantage) -> None:
    mode = sections.get("aggregation", {}).get("mode", "token_mean")
    check_aggregation(mode, sections.get("aggregation", {}).get("length_limit", 1))
    if objective.loss.level == "token":
        return
    name = f'loss "{sections["loss"]["name"]}"'
    if mode != "seq_mean_token_mean":
        raise ValueError(
            f"{name} is one number a sequence, so it is averaged over sequences: "
            f'aggregation.mode must be "seq_mean_token_mean", it is "{mode}"'
        )
    by_kl = advantage.by_token == "with_kl" and objective.kl.place == "reward"
    if advantage.by_token == "always" or by_kl:
        raise ValueError(
            f'{name} takes one advantage a sequence; advantage "{sections["advantage"]["name"]}" '
            'gives one a token (loss "gspo_token" takes them)'
        )


def _check_reference(sections: Sections, objective: Objective, advantage) -> None:
    reference = sections.get("reference", {})
    mode = reference.get("mode", "none")
    if mode not in REFERENCE_MODES:
        raise ValueError(f'reference.mode "{mode}" is not one of {", ".join(REFERENCE_MODES)}')
    place = objective.kl.place
    if place != "none" and mode == "none":
        raise ValueError(f'kl.place "{place}" needs a reference; reference.mode is "none"')
    if place == "none" and mode in ("every_n", "ema"):
        raise ValueError(
            f'reference.mode "{mode}" has no effect: kl.place is "none", nothing pulls to it'
        )
    if (mode == "every_n") != bool(reference.get("every", 0)):
        raise ValueError('reference.every goes with reference.mode "every_n", and only with it')
    if (mode == "ema") != (reference.get("decay", 0.0) > 0):
        raise ValueError('reference.decay goes with reference.mode "ema", and only with it')
    if place == "reward" and not advantage.takes_kl:
        name = sections["advantage"]["name"]
        raise ValueError(
            f'advantage "{name}" cannot take the KL in the reward; use kl.place "loss"'
        )
    if place == "none" and sections.get("kl_control", {}).get("target") is not None:
        raise ValueError('kl_control.target has no effect: kl.place is "none"')


def _check_critic(sections: Sections, advantage) -> None:
    needs = "value_BT" in advantage.needs
    has = sections.get("critic", {}).get("enabled", False)
    name = sections["advantage"]["name"]
    if needs and not has:
        raise ValueError(f'advantage "{name}" needs a critic; critic.enabled is False')
    if has and not needs:
        raise ValueError(f'advantage "{name}" does not read the critic; critic.enabled is True')


def _check_entropy(sections: Sections) -> None:
    entropy = sections.get("entropy", {})
    if entropy.get("target") is not None and entropy.get("coef", 0.0) != 0.0:
        raise ValueError("entropy.target moves the coefficient itself; leave entropy.coef at 0")


def _check_sampler(sections: Sections, objective: Objective) -> None:
    source = sections.get("learner", {}).get("old_logp", "recompute")
    if source == "sampler" and objective.correction.level != "none":
        raise ValueError(
            'learner.old_logp "sampler" makes the sampler the proximal policy: its ratio already '
            f'corrects for it; correction.level "{objective.correction.level}" would count it twice'
        )


def _check_group(sections: Sections, objective: Objective, advantage) -> None:
    group = sections.get("rollout", {}).get("group")
    alone = ("constant", "batch_mean", "running_mean", "reinforce_pp", "remax", "gae")
    name = sections["advantage"]["name"]
    if group == 1 and name not in alone:
        raise ValueError(
            f'advantage "{name}" compares the samples of one prompt; rollout.group is 1'
        )
    k = getattr(advantage, "k", None)
    if group is not None and k is not None and k > group:
        raise ValueError(f"advantage.k = {k} needs at least k samples, rollout.group is {group}")
    if name == "pkpo" and k == group and advantage.variance_baseline == "loo":
        raise ValueError(
            f'advantage.variance_baseline "loo" takes k of the other samples: rollout.group '
            f"{group} must be above advantage.k {k}"
        )
    if name == "passk" and k == group:
        raise ValueError(
            f"advantage.k = rollout.group = {k} teaches nothing: the only draw of k holds every "
            "sample; use a larger rollout.group"
        )
    if group == 1 and sections.get("rollout", {}).get("dynamic_sampling", False):
        raise ValueError("rollout.dynamic_sampling drops unanimous groups; rollout.group is 1")


def _check_reward(sections: Sections, advantage) -> None:
    name, shaping = sections["advantage"]["name"], sections.get("shaping", {})
    if "step_reward_BT" in advantage.needs:
        raise ValueError(f'advantage "{name}" needs step rewards, which no reward of a run gives')
    terms = [k for k in ("soft_overlong", "kimi_length", "cosine_length") if shaping.get(k)]
    if name in ("passk", "gdpo") and terms:
        read = {"passk": "whether answers are right", "gdpo": "the parts of the verdicts"}[name]
        raise ValueError(
            f'shaping.{terms[0]} has no effect: advantage "{name}" reads {read}, not the reward'
        )
    if name != "gdpo":
        return
    if not advantage.parts:
        raise ValueError(
            'advantage "gdpo" needs advantage.parts, the parts of the verdicts that are '
            'normalised one by one, e.g. ("format", "correct")'
        )
    if "accuracy" in advantage.parts:
        raise ValueError('advantage.parts: "accuracy" is for evaluations alone, see "correct"')
    reward = sections.get("reward", {})
    if reward.get("name") == "compose":  # others tell their parts only as they judge
        known = ("correct", *reward.get("rewards", Compose.rewards), *reward.get("gates", ()))
        for part in advantage.parts:
            if part not in known:
                raise ValueError(
                    f'advantage.parts: reward "compose" gives no part "{part}"'
                    f"{nearest(part, known)} (it gives: {', '.join(dict.fromkeys(known))})"
                )
    unread = [key for key in ("weights", "gates") if reward.get(key)]
    if unread:
        raise ValueError(
            f'reward.{unread[0]} has no effect: advantage "gdpo" reads the parts and not their sum '
            "(advantage.weights weighs them)"
        )
