"""No dead field: every hyper-parameter of every loss changes what the loss does."""

import dataclasses

import jax
import loss_oracle as oracle
import numpy as np
import pytest

from rlvr_jax.losses import LOSSES

OTHER = {
    "clipped": {"eps_low": 0.05, "eps_high": 0.05},
    "dual_clip": {"eps_low": 0.05, "eps_high": 0.05, "dual": 1.3},
    "two_sided": {"eps_low": 0.05, "eps_high": 0.05, "delta": 1.3},
    "gspo": {"eps_low": 0.1, "eps_high": 0.1},
    "gspo_token": {"eps_low": 0.1, "eps_high": 0.1},
    "gmpo": {"clip_log": 0.05},
    "cispo": {"is_floor": 0.9, "is_cap": 1.1},
    "topr": {},
    "vespo": {"k_pos": 1.0, "lam_pos": 1.0, "k_neg": 1.0, "lam_neg": 1.0},
    "sapo": {"tau_pos": 2.0, "tau_neg": 2.0},
    "mirror_descent": {"tau": 2.0},
    "policy_gradient": {},
    "clip_cov": {"eps_low": 0.05, "eps_high": 0.05, "share": 0.5, "cov_low": -9.0, "cov_high": 1.5},
    "kl_cov": {"share": 0.5, "penalty": 3.0},
}


def test_the_table_holds_every_field():
    for name in LOSSES:
        assert {f.name for f in dataclasses.fields(LOSSES[name])} == set(OTHER[name]), name


def outcome(loss, x):
    if hasattr(loss, "pick"):
        x = dataclasses.replace(x, picked_BT=np.asarray(loss.pick(x)))
    return float(loss(x)[0])


@pytest.mark.parametrize("name, field", [(n, f) for n in OTHER for f in OTHER[n]])
def test_field_acts(name, field):
    base = {"share": 1.0} if name == "clip_cov" and field.startswith("cov") else {}
    x = oracle.make_inputs(3, rows=24, width=6, spread=0.6)
    x = dataclasses.replace(x, adv_BT=3 * x.adv_BT)
    x = jax.tree.map(lambda a: a if a.dtype == bool else a.astype(np.float32), x)
    plain = LOSSES.make(name, **base)
    changed = LOSSES.make(name, **(base | {field: OTHER[name][field]}))
    assert outcome(plain, x) != outcome(changed, x)
