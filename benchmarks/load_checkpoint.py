"""Time and peak host memory of loading a checkpoint, beside `transformers`.

    python benchmarks/load_checkpoint.py            a random 1.5B-shaped checkpoint in 4 shards
    python benchmarks/load_checkpoint.py --cold     memory as the machine hands it out

Each in its own process, in turn.  Both load bfloat16 weights into bfloat16; ours lays every matrix
out as [in, out] with the layers stacked, on one CPU device.  `transformers` maps the files and
reads a weight when it is first used, so `used_s` is the time until every weight has been read
once.  Memory is the peak resident size, mapped files included, less what the process had with its
libraries imported.

A virtual machine may have to fetch a page from its host when it is first written, at 2 seconds a
GiB and more; that would be the whole measurement.  So each process first writes as much memory as
the checkpoint has and gives it back (--cold leaves that out).
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

from rlvr_jax.models.config import AttentionConfig, ModelConfig

QWEN_1_5B = ModelConfig(
    family="qwen2",
    context=32768,
    vocab=151936,
    width=1536,
    layers=28,
    mlp_width=8960,
    attn=AttentionConfig(heads=12, kv_heads=2, head_dim=128, qkv_bias=True, rope_theta=1e6),
)
SHARD = 8 * 10**8
ROUNDS = 5


def write_checkpoint(folder: pathlib.Path) -> None:
    """Random weights; one block of noise is reused, so that writing is quick."""
    from rlvr_jax.models.families import FAMILIES, config_to_json, layout
    from rlvr_jax.models.families.names import leaf_shapes, tensor_shapes
    from rlvr_jax.models.hf import param_shapes, write_folder

    sizes = leaf_shapes(param_shapes(QWEN_1_5B))
    shapes = tensor_shapes(layout(FAMILIES["qwen2"].names, sizes), sizes)
    noise = np.random.default_rng(0).normal(0, 0.02, 1 << 20).astype(np.float32)
    tensors = {n: (s, lambda s=s: np.resize(noise, s)) for n, s in shapes.items()}
    write_folder(folder, config_to_json(QWEN_1_5B), tensors, "bfloat16", SHARD)


def status(name: str) -> float:
    """A memory figure of this process, in GiB (Linux)."""
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return int(next(x for x in lines if x.startswith(name)).split()[1]) / 2**20


def touch(folder: str) -> None:
    """Write and free as many bytes as the checkpoint has; the peak is counted from here (Linux)."""
    size = sum(f.stat().st_size for f in pathlib.Path(folder).glob("*.safetensors"))
    np.empty(size + (1 << 28), np.uint8)[::4096] = 1
    pathlib.Path("/proc/self/clear_refs").write_text("5")


def load_ours(folder: str):
    import jax
    import jax.numpy as jnp

    from rlvr_jax.models.hf import load_params, read_config
    from rlvr_jax.sharding import MeshConfig, make_mesh

    mesh = make_mesh(MeshConfig())
    total = jax.jit(lambda p: sum(x.sum(dtype=jnp.float32) for x in jax.tree.leaves(p)))
    yield
    config = dataclasses.replace(read_config(folder), param_dtype="bfloat16")
    params = jax.block_until_ready(load_params(folder, config, mesh))
    yield
    yield float(total(params))


def load_transformers(folder: str):
    import torch
    from transformers import AutoModelForCausalLM, Qwen2ForCausalLM

    assert Qwen2ForCausalLM  # imported before the clock starts
    yield
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    yield
    yield float(sum(p.detach().sum(dtype=torch.float32) for p in model.parameters()))


def measure(who: str, folder: str, cold: bool) -> None:
    work = {"ours": load_ours, "transformers": load_transformers}[who](folder)
    next(work)
    if not cold:
        touch(folder)
    before, start, cpu = status("VmRSS"), time.perf_counter(), time.process_time()
    next(work)
    loaded, cpu = time.perf_counter() - start, time.process_time() - cpu
    next(work)
    row = {"who": who, "load_s": loaded, "load_cpu_s": cpu, "used_s": time.perf_counter() - start}
    row["peak_gib"] = status("VmHWM") - before
    print(json.dumps({k: round(v, 2) if k != "who" else v for k, v in row.items()}), flush=True)


def main(cold: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_checkpoint(folder)
        shards = sorted(folder.glob("*.safetensors"))
        size = sum(f.stat().st_size for f in shards) / 2**30
        print(json.dumps({"shards": len(shards), "gib": round(size, 2)}), flush=True)
        for i in range(ROUNDS):
            order = ("ours", "transformers") if i % 2 else ("transformers", "ours")
            for who in order:
                command = [sys.executable, __file__, who, name, *(["--cold"] if cold else [])]
                subprocess.run(command, check=True)


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--cold"]
    (measure if words else main)(*words, cold="--cold" in sys.argv)
