"""--config=FILE.py and --config.section.key=value: the file's values under those of the flags."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

from absl import flags
from ml_collections import config_dict, config_flags

from rlvr_jax.registry import Registry, nearest

FILE = re.compile(r"--?config(?:=(.*))?", re.DOTALL)
OVERRIDE = re.compile(r"--?(?:no)?config\.([^=]*)(?:=.*)?", re.DOTALL)


def take_file(args: Sequence[str]) -> tuple[str | None, list[str]]:
    """(the file that --config names, the other arguments)."""
    file, rest, waiting = None, [], iter(args)
    for arg in waiting:
        found = FILE.fullmatch(arg)
        if found is None:
            rest.append(arg)
        else:
            file = next(waiting, "") if found[1] is None else found[1]
    return file, rest


def define_config(values: flags.FlagValues, file: str, args: Sequence[str]) -> dict[str, Any]:
    """Make `values.config` the file's ConfigDict, which takes the overrides among `args`; returns
    what the file says.

    ValueError in one line for a file that gives none, or an override of what it does not have.
    """
    config = load_config(file)
    for arg in args:
        found = OVERRIDE.fullmatch(arg)
        if found is not None:
            check_key(config, found[1])
    said = config.to_dict()
    delattr(values, "config")
    # sys_argv: it looks for the names of overrides there, and would take this program's own.
    config_flags.DEFINE_config_dict(
        "config", config, sys_argv=["rlvr", *args], lock_config=True, flag_values=values
    )
    return said


def load_config(file: str) -> config_dict.ConfigDict:
    """What get_config() of a Python file returns; "file.py:words" hands it the words.

    Whatever is wrong with the file is a ValueError of one line, with the line of the file.
    """
    path, *words = file.split(":", 1)
    path = os.path.expanduser(path)
    if not os.path.isfile(path):
        if os.path.isdir(path):
            raise ValueError(f'config file "{path}" is a folder')
        folder, name = os.path.split(path)
        beside = os.listdir(folder or ".") if os.path.isdir(folder or ".") else []
        raise ValueError(f'there is no config file "{path}"{nearest(name, beside)}')
    loader = importlib.machinery.SourceFileLoader("rlvr_config_file", path)
    module = importlib.util.module_from_spec(
        importlib.util.spec_from_file_location(loader.name, path, loader=loader)
    )
    sys.modules[loader.name] = module  # where dataclasses of the file look up their types
    from rlvr_jax.config import SECTIONS, TOP

    try:
        loader.exec_module(module)
        if not callable(getattr(module, "get_config", None)):
            raise ValueError("it has no function get_config()")
        config = module.get_config(*words)
    except Exception as error:  # the user's own code: whatever it raises is told in one line
        raise ValueError(f'config file "{path}"{_told(error, path)}') from error
    if not isinstance(config, config_dict.ConfigDict) or {*SECTIONS, *TOP} - {*config}:
        raise ValueError(
            f'config file "{path}": get_config() must return what rlvr_jax.config.base() gives, '
            f"with some keys set, not another {type(config).__name__}"
        )
    return config


def _told(error: Exception, path: str) -> str:
    """ ", line 3: NameError: ..." of an error that the code of a file raised."""
    text = str(error.args[0] if isinstance(error, KeyError) and error.args else error)
    if isinstance(error, SyntaxError) and error.filename in (path, None):
        line = f", line {error.lineno}" if error.lineno else ""
        return f"{line}: not Python ({error.msg})"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
    line = f", line {frames[-1].lineno}" if frames else ""
    kind = "" if type(error) is ValueError else f"{type(error).__name__}: "
    return f"{line}: {kind}{text}"


def check_key(config: config_dict.ConfigDict, path: str) -> None:
    """ValueError, with the nearest spelling, unless `path` ("loss.eps_high") is a key of it."""
    part, so_far = config, ""
    for name in path.split("."):
        if not isinstance(part, config_dict.ConfigDict):
            raise ValueError(
                f'config key "{so_far}" is one value: nothing of it is called "{name}"'
            )
        key = f"{so_far}.{name}" if so_far else name
        if name not in part:
            known = sorted(part)
            hint = nearest(name, known) or f" ({so_far or 'config'} has: {', '.join(known)})"
            raise ValueError(f'no config key "{key}"{hint}')
        part, so_far = part[name], key
    if isinstance(part, config_dict.ConfigDict):
        first = "name" if "name" in part else next(iter(part))
        raise ValueError(f'config key "{path}" is a section; set its keys: {path}.{first}, ...')


def drop_replaced(values: flags.FlagValues, file: Mapping[str, Any]) -> None:
    """After parsing: unset what the file says of an entry that a flag replaced by another, and that
    the other does not know: fields of a task, a reward, ...; the sections of a stage that a flag
    leaves out; the architecture of fresh weights where a flag names a checkpoint.

    file: from `define_config`.  What a flag set stays, and is an error if nothing knows it.
    """
    from rlvr_jax.config import RL_ONLY, SECTIONS
    from rlvr_jax.models.config import RUN_KEYS
    from rlvr_jax.schema import hints_of

    config, given = values.config, set(config_flags.get_override_values(values["config"]))
    before, after = _entries(file), _entries(config)
    for name, registry in SECTIONS.items():
        was, now = before.get(name), after.get(name)
        if was == now or not isinstance(registry, Registry) or {was, now} - {*registry}:
            continue
        gone = set(hints_of(registry[was])) - set(hints_of(registry[now]))
        _unset(config[name], gone, name, given)
    for name in ("sft", *RL_ONLY):
        stage = "sft" if name == "sft" else "rl"
        if "stages" in given and stage in (file["stages"] or ()) and stage not in config.stages:
            _unset(config[name], set(config[name]), name, given)
    if "model.path" in given and config.model.path and not file["model"]["path"]:
        _unset(config.model, set(config.model) - set(RUN_KEYS), "model", given)


def _entries(config: Mapping[str, Any]) -> dict[str, str | None]:
    """The entry that each section names, or that the task or the algorithm names for it; nothing
    where these are not known, which `build` complains of."""
    from rlvr_jax.config import SECTIONS, RunConfig
    from rlvr_jax.presets import PRESETS
    from rlvr_jax.tasks import TASKS

    row = PRESETS.get(config["algorithm"] or RunConfig.algorithm)
    chosen = {k: v.get("name") for k, v in row.overrides.items()} if row else {}
    task = config["task"]["name"]
    if task in TASKS and isinstance(TASKS[task].reward, str):
        chosen["reward"] = TASKS[task].reward
    own = {name: config[name].get("name") for name in SECTIONS}
    return chosen | {name: entry for name, entry in own.items() if entry}


def _unset(section: config_dict.ConfigDict, keys: set[str], name: str, given: set[str]) -> None:
    """Set these keys to None, and those inside them, save what a flag gave."""
    for key in keys:
        where = f"{name}.{key}"
        if isinstance(section[key], config_dict.ConfigDict):
            _unset(section[key], set(section[key]), where, given)
        elif where not in given:
            section[key] = None
