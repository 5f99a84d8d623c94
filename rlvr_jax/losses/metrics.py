"""How metrics of micro-batches become metrics of a minibatch.

A metric is (sum, count).  Three conventions, told apart by name and count:

    mean    the usual case: sums and counts add up, and are divided once at the end
    total   count 0: the sums add up to the minibatch's value (losses under global weights)
    `_max`  a name that ends in `_max` is merged by maximum; its values are never negative, so 0 is
            the neutral start

Quotients of two means (effective sample size) are derived at the end, from moments that do add up.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rlvr_jax.batch import Metrics


def merge_metrics(a: Metrics, b: Metrics) -> Metrics:
    """Metrics of two micro-batches of one minibatch.  Both must have the same names."""
    return {
        name: tuple(
            jnp.maximum(p, q) if name.endswith("_max") else p + q
            for p, q in zip(a[name], b[name], strict=True)
        )
        for name in a
    }


def finish_metrics(metrics: Metrics) -> dict[str, jax.Array]:
    """Divide once, and derive what is a quotient of means.

    <p>ess = <p>mean^2 / <p>sq_mean, for prefixes `mismatch/is_` and `mismatch/raw_is_`: the
    effective sample size (sum w)^2 / (n sum w^2) as a share of the sample, in (0, 1].
    """
    done = {
        name: total
        if name.endswith("_max")
        else jnp.where(count > 0, total / jnp.maximum(count, 1), total)
        for name, (total, count) in metrics.items()
    }
    for prefix in ("mismatch/is_", "mismatch/raw_is_"):
        if f"{prefix}sq_mean" in done:
            square = done.pop(f"{prefix}sq_mean")
            done[f"{prefix}ess"] = done[f"{prefix}mean"] ** 2 / jnp.maximum(square, 1e-30)
    return done
