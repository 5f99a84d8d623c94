"""From a ConfigDict to a typed RunConfig; whatever is wrong with it is an error that says so.

`base()` gives a ConfigDict with every key there is, all unset; a file in configs/ sets some of
them, and `--config.section.key=value` sets others.  `build` fills what is unset from the
algorithm's row of presets.py, then from the defaults of the dataclass that owns the section.  That
dataclass is the schema: it lives in the module it configures, and nothing is declared twice.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from typing import Any

from ml_collections import config_dict

from rlvr_jax.advantages import ADVANTAGES
from rlvr_jax.checkpoint import CheckpointConfig
from rlvr_jax.choices import Sections, check_training, validate
from rlvr_jax.controllers import EntropyConfig, KLControlConfig
from rlvr_jax.critic import CriticConfig
from rlvr_jax.curriculum import CurriculumConfig
from rlvr_jax.effects import WITHOUT_EFFECT
from rlvr_jax.evaluate import EvalConfig
from rlvr_jax.experience import AggregationConfig, LearnerConfig
from rlvr_jax.generate import DecodeConfig
from rlvr_jax.learner import OptimConfig
from rlvr_jax.losses import KL, LOSSES, AdaptiveKL, Correction, Objective
from rlvr_jax.losses.policy_gradient import PolicyGradient
from rlvr_jax.models.config import ModelConfig
from rlvr_jax.models.hf import with_architecture
from rlvr_jax.models.lora import LoraConfig
from rlvr_jax.packing import PackConfig
from rlvr_jax.phrase import InterruptionConfig
from rlvr_jax.presets import preset
from rlvr_jax.reference import ReferenceConfig
from rlvr_jax.registry import Registry, nearest
from rlvr_jax.rewards import REWARDS
from rlvr_jax.rollout import RolloutConfig
from rlvr_jax.sampling import SamplingConfig
from rlvr_jax.schema import blank, hints_of, typed
from rlvr_jax.shaping import ShapingConfig
from rlvr_jax.sharding import MeshConfig
from rlvr_jax.tasks import TASKS
from rlvr_jax.text import PromptFormat

log = logging.getLogger(__name__)

STAGES = ("sft", "rl")
SEEDS = 2**32  # a seed is a word of 32 bits where keys are made of it


@dataclasses.dataclass(frozen=True)
class SftConfig:
    """Supervised warm-up on the task's worked solutions."""

    steps: int = 200
    batch: int = 64  # solutions a step
    optim: OptimConfig = OptimConfig()

    def __post_init__(self):
        for name in ("steps", "batch"):
            if getattr(self, name) < 1:
                raise ValueError(f"sft.{name} must be at least 1, got {getattr(self, name)}")


