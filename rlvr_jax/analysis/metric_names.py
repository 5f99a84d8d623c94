"""Every metric: name, unit, what it is taken over, and what is bad.  docs/metrics.md is made of it.

A name may hold <placeholders>: `eval/<set>/pass@<k>` describes eval/test/pass@4.
"""

from __future__ import annotations

import dataclasses
import re

# "# section", then lines "name | unit | over | what is bad"; an indented line continues the last.
_TABLE = """
# Reward
reward/mean | reward | judged samples of the rollout | flat for long, or falling
reward/shaped | reward | judged samples of the batch, terms for the length included |
reward/std | reward | judged samples | 0: nothing left to learn from
reward/<part> | score | judged samples; one part of the verdict | one part rising alone: the
    reward is being gamed
# Groups (the samples of one prompt)
group/zero_std_frac | share | prompts | near 1: no gradient; too easy or too hard
group/all_wrong_frac | share | prompts | high and not falling: too hard
group/all_right_frac | share | prompts | near 1: too easy, nothing to learn
group/std_mean | reward | prompts; standard deviation within a group | near 0
# Lengths
len/mean | tokens | completions, end token included | growing without better reward
len/p10 | tokens | completions | collapsing to 1
len/p90 | tokens | completions | at the limit
len/max | tokens | completions | always at the limit
len/correct | tokens | accepted completions |
len/incorrect | tokens | refused completions | runs away from len/correct
len/truncated_frac | share | completions stopped by the limit | above 0.05
len/interrupted_frac | share | completions that a forced phrase interrupted | not falling: the
    policy does not learn to be done in time
# Policy
policy/loss | loss | trained tokens by the aggregator | not finite; its size means little
policy/entropy | nats | trained tokens; of the sampling distribution | falls to 0 early: no
    exploration; rises without bound: collapse
policy/approx_kl | nats | trained tokens; k3 of old to new policy | above 0.05: steps too large
policy/kl_ref_<estimator> | nats | trained tokens; k1, k2 and k3 to the reference | k1 and
    k3 far apart: few samples carry the estimate
policy/picked_frac | share | trained tokens that a covariance rule picked | far from the share set
policy/gate_mean | 1 | trained tokens; slope of the soft gate (SAPO) | near 0: no token learns
policy/taper_mean | 1 | trained tokens (topr: sequences); taper weight | near 0: no token learns
policy/sequence_log_ratio | nats | sequences; log of new over old probability | far from 0
policy/clip_frac_low | share | trained tokens clipped at the lower bound | above 0.2
policy/clip_frac_high | share | trained tokens clipped at the upper bound | above 0.2
policy/dual_clip_frac | share | trained tokens clipped by the dual bound | above 0.01
policy/ratio_max | ratio | trained tokens, maximum | not 1 on the first update of a rollout
policy/grad_norm | norm | all parameters, before clipping | spikes; steadily above the clip
policy/kl_coef | 1 | the coefficient of this step under kl_control | at a bound or running away
policy/entropy_coef | 1 | the coefficient of this step under entropy.target | stuck at its bound
policy/lr | 1 | the schedule at this update |
policy/updates | count | updates of the step, refused ones too | fewer than planned: the batch had
    fewer groups than minibatches, or the critic warms up alone
# Advantages
adv/mean | 1 | trained tokens |
adv/std | 1 | trained tokens | 0: no gradient
adv/min | 1 | trained tokens, minimum | below -10: noise taken for signal
adv/max | 1 | trained tokens, maximum | above 10: noise taken for signal
adv/baseline | reward | average reward of earlier steps (running_mean) |
# Value head
value/loss | reward squared | trained tokens | not falling
value/clip_frac | share | trained tokens whose value moved past the clip | above 0.3
value/explained_var | share | trained tokens; 1 - Var(return - value) / Var(return), values from
    before the step's updates | below 0
value/explained_reward | share | the same with the reward of the answer as the return (lambda 1) |
    below 0
value/return_mean | reward | trained tokens |
value/grad_norm | norm | all parameters of the critic, before clipping | spikes
value/nonfinite | share | updates of the critic refused as not finite | above 0
value/lr | 1 | the critic's schedule at this update |
# Sampler against scorer
mismatch/kl_k1 | nats | trained tokens; sampler minus scorer log-prob | away from 0: the two
    compute different models
mismatch/kl_k3 | nats | trained tokens; sampler to scorer | rising: the early warning
mismatch/abs_mean | nats | trained tokens | above 0.01 in f32
mismatch/abs_max | nats | trained tokens, maximum | above 0.05 in f32: not the same distribution
mismatch/prob_mult_error | ratio | trained tokens; mean of exp(absolute gap) | past 1.02: stale
    or wrong weights in the sampler
mismatch/is_mean | ratio | trained tokens, importance weight | away from 1
mismatch/is_max | ratio | trained tokens, maximum | above 10
mismatch/is_ess | share | effective sample size over tokens | below 0.5
mismatch/raw_is_mean | ratio | trained tokens, importance weight before caps | away from 1
mismatch/raw_is_max | ratio | trained tokens, maximum before caps | above 100
mismatch/raw_is_ess | share | effective sample size before caps | below 0.5
mismatch/is_clip_frac | share | trained tokens with a capped weight | above 0.05
mismatch/masked_frac | share | tokens dropped by the correction | above 0.05
# Data
data/epoch | passes | the training split |
data/tokens | tokens | trained on in the step |
data/unique_prompts | count | different prompts of the batch | fewer than the batch: repeats
data/refills | count | extra rollouts to fill the batch | at the cap: the task no longer suits the
    policy
data/skipped | count | prompts the curriculum passed over | most of the stream: little is left
data/limit | tokens | most tokens of a completion in this stage of rollout.limits |
data/dropped | count | groups left out: without signal, or more than the batch holds | most of the
    batch
data/prompts | count | groups of the batch | below the batch size
data/sampled_tokens | tokens | the samples of the step, forced phrases too; not the greedy
    completions of remax |
# Verifier
verifier/unknown_frac | share | samples the checker could not judge | above 0.05: a fault of the
    checker, masked out of training
verifier/parse_fail | share | samples without a readable answer | not falling: the format is not
    learned
verifier/timeout | share | samples whose check ran out of time | above 0.01
# Supervised warm-up
sft/loss | nats | target tokens | not falling
sft/grad_norm | norm | all parameters, before clipping | spikes
sft/lr | 1 | the schedule at this update |
# Evaluation (held-out problems; intervals count problems, not samples)
eval/<set>/avg@<k> | share | k samples of each problem | falling
eval/<set>/ci95_lo | share | 95 % interval of avg@k, lower end |
eval/<set>/ci95_hi | share | 95 % interval of avg@k, upper end |
eval/<set>/pass@<k> | share | problems; unbiased | large k falling while pass@1 rises: diversity
    is lost
eval/<set>/maj@<k> | share | problems; majority of k samples; absent where none gives an answer
    | below avg@k
eval/<set>/reward | reward | judged samples |
eval/<set>/unknown_frac | share | samples the checker could not judge | above 0.05
eval/<set>/len_mean | tokens | completions |
eval/<set>/len_max | tokens | completions | at the limit
eval/<set>/len_correct | tokens | accepted completions |
eval/<set>/len_incorrect | tokens | refused completions |
eval/<set>/len_truncated_frac | share | completions stopped by the limit | above 0.05
eval/<set>/len_interrupted_frac | share | completions that a forced phrase interrupted |
# Speed and memory (these two sections differ between repeated runs)
perf/step_s | seconds | one step without evaluation and saving | growing: recompilation, longer
    text, or a leak
perf/gen_tok_s | tokens/s | data/sampled_tokens over time/generate (with remax's greedy
    completions) | falling
perf/train_tok_s | tokens/s | data/tokens over time/update |
perf/compiles | count | programs compiled so far | still rising after the first steps
perf/host_rss | bytes | this process | rising steadily: a leak
# Where the time went
time/generate | seconds | since the last row | most of the step: sampler-bound
time/verify | seconds | since the last row | visible at all: checker-bound
time/logprob | seconds | since the last row; old and reference log-probs |
time/update | seconds | since the last row |
time/eval | seconds | since the last row | more than training itself
time/ckpt | seconds | since the last row; the part that blocks | visible: slow disk
time/other | seconds | since the last row; everything unnamed | large
# Health
health/nonfinite | share | updates of the step refused as not finite | above 0
"""


