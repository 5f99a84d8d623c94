"""Eight devices give what one gives: the sums and the choices are those of the whole minibatch."""

import dataclasses

import jax
import loss_oracle as oracle
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from rlvr_jax.losses import LOSSES, Correction, Objective

AXES = ("rows",)


@pytest.mark.parametrize("name", ["clipped", "gspo", "clip_cov"])
def test_rows_on_eight_devices(name):
    devices = jax.devices()
    if len(devices) < 8:
        pytest.skip(f"needs 8 devices, there are {len(devices)}")
    mesh = Mesh(np.array(devices[:8]), AXES)
    top = 1.0 if name == "gspo" else 0.5
    fields = {"share": 0.3, "cov_low": 0.0, "cov_high": 9.0} if name == "clip_cov" else {}
    objective = Objective(
        loss=LOSSES.make(name, **fields),
        correction=Correction(level="sequence", high=1.1),
        entropy_coef=0.01,
        top_entropy=top,
    )
    x = oracle.make_inputs(7, rows=16, width=6)
    x = jax.tree.map(lambda a: a if a.dtype == bool else a.astype(np.float32), x)

    @jax.jit
    def step(x):
        def value(logp_BT, x):
            return objective(dataclasses.replace(x, logp_BT=logp_BT))[0]

        return jax.value_and_grad(value)(x.logp_BT, objective.prepare(x))

    spread = jax.device_put(x, NamedSharding(mesh, PartitionSpec(AXES[0])))
    for one, eight in zip(step(x), step(spread), strict=True):
        np.testing.assert_allclose(one, eight, rtol=1e-5, atol=1e-7)
