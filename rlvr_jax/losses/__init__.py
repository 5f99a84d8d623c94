"""Policy objectives: token losses that are summed under the weights of `masking.token_weights`.

Read `base`, then `clipped`, then `objective`.  A new loss is one file in this folder.
"""

from rlvr_jax.losses.base import LOSSES, Loss
from rlvr_jax.losses.control import AdaptiveEntropy, AdaptiveKL
from rlvr_jax.losses.correction import Correction
from rlvr_jax.losses.kl import KL
from rlvr_jax.losses.metrics import finish_metrics, merge_metrics
from rlvr_jax.losses.objective import Coefs, Objective
from rlvr_jax.losses.value import ValueLoss
from rlvr_jax.registry import discover

__all__ = [
    "KL",
    "LOSSES",
    "AdaptiveEntropy",
    "AdaptiveKL",
    "Coefs",
    "Correction",
    "Loss",
    "Objective",
    "ValueLoss",
    "finish_metrics",
    "merge_metrics",
]

discover(__name__, __path__)
