"""Hugging Face checkpoints in and out.

A leaf of ours stacks the layers ([L, in, out]); a checkpoint has a tensor a layer.  `layout` says
which rows of which tensor fill which cell of which leaf.  On the way in, every device asks for its
slice of a leaf and only the rows and columns of that slice are read; on the way out one tensor at
a time is fetched from the devices.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import functools
import json
import math
import os
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from rlvr_jax.models import transformer
from rlvr_jax.models.config import RUN_KEYS, ModelConfig
from rlvr_jax.models.families import (
    FAMILIES,
    Cell,
    Tensor,
    config_of,
    config_to_json,
    family_of,
    layout,
)
from rlvr_jax.models.families.names import leaf_shapes, tensor_shapes
from rlvr_jax.models.safetensors_file import (
    DTYPES,
    Stored,
    names_of,
    read_headers,
    read_into,
    write_files,
)
from rlvr_jax.models.value_head import init_value_head
from rlvr_jax.sharding import path_name, replicated, tree_shardings

SHARD_BYTES = 5 * 10**9
SPECIAL = ("bos_token_id", "eos_token_id", "pad_token_id")
PATTERNS = ("*.safetensors", "*.json", "*.model", "*.txt", "*.jinja")
SCORE = "score.weight"  # the head of a sequence classifier, [labels, D]
_UNUSED = ("rotary_emb.inv_freq",)  # ends of names of constants that old checkpoints store


def locate(name: str, weights: bool = True) -> pathlib.Path:
    """The local folder of a checkpoint: `name` itself, or what the hub has under it, downloaded.

    weights=False fetches config.json alone.  ValueError in one line where there is none.
    """
    folder = pathlib.Path(os.path.expanduser(name))
    if folder.is_dir():
        return folder
    if name.startswith((".", "~", "/")) or name.count("/") != 1:
        raise ValueError(f'no model folder "{name}" (allowed: a folder, or a hub name owner/model)')
    from huggingface_hub import snapshot_download

    patterns = list(PATTERNS) if weights else ["config.json"]
    # The hub's client raises by cause: OSError (no network, no such file), ValueError (its name).
    try:
        return pathlib.Path(snapshot_download(name, allow_patterns=patterns))
    except (OSError, ValueError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ValueError(
            f'no model "{name}" (neither a folder nor on the hub): {reason}'
        ) from error


def read_config(name: str) -> ModelConfig:
    """The architecture of a checkpoint, from its config.json."""
    path = locate(name, weights=False) / "config.json"
    if not path.is_file():
        raise ValueError(f'"{name}" holds no config.json')
    try:
        data = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    return config_of(data)


def with_architecture(values: Mapping[str, Any]) -> dict[str, Any]:
    """The `model` section with the architecture that its `path` names written out in full:
    the run's config.json then holds it; tokenizer and first weights are still read from `path`.

    ValueError for a key beside `path` that the checkpoint decides.
    """
    plain = dataclasses.asdict(read_config(values["path"]))
    for key in values:
        if key in plain and key not in RUN_KEYS:
            free = ", ".join(sorted({*RUN_KEYS} - {"path", "lora_scale"}))
            raise ValueError(
                f"config.model.{key} has no effect: the architecture comes from config.model.path "
                f"(beside it may be set: {free})"
            )
    return {k: v for k, v in plain.items() if k not in RUN_KEYS} | dict(values)


def param_shapes(config: ModelConfig) -> Any:
    """The parameter tree as ShapeDtypeStructs."""
    return jax.eval_shape(lambda: transformer.init(config, jax.random.key(0)))


def load_params(name: str, config: ModelConfig, mesh: Mesh) -> Any:
    """The parameters of a checkpoint, in config.param_dtype, where the sharding table puts them.

    ValueError naming every tensor that is missing, left over, or of another shape.
    """
    names = FAMILIES.make(config.family).names
    return _load(name, config, read_headers(locate(name)), names, param_shapes(config), mesh)


def load_reward_model(name: str, config: ModelConfig, mesh: Mesh) -> Any:
    """The parameters of a sequence classifier with one label (Qwen2ForSequenceClassification, ...):
    the transformer without an output head, and its score as a value head without a bias.

    ValueError as for `load_params`, and where it is no such classifier.
    """
    found = read_headers(locate(name))
    if SCORE not in found:
        raise ValueError(
            f"it holds no tensor {SCORE}, the head of a sequence classifier with one label "
            "(a language model is no reward model)"
        )
    labels = found[SCORE].shape[0]
    if labels != 1:
        raise ValueError(f"it has {labels} labels (rows of {SCORE}); a reward model has 1")
    if not any(tensor.startswith("model.") for tensor in found):  # saved without its head's class
        found = {t if t == SCORE else f"model.{t}": stored for t, stored in found.items()}
    names = {**FAMILIES.make(config.family).names, "value_head/weight": Tensor(SCORE)}
    trunk = {leaf: shape for leaf, shape in param_shapes(config).items() if leaf != "head"}
    score = jax.ShapeDtypeStruct((1, config.width), jnp.float32)
    params = _load(name, config, found, names, trunk | {"value_head": {"weight": score}}, mesh)

    def head(score_1D):
        return init_value_head(config) | {"weight": score_1D[0]}

    weight = params["value_head"]["weight"]
    return params | {"value_head": jax.jit(head, out_shardings=replicated(mesh))(weight)}


def _load(name: str, config: ModelConfig, found, names, shapes, mesh: Mesh) -> Any:
    """Arrays of `shapes` from the tensors of a checkpoint, each of which is used."""
    sizes = leaf_shapes(shapes)
    cells = layout(names, sizes)
    _check_census(name, found, tensor_shapes(cells, sizes), config)
    by_leaf: dict[str, dict[tuple[int, ...], Cell]] = {}
    for cell in cells:
        by_leaf.setdefault(cell.leaf, {})[cell.at] = cell

    def load(path, shape, sharding):
        read = functools.partial(_read_slice, found, by_leaf[path_name(path)], shape)
        done: dict[str, np.ndarray] = {}  # replicas ask for the same slice

        def piece(index):
            key = str(index)
            if key not in done:
                done[key] = read(index)
            return done[key]

        return jax.block_until_ready(jax.make_array_from_callback(shape.shape, sharding, piece))

    return jax.tree_util.tree_map_with_path(load, shapes, tree_shardings(shapes, mesh))


def _read_slice(found, cells: Mapping[tuple[int, ...], Cell], shape, index) -> np.ndarray:
    """One device's slice of a leaf."""
    spans = [range(*s.indices(n)) for s, n in zip(index, shape.shape, strict=True)]
    out = _aligned([len(span) for span in spans], shape.dtype)
    lead = len(next(iter(cells)))
    inner = [slice(span.start, span.stop) for span in spans[lead:]]

    def read(at):
        cell = cells[tuple(spans[i][j] for i, j in enumerate(at))]
        rows, columns = inner[-1 if cell.transpose else 0], inner[0 if cell.transpose else -1]
        rows = slice(cell.start + rows.start, cell.start + rows.stop)
        read_into(out[at], found[cell.tensor], rows, columns, cell.transpose)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:  # layers side by side
        list(pool.map(read, np.ndindex(*out.shape[:lead])))
    return out


