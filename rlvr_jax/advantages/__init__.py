"""Advantage estimators: rewards of samples in, one constant per token out.

Read `base`, then `group`.  A new estimator is one file in this folder.
"""

from rlvr_jax.advantages.base import ADVANTAGES, Advantage
from rlvr_jax.registry import discover

__all__ = ["ADVANTAGES", "Advantage"]

discover(__name__, __path__)