@dataclasses.dataclass(frozen=True)
class Metric:
    """unit: of the number.  over: what the mean, count or maximum is taken over."""

    section: str
    name: str
    unit: str
    over: str
    bad: str


def _parse(table: str) -> tuple[Metric, ...]:
    section, metrics = "", []
    for line in re.sub(r"\n\s+", " ", table.strip()).splitlines():
        if line.startswith("# "):
            section = line.removeprefix("# ")
        else:
            metrics.append(Metric(section, *(cell.strip() for cell in line.split("|"))))
    return tuple(metrics)


METRICS = _parse(_TABLE)
_PATTERNS = {
    metric.name: re.compile(re.sub(r"<\w+>", "[^/@]+", metric.name) + r"\Z") for metric in METRICS
}


def describe(name: str) -> Metric | None:
    """The entry for a logged name: its own if there is one, else the pattern that fits; or None."""
    fitting = [metric for metric in METRICS if _PATTERNS[metric.name].match(name)]
    return next((m for m in fitting if m.name == name), fitting[0] if fitting else None)


def markdown() -> str:
    """The tables of docs/metrics.md."""
    lines: list[str] = []
    for section in dict.fromkeys(metric.section for metric in METRICS):
        lines += [f"## {section}", "", "| name | unit | over | what is bad |", "| --- " * 4 + "|"]
        lines += [
            f"| `{m.name}` | {m.unit} | {m.over} | {m.bad} |"
            for m in METRICS
            if m.section == section
        ]
        lines.append("")
    return "\n".join(lines)
