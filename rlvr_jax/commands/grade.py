"""rlvr grade, with the reward models that a reward names served on this machine's devices."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from rlvr_jax import grade
from rlvr_jax.commands import flags
from rlvr_jax.rewards import Reward


def main(args: Sequence[str]) -> int:
    return grade.main(args, serve)


@contextlib.contextmanager
def serve(reward: Reward) -> Iterator[None]:
    """Every device holds the whole model, in float32; jax is imported for rewards with models."""
    if not reward.models:
        yield
        return
    flags.prepare_process()
    from rlvr_jax.models.config import ModelConfig
    from rlvr_jax.packing import PackConfig
    from rlvr_jax.reward_model import reward_models
    from rlvr_jax.sharding import MeshConfig, make_mesh

    mesh = make_mesh(MeshConfig(data=-1, fsdp=1))
    with reward_models(reward, ModelConfig(), PackConfig(), mesh):
        yield
