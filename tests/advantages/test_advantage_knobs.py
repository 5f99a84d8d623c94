"""No dead field: every hyper-parameter of every estimator changes what it returns."""

import dataclasses

import numpy as np
import pytest

from rlvr_jax.advantages import ADVANTAGES
from rlvr_jax.batch import AdvantageInputs

F32 = np.float32
STD = {"ddof": None, "eps": 0.5, "tol": 10.0}  # ddof: the other one

OTHER = {
    "constant": {"baseline": 0.5},
    "batch_mean": {},
    "running_mean": {"alpha": 0.5},
    "group": STD | {"std": "batch"},
    "rloo": {"tol": 10.0},
    "opo": {"tol": 10.0},
    "gpg": {"scale": 2.0, "tol": 10.0},
    "log_mean_exp": {"tau": 5.0, "tol": 10.0},
    "passk": {"k": 2},
    "pkpo": {"k": 2, "variance_baseline": "loo", "tol": 10.0},
    "gdpo": STD | {"weights": (1.0, 0.2), "batch_std": False},
    "process": STD,
    "magistral": STD,
    "reinforce_pp": STD | {"gamma": 0.5},
    "reinforce_pp_baseline": STD,
    "remax": {},
    "gae": {"gamma": 0.5, "lam_policy": 0.5, "lam_value": 0.5, "length_alpha": 0.3, "whiten": True},
}


def make_inputs():
    rng = np.random.default_rng(0)
    mask_BT = np.arange(6) < rng.integers(1, 7, 18)[:, None]
    reward_NG = rng.choice([0.0, 0.3, 1.0], size=(3, 6)).astype(F32)
    end_BT = mask_BT & (rng.uniform(size=mask_BT.shape) < 0.5)
    return AdvantageInputs(
        reward_NG=reward_NG,
        valid_NG=np.ones((3, 6), bool),
        mask_BT=mask_BT,
        value_BT=rng.uniform(size=mask_BT.shape).astype(F32),
        greedy_reward_N=np.zeros(3, F32),
        correct_NG=np.arange(6) < np.array([[1], [2], [3]]),
        step_reward_BT=rng.uniform(size=mask_BT.shape).astype(F32),
        step_end_BT=end_BT,
        reward_parts_CNG=rng.normal(size=(2, 3, 6)).astype(F32),
        running_baseline=F32(0.2),
    )


def test_the_table_holds_every_field():
    for name in ADVANTAGES:
        fields = {f.name for f in dataclasses.fields(ADVANTAGES[name])}
        assert fields - {"parts"} == set(OTHER[name]), name  # parts: test_catalogue.py


def outcome(estimator, x):
    parts = [np.asarray(estimator(x))]
    if hasattr(estimator, "returns"):
        parts.append(np.asarray(estimator.returns(x)))
    if hasattr(estimator, "update"):
        parts.append(np.asarray(estimator.update(x)))
    return parts


@pytest.mark.parametrize("name, field", [(n, f) for n in OTHER for f in OTHER[n]])
def test_field_acts(name, field):
    plain, value = ADVANTAGES[name](), OTHER[name][field]
    if field == "ddof":
        value = 1 - plain.ddof
    changed = dataclasses.replace(plain, **{field: value})
    pairs = zip(outcome(plain, make_inputs()), outcome(changed, make_inputs()), strict=True)
    assert any(np.abs(a - b).max() > 1e-4 for a, b in pairs)
