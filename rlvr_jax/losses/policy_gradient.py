"""The plain policy gradient."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax

from rlvr_jax.batch import LossInputs, Metrics
from rlvr_jax.losses.base import LOSSES, under_mask, weighted_sum


@LOSSES.register("policy_gradient")
@dataclasses.dataclass(frozen=True)
class PolicyGradient:
    """l_t = -A_t log pi(o_t).  Williams 1992; RLOO, arXiv 2402.14740; GPG, arXiv 2504.02546.

    No ratio: the policy that sampled is assumed to be the one that is updated.  The value is not
    comparable with that of a ratio loss, the on-policy gradient is.
    """

    level: ClassVar[str] = "token"

    def __call__(self, x: LossInputs) -> tuple[jax.Array, Metrics]:
        x = under_mask(x)
        return weighted_sum(-x.adv_BT * x.logp_BT, x), {}
