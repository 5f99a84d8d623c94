"""Numbered folders of arrays and facts that are there whole or not at all.

Orbax writes into a folder with a temporary name and renames it when all is there, so a killed save
leaves nothing that looks like a saved one.  Before the rename a list of files, sizes and checksums
goes in: a folder without it, or that differs from it, is damaged.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import pathlib
import shutil
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
from jax.experimental import multihost_utils

from rlvr_jax.sharding import path_name
from rlvr_jax.workdir import some, write_durably

FILES = "files.json"  # in every saved folder: {"state/d/ab12": [bytes, crc32 or null], ...}
HALF = "*.orbax-checkpoint-tmp*"  # folders of saves that were cut off, or are in flight
CRC_LIMIT = 64 * 2**20  # bytes; reading larger files back would hold up the saves of a large model


class Store:
    """Numbered folders, each one tree of arrays with its facts, that appear whole or not at all."""

    def __init__(self, folder: pathlib.Path, keep: Callable[[Iterable[int]], set[int]]):
        self.folder = folder
        if jax.process_index() == 0:  # Orbax does it in a thread, which outlives a failed start
            for half in folder.glob(HALF):
                shutil.rmtree(half, ignore_errors=True)
        self.manager = ocp.CheckpointManager(
            folder,
            options=ocp.CheckpointManagerOptions(
                preservation_policy=_Preserve(keep),
                lightweight_initialize=True,  # reads no file of a checkpoint that may be damaged
                save_root_metadata=False,
                async_options=ocp.options.AsyncOptions(
                    post_finalization_callback=lambda: _list_files(folder)
                ),
            ),
        )

    def indices(self) -> list[int]:
        """What is there, whole or damaged."""
        return numbers(self.folder)

    def save(self, index: int, tree: Any, facts: Mapping[str, Any]) -> None:
        """Start saving.  The facts are copied here: Orbax writes them later, from a thread."""
        facts = json.loads(json.dumps({**facts, "leaves": describe(tree)}))
        args = ocp.args.Composite(state=ocp.args.StandardSave(tree), host=ocp.args.JsonSave(facts))
        self.manager.save(index, args=args, force=True)

    def load(self, index: int, like: Any) -> tuple[str | None, Any]:
        """(why it is damaged, None) or (None, the tree).  ValueError if the structure differs."""
        folder = self.folder / str(index)
        why = damage(folder)
        if not everywhere(why is None).all():
            return why or "another process cannot read it", None
        compare(read_facts(folder)["leaves"], describe(like), folder)
        try:
            args = ocp.args.Composite(state=ocp.args.StandardRestore(_shapes(like)))
            return None, self.manager.restore(index, args=args).state
        except (jax.errors.JaxRuntimeError, MemoryError):
            raise
        except (
            Exception
        ) as error:  # bytes that do not decode raise many types, Exception itself too
            return f"{type(error).__name__}: {str(error).partition(chr(10))[0][:200]}", None

    def move(self, index: int, target: pathlib.Path) -> None:
        """Out of the way, in place of what was moved there before."""
        if jax.process_index() == 0:
            target.mkdir(exist_ok=True)
            shutil.rmtree(target / str(index), ignore_errors=True)
            os.replace(self.folder / str(index), target / str(index))
        everywhere(True)
        self.manager.reload()

    def keep_only(self, needed: set[int | None]) -> None:
        for index in self.manager.all_steps():
            if index not in needed:
                self.manager.delete(index)


def numbers(folder: pathlib.Path) -> list[int]:
    """The numbered folders in a folder; [] if it does not exist."""
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return sorted(int(name) for name in names if name.isdigit())


def read_facts(folder: pathlib.Path) -> dict[str, Any]:
    """What was saved beside a tree; without metric and reference where it cannot be read."""
    unknown = {"metric": None, "reference": None}
    try:
        return unknown | json.loads((folder / "host" / "metadata").read_text())
    except (OSError, ValueError):
        return unknown


def damage(folder: pathlib.Path) -> str | None:
    """Why a numbered folder is not what was saved; None if it is."""
    if not folder.is_dir():
        return "it is missing"
    try:
        listing = json.loads((folder / FILES).read_text())
    except (OSError, ValueError):
        return f"{FILES} cannot be read"
    for name, (size, crc) in listing.items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != size:
            return f"{name} has {path.stat().st_size} bytes instead of {size}"
        if crc is not None and zlib.crc32(path.read_bytes()) != crc:
            return f"{name} is not what was written"
    return None


def read_branch(folder: pathlib.Path, branch: str, like: Any) -> Any:
    """One branch of a saved tree, whatever else it holds, or all of it for ""; only reads.

    ValueError if it is damaged or the branch has another structure.
    """
    if why := damage(folder):
        raise ValueError(f"{folder} is damaged: {why}")
    saved = read_facts(folder)["leaves"]
    item, start = ({branch: _shapes(like)}, f"{branch}/") if branch else (_shapes(like), "")
    compare({n: s for n, s in saved.items() if n.startswith(start)}, describe(item), folder)
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as reader:
        args = ocp.args.PyTreeRestore(
            item=item,
            restore_args=ocp.checkpoint_utils.construct_restore_args(item),
            partial_restore=True,
        )
        found = reader.restore(folder / "state", args=args)
    return found[branch] if branch else found


def _shapes(like: Any) -> Any:
    return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=a.sharding), like)


@dataclasses.dataclass
class _Preserve:
    """Orbax's preservation policy out of a function from indices to the ones to keep."""

    keep: Callable[[Iterable[int]], set[int]]

    def should_preserve(self, checkpoints, *, context) -> list[bool]:
        kept = self.keep([info.step for info in checkpoints])
        return [info.step in kept for info in checkpoints]


