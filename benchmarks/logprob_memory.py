"""Extra memory of log-prob plus entropy, forward and backward: sliced against the plain form.

    python benchmarks/logprob_memory.py --vocab=151936 --width=896 --tokens=4096

Each form runs in its own process; the figure is the growth of the peak resident size over what the
inputs and the gradients need, sampled while it runs.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import time


def status(name: str) -> int:
    """A memory figure of this process, in bytes (Linux)."""
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    line = next(x for x in lines if x.startswith(name))
    return int(line.split()[1]) * 1024


def reset_peak() -> int:
    """Make the peak start from what is resident now; returns that."""
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    return status("VmRSS")


def measure(form: str, vocab: int, width: int, tokens: int) -> dict:
    import jax
    import jax.numpy as jnp

    from rlvr_jax.models.config import ModelConfig
    from rlvr_jax.sampling import SamplingConfig
    from rlvr_jax.scoring import token_logprobs

    model = ModelConfig(vocab=vocab, width=width)
    rows = 16
    hidden = jax.random.normal(jax.random.key(0), (rows, tokens // rows, width))
    weight = jax.random.normal(jax.random.key(1), (vocab, width)) * 0.02
    target = jnp.arange(tokens, dtype=jnp.int32).reshape(rows, -1) % vocab

    def sliced(weight, hidden):
        logp, entropy = token_logprobs(
            weight, hidden, target, model, SamplingConfig(), entropy_grad=True
        )
        return jnp.sum(logp) + 0.1 * jnp.sum(entropy)

    def plain(weight, hidden):
        logp = jax.nn.log_softmax(hidden @ weight.T, axis=-1)
        chosen = jnp.take_along_axis(logp, target[..., None], axis=-1)
        return jnp.sum(chosen) - 0.1 * jnp.sum(jnp.exp(logp) * logp)

    step = jax.jit(jax.value_and_grad({"sliced": sliced, "plain": plain}[form], argnums=(0, 1)))
    compiled = step.lower(weight, hidden).compile()
    temp = compiled.memory_analysis().temp_size_in_bytes
    jax.block_until_ready((weight, hidden))
    before = reset_peak()
    start = time.perf_counter()
    value, grads = compiled(weight, hidden)
    jax.block_until_ready(grads)
    seconds = time.perf_counter() - start
    after = status("VmHWM")
    outputs = sum(g.nbytes for g in grads)
    return {
        "form": form,
        "value": float(value),
        "seconds": seconds,
        "temp_gib": temp / 2**30,
        "rss_extra_gib": (after - before - outputs) / 2**30,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--vocab", type=int, default=151936)
    parser.add_argument("--width", type=int, default=896)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--form", default="")
    a = parser.parse_args()
    if a.form:
        print(json.dumps(measure(a.form, a.vocab, a.width, a.tokens)))
        return
    results = {}
    for form in ("sliced", "plain"):
        done = subprocess.run(
            [sys.executable, __file__, f"--form={form}", f"--vocab={a.vocab}"]
            + [f"--width={a.width}", f"--tokens={a.tokens}"],
            capture_output=True,
            text=True,
            check=True,
        )
        results[form] = json.loads(done.stdout.splitlines()[-1])
        print(results[form])
    for key in ("temp_gib", "rss_extra_gib"):
        print(f"{key}: plain / sliced = {results['plain'][key] / results['sliced'][key]:.1f}")


if __name__ == "__main__":
    main()
