"""Flags shared by the commands, and the process-level switches that only a program may set."""

from __future__ import annotations

import json
import logging
import os
import pathlib
from collections.abc import Sequence

from absl import flags

from rlvr_jax.commands.config_file import define_config, drop_replaced, take_file
from rlvr_jax.registry import nearest

PATHS = ("workdir", "to", "from")  # flags that name a file or a folder: ~ is the home folder


class HelpShown(SystemExit):
    """--help was asked for and printed."""


def make_flags() -> flags.FlagValues:
    """An empty set of flags of our own, so that nothing of absl's global ones shows in --help."""
    return flags.FlagValues()


def config_flag(values: flags.FlagValues) -> None:
    """--config=FILE.py and --config.section.key=value."""
    flags.DEFINE_string(
        "config",
        None,
        "a file in configs/ (or your own) that returns a ConfigDict; override any key with "
        "--config.section.key=value",
        flag_values=values,
    )


def workdir_flag(values: flags.FlagValues) -> None:
    flags.DEFINE_string("workdir", None, "the run's folder", flag_values=values)


def parse(values: flags.FlagValues, args: Sequence[str], about: str, required: Sequence[str]):
    """Parse `args`; print help and stop on --help; ValueError in one line for what is wrong.

    Where there is a config flag, `values.config` is the ConfigDict afterwards.
    """
    if any(a in ("-h", "--help") for a in args):
        print(about.strip() + "\n\nflags:")
        for name in values:
            flag = values[name]
            if name == flag.name:
                print(f"  --{name}  {flag.help}")
        raise HelpShown(0)
    said = None
    if "config" in values:
        file, args = take_file(args)
        if not file:
            names = {a: a.lstrip("-").split("=")[0] for a in args}
            meant = [a for a, n in names.items() if "." not in n and nearest(n, ["config"])]
            instead = f" (there is {meant[0]})" if meant else ""
            raise ValueError(
                f"--config is missing{instead}: name a file, --config=configs/quickstart.py"
            )
        said = define_config(values, file, args)
    try:
        rest = values(["rlvr", *args])[1:]
    except flags.UnrecognizedFlagError as error:
        raise ValueError(f'no flag "--{error.flagname}"{_meant(values, error.flagname)}') from None
    except (flags.Error, AttributeError, KeyError, TypeError) as error:
        raise ValueError(" ".join(str(error.args[0] if error.args else error).split())) from None
    if rest:
        raise ValueError(f'unexpected argument "{rest[0]}"; flags are written --name=value')
    for name in required:
        if values[name].value is None:
            raise ValueError(f"--{name} is missing")
    for name in PATHS:
        if name in values and values[name].value is not None:
            if not values[name].value:
                raise ValueError(f"--{name} is empty: name a folder")
            values[name].value = os.path.expanduser(values[name].value)
    if said is not None:
        drop_replaced(values, said)
    return values


def _meant(values: flags.FlagValues, name: str) -> str:
    """A hint for a flag that does not exist: the nearest, or the key of the config it may be."""
    head, dot, key = name.partition(".")
    if "config" in values:
        if head in values["config"].value:
            return f'; did you mean "--config.{name}"?'
        if dot and nearest(head, ["config"]):
            return f'; did you mean "--config.{key}"?'
    known = [name for name in values if "." not in name]
    return nearest(name, known) or f" (there are: {', '.join(f'--{n}' for n in known)})"


def run_folder(workdir: str | os.PathLike, holds: str) -> pathlib.Path:
    """The file `holds` of a run folder.  ValueError, with the nearest name, where there is none."""
    folder = pathlib.Path(workdir)
    if not folder.is_dir():
        beside = [p.name for p in folder.parent.iterdir()] if folder.parent.is_dir() else []
        hint = nearest(folder.name, beside)
        raise ValueError(f'"{workdir}" is not a run folder: it does not exist{hint}')
    if not (folder / holds).is_file():
        raise ValueError(f'"{workdir}" is not a run folder: it holds no {holds}')
    return folder / holds


def saved_config(workdir: str | os.PathLike):
    """The configuration of a run folder.  ValueError where it is none, or cannot be read."""
    from rlvr_jax.config import from_json

    saved = run_folder(workdir, "config.json")
    try:
        return from_json(json.loads(saved.read_text("utf-8")))
    except ValueError as error:
        raise ValueError(f"{saved} is no configuration of a run: {error}") from error


def prepare_process() -> None:
    """What a program (not a library) decides: a compilation cache under the user's cache folder,
    and quiet libraries.  The environment is left alone; JAX_COMPILATION_CACHE_DIR wins."""
    import jax

    if not jax.config.jax_compilation_cache_dir:
        home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
        jax.config.update("jax_compilation_cache_dir", str(pathlib.Path(home) / "rlvr_jax" / "jax"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
    for name in ("absl", "orbax", "jax", "flax"):
        logging.getLogger(name).setLevel(logging.ERROR)
