"""The checkpoints of a run: the newest few, the best, and the references they need.

    <workdir>/config.json           the run's configuration, written before anything else
    <workdir>/checkpoints/<index>   state and host state of one moment
    <workdir>/references/<version>  frozen reference parameters, while a checkpoint needs them
    <workdir>/damaged/<index>       what could not be read back, moved out of the way

A kill at any moment leaves the checkpoint before the one in flight, or the one in flight, whole.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import os
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from rlvr_jax.store import Store, damage, not_orbax_chatter, numbers, read_branch, read_facts


@dataclasses.dataclass(frozen=True)
class CheckpointConfig:
    """When a stage saves, and what is kept."""

    every: int = 50  # steps of a stage between saves
    keep: int = 2  # newest checkpoints kept
    keep_best: int = 1  # best checkpoints by evaluated pass@1 kept besides; 0 = off

    def __post_init__(self):
        for name, least in (("every", 1), ("keep", 1), ("keep_best", 0)):
            if getattr(self, name) < least:
                raise ValueError(
                    f"checkpoint.{name} must be at least {least}, got {getattr(self, name)}"
                )


class Restored(NamedTuple):
    """What a run goes on from."""

    index: int
    state: Any
    host: dict[str, Any]  # as JSON gives it back: lists for tuples, strings for keys
    reference: int | None  # version of the frozen parameters that belong to the state


class Checkpoints:
    """The checkpoints of one run.  Every process of the run calls every method.

    `note` receives one line for each damaged checkpoint that is passed over.
    """

    def __init__(
        self, workdir: str | os.PathLike, config: CheckpointConfig, note: Callable[[str], None]
    ):
        self._workdir, self._note = pathlib.Path(workdir).absolute(), note
        self._facts: dict[int, dict[str, Any]] = {}  # metric and reference of each checkpoint

        def keep(indices: Iterable[int]) -> set[int]:
            metrics = {index: self._facts[index]["metric"] for index in indices}
            return set(sorted(metrics)[-config.keep :]) | set(_best(metrics)[: config.keep_best])

        logging.getLogger("absl").addFilter(not_orbax_chatter)
        self._states = Store(self._workdir / "checkpoints", keep)
        self._references = Store(self._workdir / "references", set)
        for index in self._states.indices():
            self._facts[index] = read_facts(self._states.folder / str(index))

    def save(
        self,
        index: int,
        state: Any,
        host: Mapping[str, Any],
        metric: float | None = None,
        reference: int | None = None,
    ) -> bool:
        """Start saving; once it returns, `state` may be donated and `host` changed.

        index: rises over all stages of a run.  False, and nothing done, if it is saved already.
        host: what JSON can hold.  metric: evaluated pass@1 of this state, None where not evaluated.
        reference: version of the frozen parameters the state is trained against, saved before.
        Raises what the previous save failed with.
        """
        self.wait()
        indices = self._states.indices()
        if index in indices:
            return False
        if indices and index < indices[-1]:
            raise ValueError(f"checkpoint {index} would come after checkpoint {indices[-1]}")
        if metric is not None and not math.isfinite(metric):
            raise ValueError(f"the metric of checkpoint {index} is {metric}; None if not evaluated")
        if reference is not None and reference not in self._references.indices():
            raise ValueError(f"checkpoint {index} needs reference {reference}, which is not saved")
        # Only here is it certain which checkpoints are on disk, and so which references they need.
        self._references.keep_only({self._facts[i]["reference"] for i in indices} | {reference})
        self._facts[index] = {"metric": metric, "reference": reference}
        self._states.save(index, state, self._facts[index] | {"host": dict(host)})
        return True

    def restore(self, like: Any) -> Restored | None:
        """The newest checkpoint that is whole; None if there is none.

        like: the state to come, arrays or ShapeDtypeStructs with shardings (of any mesh), or a
        function that gives it for the checkpoint's `host`.
        A damaged checkpoint is noted and moved to <workdir>/damaged, and the one before is taken.
        ValueError naming each leaf that is missing, unexpected or different: all or nothing.
        """
        self.wait()
        indices = self._states.indices()
        while indices:
            index = indices.pop()
            version = self._facts[index]["reference"]
            folder = self._states.folder / str(index)
            why, state = damage(folder), None
            if why is None:
                host = read_facts(folder)["host"]
                why, state = self._states.load(index, like(host) if callable(like) else like)
            if why is None and version is not None:
                bad = damage(self._references.folder / str(version))
                why = bad and f"its reference {version}: {bad}"
            if why is None:
                needed = {self._facts[i]["reference"] for i in indices} | {version}
                self._references.keep_only(needed)
                return Restored(index, state, host, version)
            then = f"continuing from {indices[-1]}" if indices else "starting from the beginning"
            self._note(f"checkpoint {index} is damaged ({why}); {then}")
            self._states.move(index, self._workdir / "damaged")
        self._references.keep_only(set())
        return None

    def save_reference(self, version: int, params: Any) -> None:
        """Save frozen parameters, once a version; they are on disk when it returns."""
        if version not in self._references.indices():
            self._references.save(version, params, {})
            self._references.manager.wait_until_finished()

    def restore_reference(self, version: int, like: Any) -> Any:
        """The parameters of a version.  ValueError if missing, damaged or of another structure."""
        why, params = self._references.load(version, like)
        if why is not None:
            raise ValueError(f"reference {version} in {self._references.folder}: {why}")
        return params

    def wait(self) -> None:
        """Block until the save in flight is on disk; raises what it failed with."""
        self._states.manager.wait_until_finished()

    def close(self) -> None:
        """Finish what is in flight and end the background threads."""
        try:
            self._states.manager.close()
            self._references.manager.close()
        finally:
            logging.getLogger("absl").removeFilter(not_orbax_chatter)


def read_params(
    workdir: str | os.PathLike, like: Any, which: int | str = "newest"
) -> tuple[int, Any]:
    """(index, parameters) of one checkpoint: an index, "newest", or "best" by its metric.

    Only reads, so that a running run may be looked at.  like: as for Checkpoints.restore.
    ValueError if there is no such checkpoint, it is damaged, or of another structure.
    """
    index = find_checkpoint(workdir, which)
    return index, read_branch(_folder(workdir, index), "params", like)


def read_host(workdir: str | os.PathLike, index: int) -> dict[str, Any]:
    """What was saved beside the arrays of a checkpoint.  ValueError if it cannot be read."""
    facts = read_facts(_folder(workdir, index))
    if "host" not in facts:
        raise ValueError(f"{_folder(workdir, index)} is damaged: it says nothing of its place")
    return facts["host"]


def read_reference(workdir: str | os.PathLike, like: Any, index: int) -> Any:
    """The frozen parameters that a checkpoint needs.  ValueError as for `read_params`."""
    version = read_facts(_folder(workdir, index))["reference"]
    return read_branch(pathlib.Path(workdir).absolute() / "references" / str(version), "", like)


def _folder(workdir: str | os.PathLike, index: int) -> pathlib.Path:
    return pathlib.Path(workdir).absolute() / "checkpoints" / str(index)


def find_checkpoint(workdir: str | os.PathLike, which: int | str = "newest") -> int:
    """The index of one checkpoint: as for `read_params`."""
    folder = pathlib.Path(workdir).absolute() / "checkpoints"
    indices = numbers(folder)
    if not indices:
        raise ValueError(f"no checkpoint in {folder}")
    if which == "newest":
        index = indices[-1]
    elif which == "best":
        [index, *_] = _best({i: read_facts(folder / str(i))["metric"] for i in indices}) or [None]
    else:
        index = which if which in indices else None
    if index is None:
        what = "checkpoint with a metric" if which == "best" else f"checkpoint {which}"
        raise ValueError(f"no {what} in {folder}; there are {', '.join(map(str, indices))}")
    return index


def _best(metrics: Mapping[int, float | None]) -> list[int]:
    """The indices that have a metric, best first, the newer of equals before the older."""
    known = [index for index, metric in metrics.items() if metric is not None]
    return sorted(known, key=lambda index: (metrics[index], index), reverse=True)