def not_orbax_chatter(record: logging.LogRecord) -> bool:
    """A filter for the absl logger: Orbax warns of what is no concern of a user's, e.g. its own
    waiting.  What fails is raised, and logged as an error."""
    return record.levelno >= logging.ERROR or f"{os.sep}orbax{os.sep}" not in record.pathname


def _list_files(folder: pathlib.Path) -> None:
    """Called by Orbax when all files of a save are written and before its folder is renamed."""
    [*saving] = folder.glob(HALF)
    if not saving:
        raise RuntimeError(f"no save in progress in {folder}: Orbax changed its temporary names")
    for temporary in saving:
        listing = {}
        for path in sorted(temporary.glob("*/**/*")):
            if path.is_file():
                size = path.stat().st_size
                crc = zlib.crc32(path.read_bytes()) if size <= CRC_LIMIT else None
                listing[str(path.relative_to(temporary))] = [size, crc]
        write_durably(temporary / FILES, json.dumps(listing))


def describe(tree: Any) -> dict[str, str]:
    """{"params/embed": "float32[64,96]", ...}"""
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {
        path_name(path): f"{leaf.dtype}[{','.join(map(str, leaf.shape))}]" for path, leaf in leaves
    }


def compare(saved: Mapping[str, str], wanted: Mapping[str, str], where: os.PathLike) -> None:
    """ValueError naming the leaves in which a saved tree and the wanted one differ."""
    differences = {
        "missing in the checkpoint": [f"{n} {wanted[n]}" for n in wanted if n not in saved],
        "only in the checkpoint": [f"{n} {saved[n]}" for n in saved if n not in wanted],
        "different": [
            f"{n} is {saved[n]} there and {wanted[n]} here"
            for n in wanted
            if saved.get(n, wanted[n]) != wanted[n]
        ],
    }
    told = [f"{what}: {some(leaves)}" for what, leaves in differences.items() if leaves]
    if told:
        raise ValueError(f"{where} holds a state of another structure; " + "; ".join(told))


def everywhere(flag: bool) -> np.ndarray:
    """The flags of all processes.  Also a barrier."""
    if jax.process_count() == 1:
        return np.array([flag])
    return multihost_utils.process_allgather(np.array(flag))