@dataclasses.dataclass(frozen=True)
class RlConfig:
    """Reinforcement learning."""

    steps: int = 150

    def __post_init__(self):
        if self.steps < 1:
            raise ValueError(f"rl.steps must be at least 1, got {self.steps}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything a run depends on."""

    seed: int = 0
    algorithm: str = "grpo"  # a row of presets.py
    stages: tuple[str, ...] = ("rl",)  # in order, each at most once
    tokenizer: str = "char"  # "char", a folder, or a hub name; with model.path, that by default
    text: PromptFormat
    model: ModelConfig
    lora: LoraConfig
    task: Any
    reward: Any
    rollout: RolloutConfig
    decode: DecodeConfig
    interruption: InterruptionConfig
    sampling: SamplingConfig
    eval_sampling: SamplingConfig
    advantage: Any
    objective: Objective
    aggregation: AggregationConfig
    entropy: EntropyConfig
    kl_control: KLControlConfig
    reference: ReferenceConfig
    critic: CriticConfig
    shaping: ShapingConfig
    curriculum: CurriculumConfig
    learner: LearnerConfig
    optim: OptimConfig
    pack: PackConfig
    sft: SftConfig
    rl: RlConfig
    mesh: MeshConfig
    eval: EvalConfig
    checkpoint: CheckpointConfig


SECTIONS: dict[str, Any] = {  # name -> the dataclass, or the registry that names several
    "text": PromptFormat,
    "model": ModelConfig,
    "lora": LoraConfig,
    "task": TASKS,
    "reward": REWARDS,
    "rollout": RolloutConfig,
    "decode": DecodeConfig,
    "interruption": InterruptionConfig,
    "sampling": SamplingConfig,
    "eval_sampling": SamplingConfig,
    "advantage": ADVANTAGES,
    "loss": LOSSES,
    "objective": Objective,
    "aggregation": AggregationConfig,
    "kl": KL,
    "correction": Correction,
    "entropy": EntropyConfig,
    "kl_control": KLControlConfig,
    "reference": ReferenceConfig,
    "critic": CriticConfig,
    "shaping": ShapingConfig,
    "curriculum": CurriculumConfig,
    "learner": LearnerConfig,
    "optim": OptimConfig,
    "pack": PackConfig,
    "sft": SftConfig,
    "rl": RlConfig,
    "mesh": MeshConfig,
    "eval": EvalConfig,
    "checkpoint": CheckpointConfig,
}
TOP = ("seed", "algorithm", "stages", "tokenizer")
BUILT_APART = {"objective": ("loss", "kl", "correction")}  # fields that are sections themselves
# Fields that another section sets.
TAKEN_FROM = {"objective": ("entropy_coef",), "model": ("lora_scale",)}
RL_ONLY = ("advantage", "loss", "objective", "aggregation", "kl", "correction", "reference")
RL_ONLY += ("learner", "optim", "rl", "rollout", "entropy", "kl_control", "critic", "shaping")
RL_ONLY += ("curriculum",)


def fields_of(section: Any, name: str = "") -> dict[str, Any]:
    """key -> type of everything a section may hold; for a registry the union over its entries."""
    if isinstance(section, Registry):
        out: dict[str, Any] = {"name": str}
        for entry in section:
            out |= hints_of(section[entry])
        return out
    hints = hints_of(section)
    elsewhere = BUILT_APART.get(name, ()) + TAKEN_FROM.get(name, ())
    return {k: v for k, v in hints.items() if k not in elsewhere}


def base() -> config_dict.ConfigDict:
    """A ConfigDict with every key, all unset (None).  Setting an unknown key is an error."""
    top = {f: hints_of(RunConfig)[f] for f in TOP}
    config = blank(top)
    for name, section in SECTIONS.items():
        config[name] = blank(fields_of(section, name))
    return config


def build(config: Mapping[str, Any]) -> RunConfig:
    """The typed configuration.  ValueError naming the key for anything that cannot be meant."""
    given = _with_checkpoint(_given(config))
    run = _assemble(given, _with_preset(given, given.get("algorithm", RunConfig.algorithm)))
    _check(run)
    _check_effects(run, given)
    return run


def from_json(config: Mapping[str, Any]) -> RunConfig:
    """The inverse of `to_json`: a configuration that is complete, so no preset is looked up."""
    if not isinstance(config, Mapping):
        raise ValueError(f"a configuration is an object of sections, not {type(config).__name__}")
    given = _given(config)
    return _assemble(given, {k: v for k, v in given.items() if k not in TOP})


def completed(saved: Any) -> Any:
    """A saved configuration with the defaults of keys that came later; as it is where it cannot be
    read any more."""
    try:
        return to_json(from_json(saved))
    except ValueError:
        return saved


def _assemble(given: Mapping[str, Any], sections: Mapping[str, Any]) -> RunConfig:
    known = [*TOP, *SECTIONS]
    for key in given:
        if key not in known:
            raise ValueError(f'no config section "{key}"{nearest(key, known)}')
    for name, values in sections.items():
        if not isinstance(values, Mapping):
            raise ValueError(f'config section "{name}" must hold keys, got {values!r}')
    top = {k: typed(k, v, hints_of(RunConfig)[k]) for k, v in given.items() if k in TOP}
    last = ("reward", "objective")  # they need another section first
    parts = {name: _section(name, sections.get(name, {})) for name in SECTIONS if name not in last}
    reward = {"name": parts["task"].reward} | sections.get("reward", {})
    parts["reward"] = _section("reward", reward)
    terms = {k: parts.pop(k) for k in BUILT_APART["objective"]}
    terms["entropy_coef"] = parts["entropy"].coef
    parts["objective"] = _section("objective", sections.get("objective", {}), **terms)
    parts["aggregation"] = _with_length(parts["aggregation"], parts["decode"])
    decode = parts["decode"]
    longest = decode.max_prompt_tokens + decode.max_new_tokens
    parts["model"] = parts["model"].for_length(longest)
    return RunConfig(**top, **parts)


def _with_length(aggregation: AggregationConfig, decode: DecodeConfig) -> AggregationConfig:
    """Mode "const" with the run's length limit where no other divisor was given."""
    if aggregation.mode != "const" or aggregation.length_limit:
        return aggregation
    return dataclasses.replace(aggregation, length_limit=decode.max_new_tokens)


def _with_checkpoint(given: dict[str, Any]) -> dict[str, Any]:
    """With model.path the architecture is written out, and the tokenizer is the checkpoint's."""
    model = given.get("model")
    if not isinstance(model, Mapping) or not model.get("path"):
        return given
    path = typed("model.path", model["path"], str)
    return {"tokenizer": path} | given | {"model": with_architecture(model)}


def _given(config: Mapping[str, Any]) -> dict[str, Any]:
    """Plain nested dict of what was set."""
    if isinstance(config, config_dict.ConfigDict):
        config = config.to_dict()
    out = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            value = _given(value) or None
        if value is not None:
            out[key] = value
    return out


def _with_preset(given: Mapping[str, Any], algorithm: str) -> dict[str, dict[str, Any]]:
    """The preset's sections under the given ones.  A named entry that differs from the preset's
    takes none of its fields; a KL that was switched off takes neither its fields nor its
    reference.  A bare kl.coef is the coefficient of the algorithm's KL: where the algorithm has
    none it is left out, with a warning, so that one file serves all algorithms."""
    rows = {k: dict(v) for k, v in preset(algorithm).overrides.items()}
    kl = given.get("kl", {})
    if set(kl) == {"coef"} and kl["coef"] and "kl" not in rows:
        log.warning(
            'config.kl.coef %s is left out: algorithm "%s" has no KL (config.kl.place adds one)',
            kl["coef"],
            algorithm,
        )
        given = {k: v for k, v in given.items() if k != "kl"}
    if kl.get("coef") == 0 or kl.get("place") == "none":
        rows.pop("kl", None)
        rows.pop("reference", None)
    out = {}
    for name in {*rows, *given} - set(TOP):
        row, own = rows.get(name, {}), given.get(name, {})
        if not isinstance(own, Mapping):
            raise ValueError(f'config section "{name}" must hold keys, got {own!r}')
        if "name" in own and own["name"] != row.get("name"):
            row = {}
        out[name] = row | own
    return out


def _section(name: str, values: Mapping[str, Any], **built: Any) -> Any:
    section = SECTIONS[name]
    hints = fields_of(section, name)
    fields = {}
    for key, value in values.items():
        if key not in hints:
            raise ValueError(
                f'no config key "{name}.{key}"{nearest(key, list(hints))} '
                f"({name} has: {', '.join(hints)})"
            )
        fields[key] = typed(f"{name}.{key}", value, hints[key], getattr(section, key, None))
    if isinstance(section, Registry):
        if "name" not in fields:
            raise ValueError(f"set config.{name}.name to one of {', '.join(section)}")
        return section.make(fields.pop("name"), **fields)
    return section(**fields, **built)


def _check(run: RunConfig) -> None:
    """Contradictions between sections."""
    bad = [s for s in run.stages if s not in STAGES]
    if bad or not run.stages or len(set(run.stages)) < len(run.stages):
        raise ValueError(
            f"stages is some of {STAGES} in order, each once; got {run.stages} (as a flag: "
            """--config.stages="('sft', 'rl')" or --config.stages=rl)"""
        )
    if not 0 <= run.seed < SEEDS:
        raise ValueError(f"seed must be at least 0 and below {SEEDS}, got {run.seed}")
    if "rl" in run.stages:
        _check_rl(run)
    check_training(to_json(run))
    if max(run.rollout.limits, default=0) > run.decode.max_new_tokens:
        raise ValueError(
            f"rollout.limits {run.rollout.limits} go beyond decode.max_new_tokens, "
            f"{run.decode.max_new_tokens}"
        )


def _check_rl(run: RunConfig) -> None:
    """Contradictions of the stage of RL."""
    if not run.objective.needs_reference and run.reference.mode != "none":
        raise ValueError(f'reference.mode "{run.reference.mode}" has no effect: kl.place is "none"')
    validate(_as_sections(run))
    if run.critic.enabled and run.critic.warmup_steps >= run.rl.steps:
        raise ValueError(
            f"the critic's warm-up takes {run.critic.warmup_steps} of {run.rl.steps} rl.steps: the "
            "policy would never be trained (set critic.warmup_steps or rl.steps)"
        )
    if run.learner.minibatches > run.rollout.prompts:
        raise ValueError(
            f"learner.minibatches {run.learner.minibatches}: a rollout has {run.rollout.prompts} "
            "prompts, and a minibatch at least one of them"
        )
    samples, control = run.rollout.prompts * run.rollout.group, run.kl_control
    if control.target is not None and AdaptiveKL.most * samples >= control.horizon:
        raise ValueError(
            f"kl_control.horizon {control.horizon:g} is too short: a step has {samples} samples "
            f"and could turn the coefficient's sign; it must be above {AdaptiveKL.most * samples:g}"
        )
    for key, value in (("temperature", 0), ("top_k", 1)):
        if getattr(run.sampling, key) == value:
            says = f"sampling.{key} {value} samples the same completion every time: no signal"
            raise ValueError(says)
    updates = run.learner.minibatches * run.learner.epochs
    if updates > 1 and isinstance(run.objective.loss, PolicyGradient):
        log.warning(
            'loss "policy_gradient" has no importance ratio: of the %d updates a rollout '
            "(learner.minibatches, epochs) all but the first are off-policy, uncorrected",
            updates,
        )


def _check_effects(run: RunConfig, given: Mapping[str, Any]) -> None:
    """Keys that were set but change nothing."""
    for name in ("sft", *RL_ONLY):
        stage = "sft" if name == "sft" else "rl"
        if name in given and name != "learner" and stage not in run.stages:
            raise ValueError(f'config.{name} has no effect: there is no "{stage}" stage')
    for section, key, useless, reason in WITHOUT_EFFECT:
        if key in given.get(section, {}) and useless(run):
            raise ValueError(f"config.{section}.{key} has no effect: {reason}")


def _as_sections(run: RunConfig) -> Sections:
    """The built run as the plain sections that `choices` speaks of."""
    plain = to_json(run)
    return {key: plain[key] for key in (*RL_ONLY, "reward")}


def to_json(run: RunConfig) -> dict[str, Any]:
    """The whole configuration as plain data, defaults included; `from_json` reads it back."""
    parts = {f.name: getattr(run, f.name) for f in dataclasses.fields(run)}
    parts |= {name: getattr(run.objective, name) for name in BUILT_APART["objective"]}
    out = {}
    for name, value in parts.items():
        out[name] = dataclasses.asdict(value) if dataclasses.is_dataclass(value) else value
        if isinstance(SECTIONS.get(name), Registry):
            out[name] = {"name": _entry_name(SECTIONS[name], value)} | out[name]
    for section, names in TAKEN_FROM.items():
        for name in BUILT_APART.get(section, ()) + names:
            del out[section][name]
    return out


def _entry_name(registry: Registry, value: Any) -> str:
    return next(name for name in registry if registry[name] is type(value))
