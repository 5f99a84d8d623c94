"""Hugging Face folders: a run's checkpoint, with a card that says where it came from and what was
measured; and the model of a GGUF file."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from rlvr_jax.analysis.run_folder import read_run
from rlvr_jax.config import RunConfig
from rlvr_jax.models.config import ModelConfig
from rlvr_jax.models.families import config_to_json, family_of
from rlvr_jax.models.gguf_file import open_gguf
from rlvr_jax.models.hf import write_folder, write_model
from rlvr_jax.models.lora import merge
from rlvr_jax.report import headline, summarize, versions
from rlvr_jax.setup import any_mesh, resolve_model, restore_params, stage_steps
from rlvr_jax.text import generation_config, load_tokenizer, stop_ids
from rlvr_jax.text.spm import spm_tokenizer


def export(
    config: RunConfig, workdir: pathlib.Path, to: pathlib.Path, which: int | str, dtype: str | None
) -> int:
    """Write checkpoint `which` (an index, "newest" or "best") of a run to the new folder `to`;
    returns its index.

    dtype: float32 or bfloat16; None = as the run holds its parameters.  ValueError where `to` holds
    files already or no model family can express the model.
    """
    _refuse_to_overwrite(to)
    tokenizer = load_tokenizer(config.tokenizer)
    model = resolve_model(config, tokenizer)
    family_of(model)  # refuse before the weights are read
    index, policy = restore_params(config, model, any_mesh(config), workdir, which)
    params = merge(policy, model.lora_scale, "float32")  # rounded once, as it is written
    ids = special_ids(tokenizer, config.text.stop)
    write_model(to, model, params, dtype or model.param_dtype, ids)
    drawn = generation_config(model.path) or generation_config(tokenizer.name_or_path)
    write_tokenizer(to, tokenizer, drawn | ids)  # the model's own temperature, top_p, ...
    (to / "README.md").write_text(card(workdir, config, model, index), "utf-8")
    return index


def import_gguf(source: pathlib.Path, to: pathlib.Path, dtype: str) -> str:
    """Write the model of a GGUF file to the new folder `to`; returns the model's name."""
    _refuse_to_overwrite(to)
    found = open_gguf(source)
    tokenizer = spm_tokenizer(found.facts)
    if "tokenizer.chat_template" in found.facts:
        tokenizer.chat_template = found.facts["tokenizer.chat_template"]
    ids = special_ids(tokenizer)
    write_folder(to, config_to_json(found.config) | ids, found.tensors, dtype)
    write_tokenizer(to, tokenizer, ids)
    name = str(found.facts.get("general.name", source.stem))
    about = (
        f"Weights dequantised to {dtype} from `{source.name}`; the tokenizer is rebuilt from it."
    )
    license = found.facts.get("general.license")
    front = f"---\nlibrary_name: transformers\nlicense: {license}\n---\n\n" if license else ""
    (to / "README.md").write_text(f"{front}# {name}\n\n{about}\n", "utf-8")
    return name


def _refuse_to_overwrite(to: pathlib.Path) -> None:
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise ValueError(f'"{to}" exists already; a new folder is written')


def special_ids(tokenizer, stop: tuple[str, ...] = ()) -> dict[str, Any]:
    """The ids that config.json and generation_config.json hold."""
    ends = list(stop_ids(tokenizer, stop))
    return {
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": ends[0] if len(ends) == 1 else ends,
        "pad_token_id": tokenizer.pad_token_id,
    }


def write_tokenizer(to: pathlib.Path, tokenizer, generation: dict[str, Any]) -> None:
    """The tokenizer with its chat template, and generation_config.json with every end token."""
    tokenizer.save_pretrained(str(to))
    (to / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")


def card(workdir: pathlib.Path, config: RunConfig, model: ModelConfig, index: int) -> str:
    """The model card: what it is, what was measured, on which data, how to load it."""
    local = os.path.exists(os.path.expanduser(model.path))
    base = model.path if model.path.count("/") == 1 and not local else ""
    front = ["library_name: transformers", "tags: [reinforcement-learning, rlvr]"]
    front += [f"base_model: {base}"] if base else []
    start = f"`{base or pathlib.Path(model.path).name}`" if model.path else "random weights"
    saved = json.loads((workdir / "config.json").read_text())
    summary = workdir / "summary.json"
    facts = json.loads(summary.read_text()) if summary.is_file() else {}
    parts = [
        "---\n" + "\n".join(front) + "\n---",
        f"# {workdir.resolve().name}",
        f"Trained by rlvr_jax from {start}, algorithm `{config.algorithm}`, task "
        f"`{saved['task']['name']}`, reward `{saved['reward']['name']}`: checkpoint {index}, "
        f"{_place(config, index)}.  Architecture: `{family_of(model).architecture}`.",
        "## Measured",
        "\n".join(f"- {headline(entry)}" for entry in summarize(read_run(workdir))),
        _facts(facts),
        "## Use",
        _USE,
        "## Configuration",
        f"```json\n{json.dumps(saved, indent=1)}\n```",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


_USE = """```python
from transformers import AutoModelForCausalLM, AutoTokenizer

folder = "."
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(folder)
```"""


def _place(config: RunConfig, index: int) -> str:
    """The stage and step that a checkpoint's index stands for."""
    before = 0
    for stage in config.stages:
        steps = stage_steps(config, stage)
        if index <= before + steps:
            return f"after step {index - before} of {steps} of stage {stage}"
        before += steps
    return "after the last stage"


def _facts(summary: Mapping[str, Any]) -> str:
    """Command, seeds, hashes and versions of a finished run; what is known of another."""
    if not summary:
        return f"The run had not finished.  Versions: {_pairs(versions())}."
    return "\n".join(
        [
            f"- command: `{summary['command']}`",
            f"- seeds: {_pairs(summary['seeds'])}",
            f"- sha256 of the data: {_pairs(summary['data_sha256'])}",
            f"- sha256 of the configuration: {summary['config_sha256']}",
            f"- versions: {_pairs(summary['versions'])}",
            f"- finished: {summary['finished']}",
        ]
    )


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{k} {v}" for k, v in values.items())
