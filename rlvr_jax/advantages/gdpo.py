"""Several rewards, each normalised on its own."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from rlvr_jax.advantages.base import ADVANTAGES, check_inputs, check_normaliser
from rlvr_jax.advantages.group import centre_groups
from rlvr_jax.advantages.whitened import whiten
from rlvr_jax.batch import AdvantageInputs
from rlvr_jax.masking import masked_std, per_token


@ADVANTAGES.register("gdpo")
@dataclasses.dataclass(frozen=True)
class Gdpo:
    """A = sum_c weight_c (R_c - mean) / (std + eps) in the group, then divided by the batch's std.

    Liu et al., arXiv 2601.05242.  Rewards that are summed before they are normalised
    let different combinations collapse to one advantage; here each component keeps its say.
    parts: in a run, the names of the components among the parts of the verdicts.
    weights: one per component; empty means all 1.  batch_std False leaves out the last division.
    Reads `reward_parts_CNG` and not the summed reward.
    """

    parts: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()
    batch_std: bool = True
    ddof: int = 1
    eps: float = 1e-6
    tol: float = 1e-6
    needs: ClassVar[tuple[str, ...]] = ("reward_parts_CNG",)
    takes_kl: ClassVar[bool] = False
    by_token: ClassVar[str] = "never"
    promises: ClassVar[frozenset[str]] = frozenset({"unanimous", "shift", "scale"})

    def __post_init__(self):
        check_normaliser(self.ddof, self.eps, self.tol)
        if self.parts and len(self.weights) not in (0, len(self.parts)):
            raise ValueError(f"gdpo has {len(self.weights)} weights for {len(self.parts)} parts")
        if self.weights and not any(self.weights):
            raise ValueError(f"gdpo: with weights {self.weights} no part counts")

    def __call__(self, x: AdvantageInputs) -> jax.Array:
        check_inputs(self, x)
        parts = x.reward_parts_CNG.shape[0]
        weights = self.weights or (1.0,) * parts
        if len(weights) != parts:
            raise ValueError(f"gdpo has {len(weights)} weights for {parts} reward components")
        adv_NG = jnp.zeros_like(x.reward_NG)
        for weight, reward_NG in zip(weights, x.reward_parts_CNG, strict=True):
            centred_NG = centre_groups(reward_NG, x.valid_NG, self.tol)
            std_N1 = masked_std(reward_NG, x.valid_NG, 1, ddof=self.ddof, keepdims=True)
            scale_N1 = jnp.where(std_N1 + self.eps > 0, std_N1 + self.eps, 1.0)
            adv_NG = adv_NG + weight * centred_NG / scale_N1
        if self.batch_std:
            adv_NG = whiten(
                adv_NG, x.valid_NG, ddof=self.ddof, eps=self.eps, tol=self.tol, centre=False
            )
        return per_token(adv_NG, x.mask_BT)
