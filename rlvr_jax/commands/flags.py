"""Flags shared by the commands, and the process-level switches that only a program may set."""

from __future__ import annotations

import json
import logging
import os
import pathlib
from collections.abc import Sequence

from absl import flags
from ml_collections import config_flags


class HelpShown(SystemExit):
    """--help was asked for and printed."""


def make_flags() -> flags.FlagValues:
    """An empty set of flags of our own, so that nothing of absl's global ones shows in --help."""
    return flags.FlagValues()


def config_flag(values: flags.FlagValues):
    """--config=FILE.py and --config.section.key=value."""
    return config_flags.DEFINE_config_file(
        "config",
        None,
        "a file in configs/ (or your own) that returns a ConfigDict; override any key with "
        "--config.section.key=value",
        lock_config=True,
        flag_values=values,
    )


def workdir_flag(values: flags.FlagValues) -> None:
    flags.DEFINE_string("workdir", None, "the run's folder", flag_values=values)


def parse(values: flags.FlagValues, args: Sequence[str], about: str, required: Sequence[str]):
    """Parse `args`; print help and stop on --help; ValueError in one line for what is wrong."""
    if any(a in ("-h", "--help") for a in args):
        print(about.strip() + "\n\nflags:")
        for name in values:
            flag = values[name]
            if name == flag.name:
                print(f"  --{name}  {flag.help}")
        raise HelpShown(0)
    try:
        rest = values(["rlvr", *args])[1:]
    except FileNotFoundError as error:
        raise ValueError(f"no config file {error.filename or error}") from None
    except (flags.Error, AttributeError, KeyError, TypeError) as error:
        raise ValueError(" ".join(str(error.args[0] if error.args else error).split())) from None
    if rest:
        raise ValueError(f'unexpected argument "{rest[0]}"; flags are written --name=value')
    for name in required:
        if values[name].value is None:
            raise ValueError(f"--{name} is missing")
    return values


def saved_config(workdir: str | os.PathLike):
    """The configuration of a run folder.  ValueError where it is none."""
    from rlvr_jax.config import from_json

    saved = pathlib.Path(workdir) / "config.json"
    if not saved.is_file():
        raise ValueError(f'"{workdir}" is not a run folder: it holds no config.json')
    return from_json(json.loads(saved.read_text()))


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
