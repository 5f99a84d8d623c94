"""Verifiers: a completion and its problem in, a `Verdict` out.  Host code; nothing imports jax.

Read base.py (what a reward is), then numeric.py as the shortest example, then pool.py (the killable
workers).  The math verifier begins at math_equal.py.  A new file in this folder registers itself.
"""

from rlvr_jax.registry import discover
from rlvr_jax.rewards.base import REWARDS, Example, Reward
from rlvr_jax.rewards.choice import choice_equal
from rlvr_jax.rewards.grading import InlineGrader, grade_all, make_grader
from rlvr_jax.rewards.math_reward import math_equal
from rlvr_jax.rewards.pool import Pending, RewardPool

__all__ = [
    "REWARDS",
    "Example",
    "Reward",
    "InlineGrader",
    "Pending",
    "RewardPool",
    "choice_equal",
    "grade_all",
    "make_grader",
    "math_equal",
]

discover(__name__, __path__)
