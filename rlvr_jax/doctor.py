"""The invariants of the design, on a user's own configuration: one small rollout and one update.

Each check yields a `Row`.  Sizes are cut down (4 prompts, short groups); the model, the tokenizer,
the task, the reward, the objective and the mesh are the config's own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import tempfile
from collections.abc import Iterator

import jax
import numpy as np

from rlvr_jax.checkpoint import CheckpointConfig, Checkpoints
from rlvr_jax.config import RunConfig
from rlvr_jax.experience import Experience, Extras, make_experience, micro_batches
from rlvr_jax.generate import Address
from rlvr_jax.invariants import KL_AT_START
from rlvr_jax.learner import make_optimizer, make_scorer, make_update
from rlvr_jax.preflight import check_data
from rlvr_jax.rollout import CHECK, Judged, trained_mask
from rlvr_jax.setup import open_actor, start_stage, start_state
from rlvr_jax.text import load_tokenizer
from rlvr_jax.types import Completion

PROMPTS, GROUP = 4, 4


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    found: str
    allowed: str
    ok: bool


def examine(config: RunConfig) -> Iterator[Row]:
    """All checks in turn."""
    train, test = config.task.split("train"), config.task.split("test")
    yield _disjoint(train, test)
    data = _data(config, train, test)
    yield data
    if not data.ok:
        return  # a prompt that does not fit cannot be sampled from
    with contextlib.ExitStack() as stack:
        actor, model, mesh = open_actor(stack, config, config.sampling)
        problems = [train[i] for i in range(min(PROMPTS, len(train)))]
        yield from _gold(actor, problems)
        tx = make_optimizer(config.optim, 1)
        state = start_state(config.seed, model, mesh)
        state = start_stage(config, mesh, state, tx, _rl_stage(config))
        yield Row("every parameter has a sharding rule", f"{_leaves(state)} leaves", "all", True)
        uids = list(range(len(problems)))
        address = Address(config.seed, CHECK, 0)
        judged = actor.roll(state.weights, problems, uids, GROUP, address)
        yield from _replay(actor, state.weights, judged, uids, address)
        yield from _learner(config, model, mesh, state, tx, judged)


def _rl_stage(config: RunConfig) -> int:
    """The stage that is looked at: the last, which is the one of RL where there is one."""
    return config.stages.index("rl") if "rl" in config.stages else len(config.stages) - 1


def _leaves(tree) -> int:
    return len(jax.tree.leaves(tree))


def _disjoint(train, test) -> Row:
    """Prompts of the test split do not occur among the first of the train split."""
    some = {str(train[i].prompt) for i in range(min(len(train), 2000))}
    shared = sum(str(test[i].prompt) in some for i in range(min(len(test), 500)))
    return Row("train and test share no prompt", f"{shared} shared", "0", shared == 0)


def _data(config: RunConfig, train, test) -> Row:
    """What a run refuses before its first step."""
    name = "prompts fit and golds can be read"
    try:
        count = check_data(config, load_tokenizer(config.tokenizer), train, test)
    except ValueError as error:
        return Row(name, str(error), "all", False)
    return Row(name, f"{count} problems", "all", True)


def _gold(actor, problems) -> Iterator[Row]:
    """The worked solution earns more than an empty answer, where the task has one."""
    solved = [p for p in problems if p.solution is not None]
    if solved:
        given = [Completion(text=p.solution, num_tokens=1) for p in solved]
        judged = sum(v.status != "unknown" for v in actor.grader.grade(given, solved))
        found = f"{judged}/{len(solved)}"
        yield Row("worked solutions can be judged", found, "all", judged == len(solved))
    empty = actor.grader.grade([Completion(text="") for _ in problems], problems)
    paid = sum(v.correct for v in empty)
    yield Row("an empty answer is not right", f"{paid} accepted", "0", paid == 0)


def _replay(actor, params, judged: Judged, uids, address) -> Iterator[Row]:
    """The same coordinates give the same completions, one prompt at a time; others differ."""
    tokens, equal = judged.samples.tokens_BT, True
    for n, uid in enumerate(uids):
        alone = actor.roll(params, [judged.problems[n]], [uid], GROUP, address).samples.tokens_BT
        rows = tokens[n * GROUP : (n + 1) * GROUP]
        width = min(rows.shape[1], alone.shape[1])
        equal &= np.array_equal(rows[:, :width], alone[:, :width])
    found = "equal" if equal else "differs"
    yield Row("a rollout replays from its coordinates", found, "equal", equal)
    other = dataclasses.replace(address, step=address.step + 1)
    fresh = actor.roll(params, judged.problems, uids, GROUP, other).samples.tokens_BT
    same = fresh.shape == tokens.shape and np.array_equal(fresh, tokens)
    yield Row("another step draws anew", "equal" if same else "differs", "differs", not same)


def _learner(config: RunConfig, model, mesh, state, tx, judged: Judged) -> Iterator[Row]:
    scorer = make_scorer(model, config.sampling, config.pack, mesh)
    mask = trained_mask(judged, config.rollout)
    needs_ref = config.objective.needs_reference
    experience, _ = make_experience(
        judged,
        mask,
        config.advantage,
        config.objective.kl,
        ref_logp=(lambda s, width: scorer(state.base, s, width)) if needs_ref else None,
        extras=_extras(config, model, mesh, state, judged),
    )
    experience = _made_up(experience, judged.samples.drawn_BT)
    mask = experience.mask_BT
    scored = scorer(state.weights, experience.sequences, mask.shape[1])
    gap = np.abs(np.where(mask, scored - experience.sampler_logp_BT, 0.0))
    limit = config.learner.max_sampler_gap
    mean = float(gap.sum() / max(1, mask.sum()))
    found = f"mean {mean:.1e}, max {gap.max():.1e}"
    yield Row("sampler and scorer agree", found, f"mean <= {limit} nats", mean <= limit)
    update = make_update(model, config.sampling, config.objective, tx, state, mesh)
    batches = micro_batches(experience, config.aggregation, config.pack, mesh, config.objective)
    after, numbers = update(jax.tree.map(jax.numpy.copy, state), batches)
    ratio, spread = numbers["policy/ratio_max"], float(np.exp(gap.max()))
    ok = abs(ratio - 1) <= 2 * (spread - 1) + 1e-5
    yield Row("ratio is 1 on-policy", f"max {ratio:.6f}", "1 up to the sampler's gap", ok)
    if needs_ref:
        kl, most = numbers["policy/kl_ref_k3"], KL_AT_START[model.compute_dtype]
        yield Row("KL(policy, reference) is 0 at the start", f"{kl:.1e}", f"<= {most}", kl <= most)
    norm = numbers["policy/grad_norm"]
    good = numbers["health/nonfinite"] == 0 and norm > 0
    yield Row("there is a finite gradient", f"norm {norm:.3g}", "finite, not 0", good)
    yield _restores(after)


def _made_up(experience: Experience, drawn_BT: np.ndarray) -> Experience:
    """The rollout with advantages of +1 and -1 in turn, and no drawn token masked.

    An untrained policy earns the same everywhere and seldom ends by itself: its own advantages are
    0, or all its tokens are masked, and what is looked at under them holds of anything.
    """
    pad = experience.mask_BT.shape[1] - drawn_BT.shape[1]
    mask_BT = np.pad(drawn_BT, ((0, 0), (0, pad)))
    sign_B = 1.0 - 2.0 * (np.arange(len(mask_BT)) % 2)
    adv_BT = np.where(mask_BT, sign_B[:, None], 0.0).astype(np.float32)
    return dataclasses.replace(experience, mask_BT=mask_BT, adv_BT=adv_BT)


def _extras(config: RunConfig, model, mesh, state, judged: Judged) -> Extras:
    """What the advantage needs at the very start: a critic that says 0, a baseline of 0."""
    needs, both = config.advantage.needs, None
    if config.objective.top_entropy < 1:
        both = make_scorer(model, config.sampling, config.pack, mesh, entropy=True)
    return Extras(
        rescore=None if both is None else functools.partial(both, state.weights),
        value=_zeros if "value_BT" in needs else None,
        greedy_reward_N=np.zeros(len(judged.problems), np.float32)
        if "greedy_reward_N" in needs
        else None,
        baseline=0.0 if "running_baseline" in needs else None,
    )


def _zeros(sequences, width: int) -> np.ndarray:
    return np.zeros((len(sequences.length_B), width), np.float32)


def _restores(state) -> Row:
    """A checkpoint gives back the same bits."""
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.closing(Checkpoints(folder, CheckpointConfig(), print)) as checkpoints,
    ):
        checkpoints.save(1, state, {})
        checkpoints.wait()
        back = checkpoints.restore(state).state
    same = all(
        np.asarray(a).tobytes() == np.asarray(b).tobytes()
        for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(back), strict=True)
    )
    return Row("a checkpoint restores bit for bit", "equal" if same else "differs", "equal", same)
