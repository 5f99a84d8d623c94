"""What the generators share: sides by content, distinct test problems, addressed randomness."""

import pickle
import subprocess
import sys

import pytest

from rlvr_jax.tasks import TASKS
from rlvr_jax.tasks.base import TEST_SHARE, addressed_rng, content_hash, in_test

SMALL = {"arithmetic": {"max_operand": 9}, "countdown": {"max_number": 9}}
PARTS = {"arithmetic": "operands", "countdown": "numbers"}


def content(name, problem):
    """The problem whatever the order of its parts."""
    return (*sorted(problem.meta[PARTS[name]]), problem.answer)


@pytest.mark.parametrize("name", SMALL)
def test_no_test_problem_is_a_reordered_train_problem_of_any_seed(name):
    sides = {"train": set(), "test": set()}
    for seed, size in ((0, 40), (1, 20), (7, 5)):
        task = TASKS.make(name, **SMALL[name], seed=seed, size_train=600, size_test=size)
        for side, found in sides.items():
            found |= {content(name, p) for p in task.split(side)}
    assert sides["train"].isdisjoint(sides["test"])


@pytest.mark.parametrize("name", SMALL)
def test_test_problems_are_distinct_and_a_larger_split_extends_a_smaller(name):
    small, large = (TASKS.make(name, size_test=n).split("test") for n in (50, 200))
    assert len({p.prompt for p in large}) == 200
    assert list(large)[:50] == list(small)


@pytest.mark.parametrize("name", SMALL)
def test_seed_and_index_matter(name):
    a, b = (TASKS.make(name, seed=s).split("train") for s in (0, 1))
    prompts = [[split[i].prompt for i in range(50)] for split in (a, b)]
    assert sum(x == y for x, y in zip(*prompts, strict=True)) < 5
    assert len(set(prompts[0])) > 40
    assert a.fingerprint() != b.fingerprint()


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("arithmetic", {"max_operands": 3, "max_operand": 5, "size_test": 100}),
        ("countdown", {"num_numbers": 2, "max_number": 3, "size_test": 100}),
    ],
)
def test_space_too_small_for_the_test_split(name, fields):
    with pytest.raises(ValueError, match=r"only \d+ distinct test problems.*size_test = 100"):
        TASKS.make(name, **fields).split("test")[0]


def test_space_with_one_problem_has_only_one_side():
    task = TASKS.make("arithmetic", min_operands=2, max_operands=2, max_operand=1, size_test=1)
    one_in_test = in_test([[1, 1], ["+"]])
    with pytest.raises(ValueError, match="train problem" if one_in_test else "only 0 distinct"):
        task.split("train" if one_in_test else "test")[0]


def test_a_tenth_of_the_space_can_be_asked_for():
    """20^3 sums, of which about a fifth is held out."""
    task = TASKS.make("arithmetic", max_operand=20, size_test=1000)
    assert len({p.prompt for p in task.split("test")}) == 1000


def test_share_of_contents_in_test():
    held_out = sum(in_test(["problem", i]) for i in range(20_000)) / 20_000
    assert abs(held_out - TEST_SHARE) < 0.012  # four standard deviations
    assert not any(in_test(i, 0.0) for i in range(100))
    assert all(in_test(i, 1.0) for i in range(100))


def test_addresses_are_independent_of_one_another():
    draws = {addressed_rng(*a).random() for a in ((0, 1), (1, 0), ("a", 0), (0,), (0, 1, 0))}
    assert len(draws) == 5
    assert addressed_rng("train", 3, 5).random() == addressed_rng("train", 3, 5).random()


def test_content_hash_does_not_see_the_order_of_keys():
    assert content_hash({"a": 1, "b": 2}) == content_hash({"b": 2, "a": 1})
    assert content_hash([1, 2]) != content_hash([2, 1])


def test_split_travels_to_another_process():
    split = TASKS.make("countdown", size_test=8).split("test")
    assert list(pickle.loads(pickle.dumps(split))) == list(split)


def test_hash_randomisation_does_not_matter():
    code = (
        "from rlvr_jax.tasks import TASKS; "
        "print([TASKS.make(n).split('train')[9].prompt for n in ('arithmetic', 'countdown')])"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1
