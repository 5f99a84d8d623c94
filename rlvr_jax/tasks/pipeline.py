"""The order in which a run meets its problems.

The stream is random access, so the whole state of the pipeline is one integer: how many problems
were taken.  It is endless; position i lies in epoch ``i // len(split)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlvr_jax.tasks.base import Split, addressed_rng

if TYPE_CHECKING:
    import grain


def stream(split: Split, seed: int, shuffle: bool = True) -> grain.MapDataset:
    """``stream(split, seed)[i]``: the i-th problem to train on; epochs repeat for ever.

    Every epoch holds each problem once, in an order of its own that depends on (seed, epoch).
    ValueError for an empty split.
    """
    # Imported here because grain imports jax, which the host packages and the processes of
    # the reward pool must not.
    import grain

    if len(split) == 0:
        raise ValueError("cannot stream an empty split")
    source = grain.MapDataset.source(split)
    if shuffle:
        # grain seeds epoch e with seed + e; spread out, runs with seeds 0 and 1 do not share orders
        source = source.shuffle(seed=addressed_rng("shuffle", seed).getrandbits(32))
    return source.repeat()
