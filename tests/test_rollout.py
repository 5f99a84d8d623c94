"""Collecting a step's batch: cursor, refills, masks, metrics; with a sampler that is a table."""

import dataclasses

import numpy as np
import pytest

from rlvr_jax.analysis.metric_names import describe
from rlvr_jax.evaluate import report
from rlvr_jax.generate import Address, DecodeConfig
from rlvr_jax.log import Clock
from rlvr_jax.rollout import (
    Actor,
    RolloutConfig,
    collect,
    informative,
    join,
    rollout_metrics,
    trained_mask,
)
from rlvr_jax.slots import Samples
from rlvr_jax.text import PromptFormat, char_tokenizer
from rlvr_jax.text import stop_ids as stops_of
from rlvr_jax.types import Problem, Verdict

TOKENIZER = char_tokenizer()
STOPS = stops_of(TOKENIZER)
HERE = Address(3, 0, 9)


class Grader:
    """Scores a completion by the digit it wrote: 0 and 1 are rewards, 9 could not be judged."""

    def grade(self, completions, problems):
        assert len(completions) == len(problems)
        return [self.verdict(c.text) for c in completions]

    def verdict(self, text):
        digit = text[:1]
        if digit == "9":
            return Verdict(status="unknown", reason="error")
        if digit == "1":
            return Verdict(status="scored", score=1.0, parts={"correct": 1.0}, extracted=digit)
        return Verdict(status="wrong", score=0.0, reason="unparsable", parts={"correct": 0.0})


def make_actor(text_of, calls=None) -> Actor:
    """text_of(uid, sample) -> the completion's text; without "." at the end it was cut off."""

    def sample(params, prompts, uids, group, address):
        if calls is not None:
            calls.append((list(uids), group, address))
        texts = [text_of(uid, i) for uid in uids for i in range(group)]
        ids = [
            TOKENIZER(t.rstrip("."))["input_ids"] + ([STOPS[0]] if t.endswith(".") else [])
            for t in texts
        ]
        length_B = np.array([len(i) for i in ids], np.int32)
        tokens_BT = np.zeros((len(ids), length_B.max()), np.int32)
        for b, row in enumerate(ids):
            tokens_BT[b, : len(row)] = row
        return Samples(
            tokens_BT=tokens_BT,
            logp_BT=np.where(np.arange(tokens_BT.shape[1]) < length_B[:, None], -1.0, 0.0),
            forced_BT=np.zeros_like(tokens_BT, bool),
            length_B=length_B,
            eos_B=np.array([t.endswith(".") for t in texts]),
            decode_steps=int(length_B.max()),
            decode_rows=tokens_BT.size,
        )

    return Actor(
        sampler=sample,
        tokenizer=TOKENIZER,
        format=PromptFormat(),
        stop_ids=STOPS,
        grader=Grader(),
        decode=DecodeConfig(max_prompt_tokens=6, max_new_tokens=8),
        clock=Clock(),
    )


def problem_at(i):
    return Problem(prompt=f"p{i}", answer="1", index=i)


def gathered(text_of, config, cursor=10):
    calls = []
    out = collect(make_actor(text_of, calls), None, problem_at, cursor, config, HERE)
    return *out, calls


def mixed(uid, sample):
    """Groups of even uids are solved by their first sample only, others by all."""
    return "1." if uid % 2 or sample == 0 else "0."


def test_a_plain_step_takes_the_next_prompts():
    batch, cursor, metrics, calls = gathered(mixed, RolloutConfig(prompts=4, group=2))
    assert cursor == 14 and calls == [([10, 11, 12, 13], 2, HERE)]
    assert [p.index for p in batch.problems] == [10, 11, 12, 13]
    assert metrics["data/refills"] == 0 and metrics["data/prompts"] == 4
    assert metrics["data/dropped"] == 0 and metrics["data/unique_prompts"] == 4


def test_dynamic_sampling_fills_the_batch_with_groups_that_differ():
    config = RolloutConfig(prompts=4, group=2, dynamic_sampling=True)
    batch, cursor, metrics, calls = gathered(mixed, config)
    assert [p.index for p in batch.problems] == [10, 12, 14, 16]
    assert cursor == 18 and [c[0] for c in calls] == [[10, 11, 12, 13], [14, 15, 16, 17]]
    assert metrics["data/refills"] == 1 and metrics["data/dropped"] == 4
    assert informative(batch).all() and metrics["group/zero_std_frac"] == 0.5
    assert batch.samples.tokens_BT.shape[0] == len(batch.verdicts) == 8


