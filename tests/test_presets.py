"""The table of published methods: complete, consistent, and what its papers say."""

import pathlib

import pytest

from rlvr_jax import presets
from rlvr_jax.advantages import ADVANTAGES
from rlvr_jax.choices import make, make_objective, validate
from rlvr_jax.losses import LOSSES
from rlvr_jax.presets import PRESETS

DOCS = pathlib.Path(__file__).resolve().parents[1] / "docs" / "algorithms.md"

CRITICS = ["ppo", "orz_ppo", "vc_ppo", "vapo"]
BASELINES = ["reinforce", "rloo", "reinforce_pp", "reinforce_pp_baseline", "remax", "opo", "gpg"]
GROUPS = ["grpo", "dr_grpo", "dapo", "magistral", "lite_ppo", "prorl", "skywork_or1", "scalerl"]
RATIOS = ["gspo", "gspo_token", "cispo", "minimax_m1", "sapo", "gmpo", "kimi_k15"]
OTHERS = ["passk_grpo", "pkpo", "klcov", "clipcov"]
NAMES = CRITICS + BASELINES + GROUPS + RATIOS + OTHERS

SECTIONS = {
    "advantage",
    "loss",
    "aggregation",
    "objective",
    "kl",
    "kl_control",
    "entropy",
    "correction",
    "rollout",
    "sampling",
    "shaping",
    "curriculum",
    "reference",
    "critic",
    "learner",
}


def test_all_thirty_are_there():
    assert len(NAMES) == 30
    assert sorted(PRESETS) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_complete_and_free_of_contradiction(name):
    row = presets.preset(name)
    assert row.name == name and row.equation and row.numbers
    assert "arXiv" in row.paper
    assert {"advantage", "loss", "aggregation"} <= set(row.overrides) <= SECTIONS
    validate(row.overrides)
    objective = make_objective(row.overrides)
    assert objective.loss == make(LOSSES, row.overrides["loss"])
    make(ADVANTAGES, row.overrides["advantage"])


def test_no_two_rows_choose_the_same():
    rows = [repr(sorted(row.overrides.items())) for row in PRESETS.values()]
    assert len(set(rows)) == len(rows)


@pytest.mark.parametrize(
    "name, section, field, value",
    [
        ("rloo", "kl", "coef", 0.03),
        ("rloo", "kl", "place", "reward"),
        ("grpo", "kl", "coef", 0.04),
        ("grpo", "kl", "estimator", "k3"),
        ("dr_grpo", "aggregation", "mode", "const"),
        ("dr_grpo", "advantage", "std", "none"),
        ("dapo", "loss", "eps_high", 0.28),
        ("dapo", "rollout", "dynamic_sampling", True),
        ("gspo", "loss", "eps_low", 3e-4),
        ("gspo", "loss", "eps_high", 4e-4),
        ("sapo", "loss", "tau_neg", 1.05),
        ("gmpo", "loss", "clip_log", 0.4),
        ("prorl", "loss", "eps_high", 0.4),
        ("prorl", "sampling", "temperature", 1.2),
        ("prorl", "reference", "reset_optimizer", True),
        ("skywork_or1", "entropy", "target", 0.2),
        ("scalerl", "loss", "is_cap", 5.0),
        ("scalerl", "aggregation", "mode", "prompt_token_mean"),
        ("orz_ppo", "advantage", "lam_policy", 1.0),
        ("vc_ppo", "advantage", "lam_policy", 0.95),
        ("vc_ppo", "advantage", "lam_value", 1.0),
        ("vapo", "advantage", "length_alpha", 0.05),
        ("vapo", "objective", "nll_coef", 0.1),
        ("pkpo", "advantage", "variance_baseline", "loo_minus_one"),
        ("klcov", "loss", "share", 2e-4),
        ("magistral", "shaping", "soft_overlong_scale", 0.1),
        ("scalerl", "curriculum", "retire_at", 0.9),
        ("orz_ppo", "critic", "minibatches", 12),
    ],
)
def test_numbers_of_the_papers(name, section, field, value):
    assert PRESETS[name].overrides[section][field] == value


def test_unknown_names_get_the_nearest():
    with pytest.raises(ValueError, match='did you mean "dr_grpo"'):
        presets.preset("drgrpo")


def test_docs_hold_the_table_of_this_version():
    """docs/algorithms.md is written by hand around a table that `presets.table` writes."""
    assert presets.table() in DOCS.read_text()


def test_docs_name_every_loss_and_advantage():
    text = DOCS.read_text()
    for name in [*LOSSES, *ADVANTAGES]:
        assert f"`{name}`" in text, name
