"""Low-rank adapters (LoRA, Hu et al. 2021, arXiv 2106.09685), without dropout.

A matrix W [in, out] of the frozen base becomes W + scale A B, with A [in, r], B [r, out] and
scale = alpha / r.  B begins at zero, so the first policy is the base.  Adapters are leaves beside
the matrices they adapt: `layers/q_lora_a` [L, in, r] and `layers/q_lora_b` [L, r, out], float32
whatever the type of the base.  The block adds them where it finds them, so scoring, prefill and
decoding need to know nothing of it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

TARGETS = ("q", "k", "v", "o", "gate", "up", "down")
MORE_TARGETS = ("q_a", "q_b", "kv_a", "kv_b", "shared_gate", "shared_up", "shared_down")  # DeepSeek
A, B = "_lora_a", "_lora_b"


@dataclasses.dataclass(frozen=True)
class LoraConfig:
    """rank 0 = off: every parameter is trained.  A stage begins with fresh adapters; those of the
    stage before have become part of its base."""

    rank: int = 0
    alpha: float = 32.0  # the adapters' product counts alpha / rank
    targets: tuple[str, ...] = TARGETS
    stages: tuple[str, ...] = ()  # that train adapters, e.g. ("rl",) after a full sft; () = all

    def __post_init__(self):
        if self.rank < 0 or self.alpha <= 0:
            raise ValueError(
                f"lora.rank must not be negative and lora.alpha must be positive; got {self.rank}, "
                f"{self.alpha}"
            )
        bad = [name for name in self.targets if name not in TARGETS + MORE_TARGETS]
        if bad or not self.targets or len(set(self.targets)) < len(self.targets):
            raise ValueError(
                f"lora.targets is some of {', '.join(TARGETS + MORE_TARGETS)}, each once; "
                f"got {self.targets}"
            )

    @property
    def scale(self) -> float:
        return self.alpha / self.rank if self.rank else 1.0

    def trains(self, stage: str) -> bool:
        """Does this stage train adapters?"""
        return self.rank > 0 and (not self.stages or stage in self.stages)


def init_adapters(config: LoraConfig, base: Mapping[str, Any], key: jax.Array) -> dict[str, Any]:
    """First adapters for `base` (arrays or shapes): A normal with variance 1 / in, B zero.  Of two
    stacks of layers, a target is adapted in those that have it."""
    stacks = [base["layers"], base.get("dense", {}).get("layers", {})]
    known = [
        name
        for name in TARGETS + MORE_TARGETS
        if any(name in stack and stack[name].ndim == 3 for stack in stacks)
    ]
    bad = [name for name in config.targets if name not in known]
    if bad:
        raise ValueError(
            f"lora.targets: a layer of this model has no single matrix {', '.join(bad)} (it has: "
            f"{', '.join(known)})"
        )
    out = {"layers": _first(config, stacks[0], key)}
    if stacks[1]:
        out["dense"] = {"layers": _first(config, stacks[1], jax.random.fold_in(key, 1))}
    return out


def _first(config: LoraConfig, layers: Mapping[str, Any], key: jax.Array) -> dict[str, jax.Array]:
    out = {}
    for name, one in zip(config.targets, jax.random.split(key, len(config.targets)), strict=True):
        if name in layers and layers[name].ndim == 3:
            count, rows, columns = layers[name].shape
            shape = (count, rows, config.rank)
            out[name + A] = rows**-0.5 * jax.random.normal(one, shape, jnp.float32)
            out[name + B] = jnp.zeros((count, config.rank, columns), jnp.float32)
    return out


def adapter_names(names: Iterable[str]) -> list[str]:
    """Those of the names of a layer's leaves that are adapters."""
    return [name for name in names if name.endswith((A, B))]


def join(base: Mapping[str, Any] | None, trained: Any) -> Any:
    """The parameters of the network: `trained` alone, or adapters among the leaves of their base.
    No array is copied."""
    if base is None:
        return trained
    return {**base, **{name: join(base.get(name), part) for name, part in trained.items()}}


def merge(params: Mapping[str, Any], scale: float, dtype: Any = None) -> dict[str, Any]:
    """Plain weights: W + scale A B, summed in float32, in W's place.  Arrays without adapters are
    handed on as they are.

    dtype: of the sums; None = W's, which rounds away what is small beside W.  Only in float32 are
    the logits those of the adapters whatever the type of the base.
    """
    out = {k: merge(v, scale, dtype) if isinstance(v, Mapping) else v for k, v in params.items()}
    for name in [n.removesuffix(A) for n in out if n.endswith(A)]:
        a, b, w = out.pop(name + A), out.pop(name + B), out[name]
        put = functools.partial(jax.jit, static_argnums=(3, 4), out_shardings=w.sharding)
        out[name] = put(_merged)(w, a, b, scale, jnp.dtype(dtype or w.dtype))
    return out


def _merged(w: jax.Array, a: jax.Array, b: jax.Array, scale: float, dtype: Any) -> jax.Array:
    exact = jax.lax.Precision.HIGHEST
    product = jnp.einsum("lir,lro->lio", a, b, precision=exact)
    return (w.astype(jnp.float32) + scale * product).astype(dtype)
