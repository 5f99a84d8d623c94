"""The layers of a parameter tree: stacked leaves, in one stack or two.

`layers` holds them all, but where a mixture of experts begins with dense layers (DeepSeek-V3) these
are a stack of their own, `dense/layers`, which runs first.  What is scanned has one shape of layer,
and leaves for both kinds in every layer would multiply the memory.  The end of a leaf's path is the
same in both, so sharding and weight decay need to know nothing of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from rlvr_jax.models.config import ModelConfig


def sizes(config: ModelConfig) -> list[int]:
    """Layers of each stack."""
    first = config.moe.dense_layers
    return [size for size in (first, config.layers - first) if size]


def stacks(config: ModelConfig, params: dict[str, Any]) -> tuple[dict, ...]:
    """What runs one after the other: a dict a layer where they are unrolled (do this outside a
    loop, not in its body), else a dict a stack."""
    if isinstance(params["layers"], tuple):
        return params["layers"]
    found = (*([params["dense"]["layers"]] if "dense" in params else []), params["layers"])
    if not config.unroll:
        return found
    return tuple(
        jax.tree.map(lambda x, i=i: x[i], stack)
        for stack, size in zip(found, sizes(config), strict=True)
        for i in range(size)
    )


def split(config: ModelConfig, each: Sequence) -> list[Sequence]:
    """An entry a layer, as the runs that belong to each stack."""
    first = sizes(config)[0]
    return [part for part in (each[:first], each[first:]) if part]


def layers_of(params: dict[str, Any]) -> dict[str, Any]:
    """The stacks of `params`, without what is around them."""
    return {name: params[name] for name in ("dense", "layers") if name in params}