def _aligned(shape: list[int], dtype) -> np.ndarray:
    """An empty array that begins at a multiple of 64 bytes: a CPU device takes it over uncopied."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    raw = np.empty(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size].view(dtype).reshape(shape)


def _check_census(name: str, found: Mapping[str, Stored], wanted: Mapping[str, tuple], config):
    """Every tensor is used and every parameter filled, or an error that lists both sides."""
    missing = set(wanted) - set(found)
    extra = {n for n in set(found) - set(wanted) if not n.endswith(_UNUSED)}
    extra -= FAMILIES.make(config.family).unread(config, extra)
    if config.tied_head and "lm_head.weight" in extra:
        tied = found["lm_head.weight"], found.get("model.embed_tokens.weight")
        if tied[1] and _equal(*tied):
            extra.discard("lm_head.weight")
    bent = {n for n in set(wanted) & set(found) if found[n].shape != wanted[n]}
    parts = [
        f"{len(names)} {what} ({names_of(names)})"
        for names, what in ((missing, "missing"), (extra, "not expected"))
        if names
    ]
    parts += [f"{n} has shape {found[n].shape}, expected {wanted[n]}" for n in sorted(bent)[:4]]
    if parts:
        raise ValueError(
            f'the tensors of "{name}" do not fit model_type "{config.family}": {"; ".join(parts)}'
        )


def _equal(a: Stored, b: Stored) -> bool:
    """Do two matrices hold the same numbers?  Read in blocks."""
    if a.shape != b.shape or len(a.shape) != 2:
        return False
    for first in range(0, a.shape[0], 4096):
        rows = slice(first, min(first + 4096, a.shape[0]))
        pair = [np.empty((rows.stop - first, a.shape[1]), np.float32) for _ in range(2)]
        for out, stored in zip(pair, (a, b), strict=True):
            read_into(out, stored, rows, slice(None), False)
        if not np.array_equal(*pair):
            return False
    return True


def write_model(
    folder: pathlib.Path,
    config: ModelConfig,
    params: Any,
    dtype: str = "bfloat16",
    special: Mapping[str, Any] | None = None,
    shard_bytes: int = SHARD_BYTES,
) -> None:
    """config.json and the weights of a model, for `transformers` and everything that reads it.

    special: ids of special tokens for config.json, null where not given.  ValueError where no
    family expresses the model.
    """
    leaves = {path_name(p): leaf for p, leaf in jax.tree_util.tree_leaves_with_path(params)}
    sizes = {name: leaf.shape for name, leaf in leaves.items()}
    cells = layout(family_of(config).names, sizes)
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.tensor, []).append(cell)
    shapes = tensor_shapes(cells, sizes)
    tensors = {
        name: (shapes[name], functools.partial(_fetch, leaves, group))
        for name, group in groups.items()
    }
    write_folder(folder, config_to_json(config) | dict(special or {}), tensors, dtype, shard_bytes)


def write_folder(
    folder: pathlib.Path,
    keys: Mapping[str, Any],
    tensors: Mapping[str, tuple[tuple[int, ...], Callable[[], np.ndarray]]],
    dtype: str,
    shard_bytes: int = SHARD_BYTES,
) -> None:
    """config.json from `keys`, and tensors by name -> (shape, function that gives the array)."""
    stored = np.dtype({"float32": np.float32, "bfloat16": DTYPES["BF16"]}[dtype])
    folder.mkdir(parents=True, exist_ok=True)
    write_files(folder, tensors, stored, shard_bytes)
    text = json.dumps(dict.fromkeys(SPECIAL) | dict(keys) | {"torch_dtype": dtype}, indent=2)
    (folder / "config.json").write_text(text + "\n")


def _fetch(leaves: Mapping[str, jax.Array], cells: Iterable[Cell]) -> np.ndarray:
    """One tensor of the checkpoint, from the cells that make it up."""
    parts = []
    for cell in cells:
        leaf = leaves[cell.leaf]
        part = np.asarray(leaf[cell.at] if cell.at else leaf)
        parts.append(part.T if cell.transpose else part)
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
