"""Which tensor of a checkpoint holds which part of which parameter."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import jax

from rlvr_jax.sharding import path_name

DENSE = "dense/"  # how the paths of dense first layers begin


class Tensor(NamedTuple):
    """A tensor's name, with {layer} and {expert} where there is one for each.

    A matrix of ours is [in, out]; the checkpoint's Linear weights are [out, in].
    """

    name: str
    transpose: bool = False
    fused: tuple[str, ...] = ()  # leaves whose rows, one after the other, make up the tensor


class Cell(NamedTuple):
    """One parameter's slice of one tensor: leaf[at] == (tensor[start:stop]).T or as it is."""

    leaf: str  # "layers/q"
    at: tuple[int, ...]  # (), (layer,) or (layer, expert)
    tensor: str
    start: int  # first row of the tensor
    stop: int
    transpose: bool


def linears(block: str, **leaves: str) -> dict[str, Tensor]:
    """Linear weights below "model.layers.{layer}.": leaf -> module."""
    return {
        f"layers/{leaf}": Tensor(f"model.layers.{{layer}}.{block}.{module}.weight", True)
        for leaf, module in leaves.items()
    }


def vectors(**leaves: str) -> dict[str, Tensor]:
    """Norms and biases below "model.layers.{layer}.": leaf -> rest of the name."""
    return {f"layers/{k}": Tensor(f"model.layers.{{layer}}.{v}") for k, v in leaves.items()}


OUTSIDE = {
    "embed": Tensor("model.embed_tokens.weight"),
    "final_norm": Tensor("model.norm.weight"),
    "head": Tensor("lm_head.weight"),
}
ATTENTION = linears("self_attn", q="q_proj", k="k_proj", v="v_proj", o="o_proj") | vectors(
    q_bias="self_attn.q_proj.bias",
    k_bias="self_attn.k_proj.bias",
    v_bias="self_attn.v_proj.bias",
    o_bias="self_attn.o_proj.bias",
    q_norm="self_attn.q_norm.weight",
    k_norm="self_attn.k_norm.weight",
)
MLP = linears("mlp", gate="gate_proj", up="up_proj", down="down_proj")
PRE_NORMS = vectors(attn_norm="input_layernorm.weight", mlp_norm="post_attention_layernorm.weight")
POST_NORMS = vectors(
    attn_post_norm="post_attention_layernorm.weight",
    mlp_post_norm="post_feedforward_layernorm.weight",
)
BOTH_NORMS = POST_NORMS | vectors(
    attn_norm="input_layernorm.weight", mlp_norm="pre_feedforward_layernorm.weight"
)
LLAMA = OUTSIDE | ATTENTION | MLP | PRE_NORMS


def leaf_shapes(shapes) -> dict[str, tuple[int, ...]]:
    """ "layers/q" -> shape, of a parameter tree."""
    found = jax.tree_util.tree_leaves_with_path(shapes)
    return {path_name(path): leaf.shape for path, leaf in found}


def layout(names: Mapping[str, Tensor], shapes: Mapping[str, tuple[int, ...]]) -> list[Cell]:
    """Every cell of every leaf in `shapes`, tensor by tensor; ValueError for a leaf without a
    name.  Leaves of dense first layers have the names of the others."""
    lost = sorted({leaf for leaf in shapes if leaf.removeprefix(DENSE) not in names})
    if lost:
        raise ValueError(f"this model family has no tensor for: {', '.join(lost)}")
    cells = [c for leaf in shapes for c in _cells(leaf, names[leaf.removeprefix(DENSE)], shapes)]
    return sorted(cells, key=lambda c: (_natural(c.tensor), c.start))


def _natural(name: str) -> list:
    return [(int(p), "") if p.isdigit() else (-1, p) for p in name.split(".")]


def _cells(leaf: str, tensor: Tensor, shapes) -> Iterator[Cell]:
    slots = [slot for slot in ("layer", "expert") if f"{{{slot}}}" in tensor.name]
    start = 0
    for other in tensor.fused[: tensor.fused.index(leaf)] if tensor.fused else ():
        start += shapes[other][-1]
    inner = shapes[leaf][len(slots) :]
    rows = inner[-1] if tensor.transpose else inner[0]
    first = 0 if leaf.startswith(DENSE) else shapes.get(f"{DENSE}layers/o", (0,))[0]
    for at in itertools.product(*map(range, shapes[leaf][: len(slots)])):
        number = dict(zip(slots, at, strict=True))
        name = tensor.name.format(**number | {"layer": first + number.get("layer", 0)})
        yield Cell(leaf, at, name, start, start + rows, tensor.transpose)


def tensor_shapes(cells: list[Cell], shapes) -> dict[str, tuple[int, ...]]:
    """Shape of every tensor that the cells name; ValueError unless they cover each exactly once."""
    out: dict[str, tuple[int, ...]] = {}
    for cell in cells:
        inner = shapes[cell.leaf][len(cell.at) :]
        columns = inner[:1] if cell.transpose else inner[1:]
        before = out.get(cell.tensor, (0, *columns))
        if before != (cell.start, *columns):
            raise ValueError(f'parts of tensor "{cell.tensor}" overlap or leave a gap')
        out[cell.tensor] = (cell.stop, *columns)
    return out