def test_more_than_needed_is_cut_to_size():
    config = RolloutConfig(prompts=3, group=2, dynamic_sampling=True)
    batch, cursor, *_ = gathered(mixed, config)
    assert [p.index for p in batch.problems] == [10, 12, 14] and cursor == 16


def test_refills_stop_at_the_cap_with_what_was_found():
    def rare(uid, sample):
        return "1." if uid == 12 and sample == 0 else "0."

    config = RolloutConfig(prompts=4, group=2, dynamic_sampling=True, max_refills=2)
    batch, cursor, metrics, calls = gathered(rare, config)
    assert [p.index for p in batch.problems] == [12] and len(calls) == 3 and cursor == 22
    assert metrics["data/refills"] == 2 and metrics["data/prompts"] == 1


class Odd:
    """A chooser that refuses odd positions."""

    def __init__(self):
        self.seen = []

    def admits(self, position, problem):
        return position % 2 == 0

    def remember(self, judged):
        self.seen += [p.index for p in judged.problems]


def test_refused_positions_are_skipped_and_the_batch_is_never_too_large():
    """Of 10, 12, 14, 16 the group of 12 differs; a refill of four finds three more and one too
    many."""

    def some(uid, sample):
        return "1." if uid in (10, 14, 16) or sample == 0 else "0."

    config, chooser = RolloutConfig(prompts=4, group=2, dynamic_sampling=True), Odd()
    batch, cursor, metrics = collect(make_actor(some), None, problem_at, 10, config, HERE, chooser)
    assert [p.index for p in batch.problems] == [12, 18, 20, 22]
    assert chooser.seen == [10, 12, 14, 16, 18, 20, 22, 24] and cursor == 25
    assert metrics["data/skipped"] == 7 and metrics["data/dropped"] == 4


def test_small_differences_of_large_rewards_are_none():
    large = [Verdict(status="scored", score=s) for s in (1e4, 1e4 + 5e-3)]
    assert not informative(dataclasses.replace(roll("1.", "1."), verdicts=large)).any()


def test_without_any_difference_one_group_is_left():
    config = RolloutConfig(prompts=2, group=2, dynamic_sampling=True, max_refills=1)
    batch, cursor, metrics, _ = gathered(lambda uid, i: "1.", config)
    assert len(batch.problems) == 1 and not informative(batch).any() and cursor == 14
    assert metrics["data/sampled_tokens"] == 16 and metrics["data/dropped"] == 3


@pytest.mark.parametrize("refills", [0, -1])
def test_refills_are_at_least_one(refills):
    """Below 0 the cap was never met, and the step never ended."""
    with pytest.raises(ValueError, match="max_refills must be at least 1"):
        RolloutConfig(dynamic_sampling=True, max_refills=refills)


def roll(*texts, group=2):
    """A judged rollout of texts, `group` for each prompt."""
    count = len(texts) // group
    actor = make_actor(lambda uid, i: texts[uid * group + i])
    return actor.roll(None, [problem_at(i) for i in range(count)], range(count), group, HERE)


def test_groups_differ_by_range_and_by_judged_rewards_only():
    judged = roll("1.", "0.", "1.", "1.", "9.", "1.", "9.", "9.", "0.", "0.")
    assert informative(judged).tolist() == [True, False, False, False, False]
    noise = [Verdict(status="scored", score=s) for s in (0.3, 0.1 + 0.2, 0.0, 1e-9)]
    assert not informative(dataclasses.replace(roll(*["1."] * 4), verdicts=noise)).any()


def test_unknown_verdicts_are_masked_not_scored():
    judged = roll("1.", "9.", "0.", "1.")
    mask_BT = trained_mask(judged, RolloutConfig(group=2))
    assert mask_BT.any(1).tolist() == [True, False, True, True]
    assert judged.valid_NG.tolist() == [[True, False], [True, True]]
    metrics = rollout_metrics(judged)
    assert metrics["reward/mean"] == pytest.approx(2 / 3)
    assert metrics["verifier/unknown_frac"] == 0.25
    assert metrics["group/all_right_frac"] == 0.5 and metrics["group/all_wrong_frac"] == 0
    assert metrics["verifier/parse_fail"] == 0.25


