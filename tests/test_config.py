"""The configuration: every key known, typed, read, and refused where it cannot be meant."""

import dataclasses
import importlib.util
import json
import pathlib

import pytest
from tiny_models import PLAIN, random_params

from rlvr_jax.config import SECTIONS, TOP, base, build, completed, fields_of, from_json, to_json
from rlvr_jax.critic import CriticConfig
from rlvr_jax.learner import OptimConfig
from rlvr_jax.models.hf import write_model
from rlvr_jax.presets import PRESETS
from rlvr_jax.registry import Registry

CONFIGS = sorted((pathlib.Path(__file__).resolve().parents[1] / "configs").glob("*.py"))


def load_module(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load(path):
    return load_module(path).get_config()


def quick(**changes):
    """The quickstart's config with dotted changes ("loss__eps_high" for loss.eps_high)."""
    config = load(next(p for p in CONFIGS if p.stem == "quickstart"))
    for name, value in changes.items():
        *path, last = name.split("__")
        part = config
        for key in path:
            part = part[key]
        part[last] = value
    return config


def test_a_nested_key_leaves_the_others_as_the_section_has_them():
    """critic.optim has defaults of its own, which are not those of optim."""
    own = CriticConfig().optim
    built = build(quick(algorithm="ppo", critic__optim__warmup_steps=7)).critic.optim
    assert built == dataclasses.replace(own, warmup_steps=7) and own != OptimConfig()
    assert build(quick(sft__optim__beta2=0.9)).sft.optim.beta2 == 0.9


def test_base_has_every_key_and_nothing_set():
    config = base()
    assert set(config) == {*TOP, *SECTIONS}
    for name, section in SECTIONS.items():
        assert set(config[name]) == set(fields_of(section, name))


def test_no_section_shadows_a_method_of_config_dict():
    for name in (*SECTIONS, *TOP):
        assert not callable(getattr(type(base()), name, None)), name


def test_fields_of_one_registry_agree_on_their_types():
    for name, section in SECTIONS.items():
        if isinstance(section, Registry):
            seen = {}
            for entry in section:
                for key, hint in fields_of(section[entry]).items():
                    assert seen.setdefault(key, hint) == hint, (name, entry, key)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A folder that stands for the weights a config starts from."""
    folder = tmp_path_factory.mktemp("weights") / "tiny"
    write_model(folder, PLAIN, random_params(PLAIN), "float32", {"eos_token_id": 1})
    return str(folder)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: p.stem)
def test_every_config_file_builds_and_says_what_to_expect(path, checkpoint):
    module = load_module(path)
    for row in getattr(module, "MODELS", [None]):
        config = module.get_config(row) if row else module.get_config()
        if config.model.path is not None:
            config.model.path = checkpoint
        assert to_json(build(config.copy_and_resolve_references()))["task"]["name"]
    text = path.read_text()
    assert text.startswith('"""') and "What to expect" in text and "rlvr run" in text


def test_json_round_trip():
    run = build(quick())
    assert from_json(json.loads(json.dumps(to_json(run)))) == run


def test_preset_fills_what_is_not_set():
    assert build(quick(algorithm="dapo", kl__coef=None)).objective.loss.eps_high == 0.28
    run = build(quick(algorithm="dapo", kl__coef=None, loss__eps_high=0.5))
    assert run.objective.loss.eps_high == 0.5
    off = build(quick(kl__coef=0.0))
    assert off.objective.kl.place == "none" and off.reference.mode == "none"


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_every_preset_is_known_to_the_config(name):
    unknown = set(PRESETS[name].overrides) - set(SECTIONS)
    assert not unknown


ON_POLICY = {"learner__minibatches": 1, "learner__old_logp": "recompute"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rollout__prompts": 0}, "rollout.prompts"),
        ({"stages": ("rl", "rl")}, "stages"),
        ({"stages": ("sft",)}, "no effect"),
        ({"reference__mode": "none"}, "reference"),
        ({"sampling__temperature": 0.0}, "temperature"),
        ({"sampling__top_k": 1}, "sampling.top_k 1 samples the same completion every time"),
        ({"optim__schedule": "constant"}, "no effect"),
        ({"aggregation__length_limit": 5}, "no effect"),
        ({"rollout__max_refills": 2}, "no effect"),
        ({"model__attn__kv_heads": 3}, "kv_heads"),
        ({"correction__high": 3.0}, "correction.high has no effect"),
        ({"algorithm": "dr_grpo", "advantage__ddof": 0}, "advantage.ddof has no effect"),
        ({"algorithm": "dapo", "kl__coef": None, "kl__force": True}, "kl.force has no effect"),
        (
            {"algorithm": "dapo", "kl__coef": None, "kl__estimator": "k1"},
            "kl.estimator has no effect",
        ),
        ({"algorithm": "prorl", "reference__every": 1000}, "reference.every has no effect"),
        ({"algorithm": "ppo", "critic__warmup_steps": 1000}, "never be trained"),
        ({"algorithm": "vapo", "rl__steps": 50}, "never be trained"),
        ({"learner__minibatches": 1000}, "a rollout has"),
        ({"shaping__kimi_length": 0.5, "shaping__kimi_after": 5000}, "kimi_length has no effect"),
        (
            {"algorithm": "kimi_k15", "loss__tau": 0.7} | ON_POLICY,
            "loss.tau has no effect",
        ),
        ({"loss__eps_high": 0.3} | ON_POLICY, "loss.eps_high has no effect"),
        (
            {"algorithm": "ppo", "critic__minibatches": 1, "critic__value_clip": 0.3},
            "critic.value_clip has no effect",
        ),
        ({"algorithm": "ppo", "critic__minibatches": 1000}, "critic.minibatches has no effect"),
        ({"rollout__limits": (24,)}, "rollout.limits has no effect"),
        ({"shaping__soft_overlong": 0.1, "shaping__soft_overlong_scale": 0.0}, "no effect"),
        ({"kl_control__target": 6.0, "kl_control__horizon": 51.0}, "horizon 51 is too short"),
        ({"entropy__target": 0.2, "entropy__low": -1.0}, "0 <= low"),
        ({"algorithm": "rloo", "advantage__tol": -1.0}, "tol must not be negative"),
        ({"algorithm": "opo", "advantage__tol": -1.0}, "tol must not be negative"),
        ({"algorithm": "gpg", "advantage__tol": -1.0}, "tol must not be negative"),
        ({"algorithm": "pkpo", "advantage__tol": -1.0}, "tol must not be negative"),
        ({"text__template": "a\udcff{prompt}"}, "text.template is not UTF-8"),
        ({"entropy__target": 0.2, "entropy__high": 0.0}, "high must be positive"),
        ({"reward__name": "numric"}, "numeric"),
    ],
)
def test_what_cannot_be_meant_is_refused(changes, said):
    with pytest.raises(ValueError, match=said):
        build(quick(**changes))


