"""Times full GRPO steps of rlvr_jax on the CPU for one workload of workloads.json.

    python benchmarks/ours_grpo.py W1 --steps 5

One step = roll out prompts x group completions at temperature 1, score them under a frozen
reference, one clipped update with KL coefficient 0.04 (k3) and AdamW.  Random float32 weights,
Qwen2-shaped, tied head; the embedding is scaled to std 1e-3 so that the next-token law is nearly
uniform.  The pieces are those of recipes/rl.py; only the text is left out (the peers' reward is a
function of the ids as well).
Prints one JSON line: seconds a step (median without the first two, which compile), peak RSS.
"""

import argparse
import functools
import json
import pathlib
import resource
import time

import jax
import jax.numpy as jnp
import numpy as np

from rlvr_jax.advantages import ADVANTAGES
from rlvr_jax.experience import AggregationConfig, make_experience, micro_batches
from rlvr_jax.generate import Address, DecodeConfig, make_sampler
from rlvr_jax.learner import OptimConfig, init_state, make_optimizer, make_scorer, make_update
from rlvr_jax.losses import KL, LOSSES, Objective
from rlvr_jax.models import transformer
from rlvr_jax.models.config import AttentionConfig, ModelConfig
from rlvr_jax.packing import PackConfig
from rlvr_jax.rollout import Judged, RolloutConfig, trained_mask
from rlvr_jax.sampling import SamplingConfig
from rlvr_jax.sharding import MeshConfig, make_mesh
from rlvr_jax.types import Completion, Problem, Verdict


def model_of(w: dict) -> ModelConfig:
    return ModelConfig(
        vocab=w["vocab"],
        width=w["d"],
        layers=w["layers"],
        mlp_width=w["ff"],
        attn=AttentionConfig(w["heads"], w["kv"], w["head_dim"], qkv_bias=True),
    )


def judge(prompts: list[list[int]], group: int, samples) -> Judged:
    """A reward that is a fixed function of the sampled ids."""
    sums = [int(t[:n].sum()) % 7 for t, n in zip(samples.tokens_BT, samples.length_B, strict=True)]
    return Judged(
        problems=[Problem(prompt="", answer="", index=i) for i in range(len(prompts))],
        prompts=prompts,
        group=group,
        samples=samples,
        completions=[Completion(text="") for _ in sums],
        verdicts=[Verdict(status="scored", score=float(s)) for s in sums],
    )


def build(w: dict, pack: PackConfig):
    """(state, step function) of a workload."""
    model, mesh, sampling = model_of(w), make_mesh(MeshConfig()), SamplingConfig()
    stops = tuple(range(1, 1 + w["eos_ids"])) or (w["vocab"],)
    decode = DecodeConfig(w["prompt_len"], w["new"], chunk=min(64, w["new"]))
    objective = Objective(loss=LOSSES.make("clipped"), kl=KL("loss", "k3", 0.04))
    tx = make_optimizer(OptimConfig(learning_rate=1e-5), 1000)

    def fresh():
        params = transformer.init(model, jax.random.key(0))
        return params | {"embed": params["embed"] * (1e-3 / jnp.std(params["embed"]))}

    state = init_state(fresh, tx, mesh)
    reference = jax.tree.map(jnp.copy, state.params)
    sampler = make_sampler(model, decode, sampling, stops, mesh)
    scorer = make_scorer(model, sampling, pack, mesh)
    update = make_update(model, sampling, objective, tx, state, mesh)
    group, advantage = w["group"], ADVANTAGES.make("group")
    aggregation = AggregationConfig("seq_mean_token_mean")

    def step(state, prompts, number):
        uids = range(number * len(prompts), (number + 1) * len(prompts))
        samples = sampler(state.params, prompts, uids, group, Address(0, 0, number))
        t1 = time.perf_counter()
        judged = judge(prompts, group, samples)
        mask = trained_mask(judged, RolloutConfig())
        ref = functools.partial(scorer, reference)
        experience, _ = make_experience(judged, mask, advantage, objective.kl, ref_logp=ref)
        t2 = time.perf_counter()
        batches = micro_batches(experience, aggregation, pack, mesh, objective)
        state, _ = update(state, batches)
        return state, samples, (t1, t2)

    return state, step


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("workload")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--row-tokens", type=int, default=384)
    a = parser.parse_args()
    here = pathlib.Path(__file__).parent
    w = json.loads((here / "workloads.json").read_text())[a.workload]
    state, step = build(w, PackConfig(row_tokens=a.row_tokens, micro_tokens=16384))
    rng, stamps, parts, lengths = np.random.default_rng(0), [time.perf_counter()], [], []
    for number in range(a.steps):
        size = (w["prompts"], w["prompt_len"] - 2)
        prompts = [list(map(int, row)) for row in rng.integers(20, 46, size)]
        state, samples, (t1, t2) = step(state, prompts, number)
        lengths += list(samples.length_B)
        stamps.append(time.perf_counter())
        parts.append((t1 - stamps[-2], t2 - t1, stamps[-1] - t2))
    steps = np.diff(stamps)
    timed = slice(2, None) if a.steps > 3 else slice(1, None)
    split = np.median(np.array(parts)[timed], axis=0)
    print(
        json.dumps(
            {
                "peer": "rlvr_jax",
                "workload": a.workload,
                "step_s": float(np.median(steps[timed])),
                "steps": [round(float(x), 2) for x in steps],
                "rollout_reference_update_s": [round(float(x), 2) for x in split],
                "mean_len": float(np.mean(lengths)),
                "max_len": int(np.max(lengths)),
                "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            }
        )
    )


if __name__ == "__main__":
    main()
