"""All sharding, in one table.  No axis name is written anywhere else.

Mesh axes: `data` replicates parameters and splits the batch; `fsdp` splits both; `tensor` splits
heads, the MLP's width and the vocabulary.  A parameter's rule is found by the end of its path, so
optimizer moments, gradients and accumulators inherit it.
"""

from __future__ import annotations

import dataclasses
import math
import re

import jax
import numpy as np
from jax.experimental import mesh_utils
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

AXES = ("data", "fsdp", "tensor")
BATCH = ("data", "fsdp")

RULES: tuple[tuple[str, P], ...] = (  # end of the path, spec of the leaf (layers stacked first)
    (r"(embed|head)$", P("tensor", "fsdp")),
    (r"layers/(q|k|v|q_b|kv_b|(shared_)?(gate|up))$", P(None, "fsdp", "tensor")),
    (r"layers/(o|(shared_)?down)$", P(None, "tensor", "fsdp")),
    (r"layers/(router|q_a|kv_a)$", P(None, "fsdp", None)),  # a latent is of all heads: not split
    (r"layers/expert_(gate|up)$", P(None, None, "fsdp", "tensor")),
    (r"layers/expert_down$", P(None, None, "tensor", "fsdp")),
    (r"layers/(q|k|v|q_b|kv_b|(shared_)?(gate|up))_lora_b$", P(None, None, "tensor")),
    (r"layers/(o|(shared_)?down)_lora_a$", P(None, "tensor", None)),  # the rank is never split
    (r"layers/(o|(shared_)?down)_lora_b$", P(None, None, "fsdp")),
    (r"layers/(q_a|kv_a)_lora_b$", P(None, None, None)),
    (r"layers/\w+_lora_a$", P(None, "fsdp", None)),
    (r"layers/(q|k|v)_bias$", P(None, "tensor")),
    (r"layers/(o_bias|q_a_bias|kv_a_bias|router_bias|\w*norm)$", P(None, None)),
    (r"value_head/(weight|bias)$", P()),
    (r"final_norm$", P(None)),
    (r"(count|step|notfinite_count|total_notfinite|last_finite)$", P()),
)

LOGICAL = {"batch": BATCH, "heads": "tensor", "mlp": "tensor", "vocab": "tensor", None: None}


@dataclasses.dataclass(frozen=True)
class MeshConfig:
    """Devices along each axis; -1 (at most one) takes what is left."""

    data: int = 1
    fsdp: int = -1
    tensor: int = 1


def make_mesh(config: MeshConfig, devices: list | None = None) -> Mesh:
    """A mesh over all devices, or over the first data * fsdp * tensor of `devices` if given."""
    devices = jax.devices() if devices is None else devices
    sizes = [config.data, config.fsdp, config.tensor]
    if sizes.count(-1) > 1 or any(s < 1 and s != -1 for s in sizes):
        raise ValueError(f"mesh sizes are positive, at most one of them -1; got {tuple(sizes)}")
    fixed = math.prod(s for s in sizes if s != -1)
    if -1 in sizes and len(devices) % fixed:
        raise ValueError(
            f"mesh data x fsdp x tensor = {sizes[0]} x {sizes[1]} x {sizes[2]}: {fixed} does not "
            f"divide the number of devices, {len(devices)}"
        )
    sizes = [len(devices) // fixed if s == -1 else s for s in sizes]
    if math.prod(sizes) != len(devices):
        raise ValueError(
            f"mesh data x fsdp x tensor = {sizes[0]} x {sizes[1]} x {sizes[2]} "
            f"does not use the {len(devices)} devices exactly"
        )
    grid = mesh_utils.create_device_mesh(
        tuple(sizes), np.asarray(devices), allow_split_physical_axes=True
    )
    return Mesh(grid, AXES)


def path_name(path: tuple) -> str:
    """'layers/q' for a jax key path."""
    return "/".join(str(getattr(k, "key", getattr(k, "name", getattr(k, "idx", k)))) for k in path)


def leaf_spec(path: tuple, leaf) -> P:
    """The rule of one leaf; ValueError naming it if there is none or a dimension does not
    divide."""
    name = path_name(path)
    for pattern, spec in RULES:
        if re.search(r"(^|/)" + pattern, name):
            return spec if getattr(leaf, "ndim", 0) else P()
    if getattr(leaf, "ndim", 0) == 0:
        return P()
    raise ValueError(f'no sharding rule matches "{name}" of shape {leaf.shape}; add one to RULES')


def tree_shardings(tree, mesh: Mesh):
    """A NamedSharding for every leaf of `tree` (arrays or ShapeDtypeStructs)."""

    def one(path, leaf):
        spec = leaf_spec(path, leaf)
        for size, axis in zip(leaf.shape, spec, strict=False):
            if axis is not None and size % mesh.shape[axis]:
                raise ValueError(
                    f'"{path_name(path)}" of shape {leaf.shape} cannot be split over mesh axis '
                    f'"{axis}" of size {mesh.shape[axis]}: {size} is not a multiple of it'
                )
        return NamedSharding(mesh, spec)

    return jax.tree_util.tree_map_with_path(one, tree)


def batch_shards(mesh: Mesh) -> int:
    """How many ways the batch is split: row counts are multiples of this."""
    return math.prod(mesh.shape[a] for a in BATCH)


def batch_sharding(mesh: Mesh) -> NamedSharding:
    """First dimension over the batch axes."""
    return NamedSharding(mesh, P(BATCH))


def replicated(mesh: Mesh) -> NamedSharding:
    return NamedSharding(mesh, P())


def constrain(x: jax.Array, mesh: Mesh | None, *names: str | None) -> jax.Array:
    """Pin an activation's layout by logical names, e.g. constrain(x, mesh, "batch", None,
    "heads")."""
    if mesh is None or mesh.size == 1:
        return x
    axes = tuple(
        None if name is None or x.shape[i] % _axis_size(mesh, LOGICAL[name]) else LOGICAL[name]
        for i, name in enumerate(names)
    )
    return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P(*axes)))


def by_rows(function, mesh: Mesh | None, x: jax.Array, arrays: tuple, names: tuple) -> jax.Array:
    """function(x, *arrays) on every device's own rows of x, where the compiler would gather all
    rows: sorting, scattering.  `names` are the logical names of each array's dimensions; of a
    dimension with a name a device has its part, and the results of the parts are added up."""
    if mesh is None or mesh.size == 1 or x.shape[0] % batch_shards(mesh):
        return function(x, *arrays)
    specs = tuple(P(*(LOGICAL[name] for name in dims)) for dims in names)

    def own(x, *arrays):
        return jax.lax.psum(function(x, *arrays), LOGICAL["mlp"])

    own = jax.shard_map(own, mesh=mesh, in_specs=(P(BATCH), *specs), out_specs=P(BATCH))
    return own(x, *arrays)


def _axis_size(mesh: Mesh, axes) -> int:
    return math.prod(mesh.shape[a] for a in ((axes,) if isinstance(axes, str) else axes))


def put(tree, shardings):
    """Host arrays to the devices; every process holds the whole array and gives its own slices."""

    def one(x, sharding):
        if sharding.is_fully_addressable:
            return jax.device_put(x, sharding)
        x = np.asarray(x)
        return jax.make_array_from_callback(x.shape, sharding, lambda index: x[index])

    return jax.tree.map(one, tree, shardings)


def put_batch(tree, mesh: Mesh):
    """Every array of `tree` to the devices, first dimension over the batch axes."""
    sharding = batch_sharding(mesh)
    return put(tree, jax.tree.map(lambda _: sharding, tree))