@pytest.mark.parametrize(
    ("changes", "useless"),
    [
        ({"algorithm": "ppo", "critic__minibatches": 32}, False),  # as many as prompts
        ({"algorithm": "ppo", "critic__minibatches": 33}, True),
        ({"algorithm": "prorl", "reference__every": 149}, False),
        ({"algorithm": "prorl", "reference__every": 150}, True),  # the last step
        ({"shaping__kimi_length": 0.5, "shaping__kimi_after": 149}, False),
        ({"shaping__kimi_length": 0.5, "shaping__kimi_after": 150}, True),
        ({"rollout__limits": (12, 24), "rollout__limit_steps": (149,)}, False),
        ({"rollout__limits": (12, 24), "rollout__limit_steps": (150,)}, True),
        ({"rollout__limits": (12, 16, 24), "rollout__limit_steps": (9, 150)}, True),
        ({"rollout__limits": (24, 24), "rollout__limit_steps": (9,)}, True),
        ({"algorithm": "clipcov", "loss__cov_high": 3.0}, False),
    ],
)
def test_the_edges_of_having_an_effect(changes, useless):
    config = quick(**({"learner__old_logp": "recompute", "learner__minibatches": 1} | changes))
    if useless:
        with pytest.raises(ValueError, match="has no effect"):
            build(config)
    else:
        build(config)


def test_bounds_act_where_the_ratio_can_leave_1():
    build(quick(learner__minibatches=2, learner__old_logp="recompute", loss__eps_high=0.3))
    build(quick(learner__minibatches=1, loss__eps_high=0.3))  # the sampler's log-probs are near
    build(quick(loss__eps_high=0.3, model__compute_dtype="bfloat16", **ON_POLICY))  # it rounds
    with pytest.raises(ValueError, match="loss.share has no effect"):
        build(quick(algorithm="klcov", loss__share=0.1, **ON_POLICY))
    clip = {"algorithm": "clipcov", "loss__share": 0.1}  # it leaves out tokens also then
    assert build(quick(**(clip | ON_POLICY))).objective.loss.share == 0.1


def test_a_saved_configuration_takes_the_defaults_of_keys_that_came_later():
    saved = to_json(build(quick()))
    old = {key: value for key, value in saved.items() if key != "interruption"}
    assert completed(old) == saved and completed({"seed": "x"}) == {"seed": "x"}


def test_a_loss_without_a_ratio_warns_of_several_updates(caplog):
    build(quick(algorithm="rloo", learner__minibatches=1))
    build(quick(algorithm="grpo", learner__minibatches=4))
    assert "importance ratio" not in caplog.text
    build(quick(algorithm="rloo", learner__minibatches=2, learner__epochs=3))
    assert "of the 6 updates a rollout" in caplog.text


def test_the_guard_of_updates_is_the_one_learner_key_of_a_warm_up_alone():
    alone = {"task": {"name": "arithmetic"}, "stages": ("sft",)}
    assert build(alone | {"learner": {"max_bad_updates": 2}}).learner.max_bad_updates == 2
    with pytest.raises(ValueError, match="learner.epochs has no effect: there is no rl stage"):
        build(alone | {"learner": {"epochs": 2}})


def test_plain_dicts_are_checked_like_config_dicts():
    with pytest.raises(ValueError, match="eps_high"):
        build({"task": {"name": "arithmetic"}, "loss": {"name": "clipped", "eps_hihg": 0.3}})
    with pytest.raises(ValueError, match="must be int"):
        build({"task": {"name": "arithmetic"}, "rl": {"steps": 1.5}})
    with pytest.raises(ValueError, match="rollout"):
        build({"task": {"name": "arithmetic"}, "rolout": {"prompts": 1}})
