"""Estimators against brute force and textbook numbers; intervals against their own promise."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr_jax.statistics import (
    Estimate,
    bootstrap_ci,
    maj_at_k,
    mean_ci,
    paired_difference,
    pass_at_k,
    t_quantile_975,
    wilson,
)


@pytest.mark.parametrize("n", [1, 2, 5, 7])
def test_pass_at_k_is_the_share_of_subsets_with_a_right_sample(n):
    for correct in range(n + 1):
        marks = [1] * correct + [0] * (n - correct)
        for k in range(1, n + 1):
            subsets = list(itertools.combinations(marks, k))
            share = sum(any(s) for s in subsets) / len(subsets)
            assert pass_at_k(correct, n, k) == pytest.approx(share, abs=1e-12)


def test_pass_at_k_of_many_samples_stays_finite_and_exact():
    exact = 1 - math.comb(9990, 5000) / math.comb(10000, 5000)
    assert pass_at_k(10, 10000, 5000) == pytest.approx(exact, rel=1e-12)
    assert pass_at_k(0, 10000, 10000) == 0.0


@pytest.mark.parametrize("arguments", [(0, 4, 5), (0, 4, 0), (5, 4, 1), (-1, 4, 1), (0, 0, 1)])
def test_pass_at_k_refuses_the_impossible(arguments):
    with pytest.raises(ValueError):
        pass_at_k(*arguments)


def test_majority_counts_votes_and_does_not_depend_on_the_order():
    answers, correct = ["7", "8", "7", None, "9"], [True, False, True, False, False]
    for order in itertools.permutations(range(5)):
        assert maj_at_k([answers[i] for i in order], [correct[i] for i in order]) == 1.0


def test_a_tied_majority_is_worth_its_expectation():
    assert maj_at_k(["1", "2"], [True, False]) == 0.5
    assert maj_at_k(["1", "2", "3"], [True, False, False]) == pytest.approx(1 / 3)


def test_no_vote_is_no_answer():
    assert maj_at_k([None, None], [False, False]) == 0.0
    with pytest.raises(ValueError, match="2 answers"):
        maj_at_k(["1", "2"], [True])


def test_wilson_matches_published_values():
    # Newcombe 1998, table I, method 3: 81/263, 15/148, 0/20, 1/29.
    for (r, n), (lo, hi) in {
        (81, 263): (0.2553, 0.3662),
        (15, 148): (0.0624, 0.1605),
        (0, 20): (0.0, 0.1611),
        (1, 29): (0.0061, 0.1718),
    }.items():
        assert wilson(r, n) == pytest.approx((lo, hi), abs=1e-4)


def test_wilson_at_the_edges():
    assert wilson(0, 0) == (0.0, 1.0)
    lo, hi = wilson(20, 20)
    assert hi == 1.0 and 0.8 < lo < 0.9
    with pytest.raises(ValueError):
        wilson(3, 2)


def test_t_quantiles():
    table = {1: 12.7062, 2: 4.30265, 3: 3.18245, 5: 2.57058, 10: 2.22814, 30: 2.04227, 999: 1.96234}
    for degrees, value in table.items():
        assert t_quantile_975(degrees) == pytest.approx(value, rel=2e-3)
    assert t_quantile_975(0) == math.inf


def test_one_sample_per_problem_is_wilson():
    values = [1.0] * 15 + [0.0] * 133
    estimate = mean_ci(values)
    assert (estimate.lo, estimate.hi) == pytest.approx(wilson(15, 148))
    assert estimate.n == 148 and estimate.value == pytest.approx(15 / 148)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_the_interval_never_collapses(value):
    estimate = mean_ci([value] * 50, samples=8)
    assert estimate.hi - estimate.lo == pytest.approx(np.diff(wilson(50 * value, 50))[0])
    assert estimate.hi - estimate.lo > 0.05


def test_clustering_makes_repeated_samples_of_hard_problems_no_evidence():
    """If a problem is always or never solved, 8 samples say as much as one."""
    values = [1.0] * 20 + [0.0] * 20
    assert mean_ci(values, samples=8) == mean_ci(values, samples=1)
    mixed = mean_ci([0.5] * 40, samples=8)
    assert mixed.hi - mixed.lo < 0.6 * (mean_ci(values).hi - mean_ci(values).lo)


@pytest.mark.parametrize("sharpness", [0.2, 2.0, 50.0])
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_the_interval_covers_the_truth_as_often_as_it_says(sharpness, level):
    rng, hits, rounds = np.random.default_rng(0), 0, 600
    for _ in range(rounds):
        rates = rng.beta(sharpness * level, sharpness * (1 - level), 60)
        estimate = mean_ci(rng.binomial(4, rates) / 4, samples=4)
        hits += estimate.lo <= level <= estimate.hi
    assert hits / rounds >= 0.925


def test_means_of_other_values_use_student():
    estimate = mean_ci([1.0, 2.0, 3.0, 4.0], proportion=False)
    half = 3.18245 * np.std([1, 2, 3, 4], ddof=1) / 2
    assert estimate.value == 2.5
    assert (estimate.lo, estimate.hi) == pytest.approx((2.5 - half, 2.5 + half), abs=5e-3)
    assert mean_ci([1.0], proportion=False).hi == math.inf


def test_bad_values_are_refused():
    with pytest.raises(ValueError, match="proportion"):
        mean_ci([0.5, 1.5])
    with pytest.raises(ValueError, match="finite"):
        mean_ci([0.5, math.nan])
    with pytest.raises(ValueError, match="not paired"):
        paired_difference([0.1], [0.1, 0.2])


def test_nothing_is_an_estimate_of_nothing():
    for estimate in (mean_ci([]), bootstrap_ci([]), paired_difference([], [])):
        assert estimate.n == 0 and math.isnan(estimate.value)
        assert estimate.to_json() == {"value": None, "ci95": [None, None], "n": 0}


def test_bootstrap_repeats_and_agrees_with_student_for_many_problems():
    values = np.random.default_rng(1).normal(3.0, 1.0, 400)
    estimate = bootstrap_ci(values)
    assert estimate == bootstrap_ci(values)
    assert estimate != bootstrap_ci(values, seed=1)
    student = mean_ci(values, proportion=False)
    assert (estimate.lo, estimate.hi) == pytest.approx((student.lo, student.hi), abs=0.02)
    assert bootstrap_ci(values, np.median).value == np.median(values)


def test_paired_difference_is_tighter_than_two_separate_intervals():
    rng = np.random.default_rng(2)
    before = rng.beta(0.5, 0.5, 100)
    after = np.clip(before + 0.1, 0, 1)
    change = paired_difference(before, after)
    assert change.lo > 0
    assert mean_ci(before, samples=8).hi > mean_ci(after, samples=8).lo


def test_paired_difference_never_claims_certainty():
    same, jump = paired_difference([0.5] * 30, [0.5] * 30), paired_difference([0] * 30, [1] * 30)
    assert same.lo < 0 < same.hi
    assert jump.lo < 1 and jump.hi == 1.0
    assert paired_difference([0.0], [1.0]).lo == -1.0


def test_estimates_survive_json():
    for estimate in (Estimate(0.5, 0.4, 0.6, 10), mean_ci([1.0], proportion=False)):
        assert Estimate.from_json(estimate.to_json()).to_json() == estimate.to_json()
    assert str(Estimate(0.5, 0.4, 0.6, 10)) == "0.500 [0.400, 0.600]"


@st.composite
def tallies(draw):
    """(correct, n, k) that pass@k accepts."""
    n = draw(st.integers(1, 200))
    return draw(st.integers(0, n)), n, draw(st.integers(1, n))


@settings(max_examples=200, deadline=None)
@given(tallies())
def test_pass_at_k_is_a_probability_that_grows(tally):
    correct, n, k = tally
    value = pass_at_k(correct, n, k)
    assert 0.0 <= value <= 1.0
    assert value >= correct / n - 1e-12
    if k > 1:
        assert value >= pass_at_k(correct, n, k - 1) - 1e-12
    if correct > 0:
        assert value >= pass_at_k(correct - 1, n, k) - 1e-12


def test_pass_at_k_is_unbiased():
    """Mean over binomial tallies of 8 samples is 1 - (1 - p)^k, exactly."""
    n, p = 8, 0.3
    chance = [math.comb(n, c) * p**c * (1 - p) ** (n - c) for c in range(n + 1)]
    for k in (1, 2, 4, 8):
        mean = sum(w * pass_at_k(c, n, k) for c, w in enumerate(chance))
        assert mean == pytest.approx(1 - (1 - p) ** k, abs=1e-12)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["1", "2", "3", None]), st.booleans()), min_size=1))
def test_a_majority_vote_is_a_share_and_ignores_the_order(pairs):
    answers, correct = [a for a, _ in pairs], [c for _, c in pairs]
    value = maj_at_k(answers, correct)
    assert 0.0 <= value <= 1.0
    assert value == pytest.approx(maj_at_k(answers[::-1], correct[::-1]))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(0, 8), min_size=1, max_size=60))
def test_an_interval_holds_its_value_and_stays_in_bounds(counts):
    estimate = mean_ci([c / 8 for c in counts], samples=8)
    assert 0.0 <= estimate.lo <= estimate.value <= estimate.hi <= 1.0
    assert estimate.hi - estimate.lo > 0
    mirrored = mean_ci([1 - c / 8 for c in counts], samples=8)
    assert (mirrored.lo, mirrored.hi) == pytest.approx((1 - estimate.hi, 1 - estimate.lo), abs=1e-9)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=40))
def test_a_paired_difference_turns_its_sign_with_the_order(pairs):
    before, after = [a / 4 for a, _ in pairs], [b / 4 for _, b in pairs]
    there, back = paired_difference(before, after), paired_difference(after, before)
    assert -1 <= there.lo <= there.value <= there.hi <= 1
    assert (there.lo, there.hi) == pytest.approx((-back.hi, -back.lo))


def test_more_problems_make_every_interval_narrower():
    for function in (mean_ci, bootstrap_ci, lambda v: paired_difference(np.zeros(len(v)), v)):
        widths = []
        for n in (10, 100, 1000):
            estimate = function(np.tile([0.0, 1.0], n // 2))
            widths.append(estimate.hi - estimate.lo)
        assert widths[0] > 2 * widths[1] > 4 * widths[2]


def test_the_paired_interval_covers_the_truth():
    rng, hits, rounds = np.random.default_rng(3), 0, 400
    for _ in range(rounds):
        rates = rng.beta(1, 1, 50)
        better = rates + 0.2 * (1 - rates)
        before, after = rng.binomial(4, rates) / 4, rng.binomial(4, better) / 4
        estimate = paired_difference(before, after)
        hits += estimate.lo <= 0.1 <= estimate.hi
    assert hits / rounds >= 0.92