def test_the_mask_is_the_sampled_tokens():
    judged = roll("1.", "0000", "01.", "1")
    mask_BT = trained_mask(judged, RolloutConfig(group=2))
    assert mask_BT.sum(1).tolist() == [2, 4, 3, 1] and mask_BT.shape[1] % 8 == 0
    cut = trained_mask(judged, RolloutConfig(group=2, mask_truncated=True))
    assert cut.sum(1).tolist() == [2, 0, 3, 0]


def test_ids_are_the_truth_and_text_a_view():
    judged = roll("12.", "1", "0.", "0.")
    first, second = judged.completions[:2]
    assert (first.text, first.num_tokens, first.stop_reason) == ("12", 3, "eos")
    assert first.token_ids[-1] == STOPS[0]
    assert (second.text, second.num_tokens, second.stop_reason) == ("1", 1, "length")


def test_lengths_by_right_and_wrong():
    metrics = rollout_metrics(roll("1.", "0000", "11.", "00."))
    assert metrics["len/correct"] == 2.5 and metrics["len/incorrect"] == 3.5
    assert metrics["len/mean"] == 3 and metrics["len/max"] == 4
    assert metrics["len/truncated_frac"] == 0.25 and metrics["reward/correct"] == 0.5


def test_every_metric_is_described_and_finite_even_if_nothing_was_judged():
    for texts in (("1.", "0."), ("9.", "9."), ("1", "1")):
        metrics = rollout_metrics(roll(*texts))
        assert all(np.isfinite(v) for v in metrics.values())
        assert [n for n in metrics if describe(n) is None] == []
    *_, metrics, _ = gathered(mixed, RolloutConfig(prompts=2, group=2))
    assert [n for n in metrics if describe(n) is None] == []


def test_joining_and_taking_are_inverse():
    parts = [roll("1.", "0000"), roll("01.", "1.", "9.", "0.")]
    whole = join(parts)
    assert whole.reward_NG.tolist() == [[1, 0], [0, 1], [0, 0]]
    assert whole.samples.tokens_BT.shape == (6, 4)
    back = whole.take([1, 2])
    assert back.verdicts == parts[1].verdicts and back.completions == parts[1].completions
    np.testing.assert_array_equal(back.samples.length_B, parts[1].samples.length_B)
    assert whole.sequences().prompt_of_B.tolist() == [0, 0, 1, 1, 2, 2]


def test_rows_for_people_show_the_first_completion():
    rows = roll("1.", "0.", "0.", "1.").rows("train", 5)
    assert len(rows) == 2 and rows[0]["completion"] == "1" and rows[1]["completion"] == "0"


def test_a_prompt_over_the_limit_is_named():
    actor = make_actor(mixed)
    with pytest.raises(ValueError, match=r"problem 1234567 .* decode.max_prompt_tokens allows 6"):
        actor.roll(None, [problem_at(1234567)], [0], 2, HERE)


@pytest.mark.parametrize(
    "fields", [{"prompts": 0}, {"group": 0}, {"group": 1, "dynamic_sampling": True}]
)
def test_impossible_settings_are_refused(fields):
    with pytest.raises(ValueError, match="rollout"):
        RolloutConfig(**fields)


def test_evaluations_count_what_is_right_and_training_hears_what_was_paid():
    judged = roll("1.", "1.", "0.", "0.")
    paid = [
        dataclasses.replace(
            v, status="scored", score=float(i % 2), parts={"correct": i % 2, "accuracy": v.score}
        )
        for i, v in enumerate(judged.verdicts)
    ]
    judged = dataclasses.replace(judged, verdicts=paid)
    assert judged.correct_NG.tolist() == [[False, True], [False, True]]
    assert judged.accurate_NG.tolist() == [[True, True], [False, False]]
    assert judged.parts_CNG(("correct",))[0].tolist() == [[0, 1], [0, 1]]
    with pytest.raises(ValueError, match='no.* a part "accuracy"'):
        judged.parts_CNG(("correct", "accuracy"))
    assert report(judged).avg.value == 0.5 and report(judged).pass_at[2].value == 0.5
