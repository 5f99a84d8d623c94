"""Properties every registered task must have; a new file is tested before its author tests it."""

import collections
import dataclasses
import json
import os
import pickle
import random
import re
import subprocess
import sys

import pytest

from rlvr_jax.rewards import REWARDS
from rlvr_jax.tasks import TASKS, stream
from rlvr_jax.types import Completion, Problem

NAMES = list(TASKS)
SPLITS = ("train", "test")


@pytest.fixture(params=NAMES)
def task(request, tmp_path):
    cls = TASKS[request.param]
    return cls.example(str(tmp_path)) if hasattr(cls, "example") else cls()


def some(split, count=40):
    """The first and the last problems and some between."""
    rng = random.Random(0)
    return [split[i] for i in sorted({0, len(split) - 1, *rng.choices(range(len(split)), k=count)})]


def accepted(task, problem, text):
    return REWARDS.make(task.reward)(Completion(text=text), problem).correct


def test_fields_are_a_schema_with_defaults():
    kinds = collections.defaultdict(set)
    for name in NAMES:
        for field in dataclasses.fields(TASKS[name]):
            assert field.default is not dataclasses.MISSING, f"{name}.{field.name} has no default"
            kinds[field.name].add(str(field.type))
    allowed = r"(int|float|str|bool|tuple\[(str|float), \.\.\.\])( \| None)?"
    for field, types in kinds.items():
        assert len(types) == 1, f"{field} has different types in different tasks: {types}"
        assert re.fullmatch(allowed, next(iter(types))), f"{field}: {types}"


def test_task_is_frozen_and_hashable(task):
    hash(task)
    field = dataclasses.fields(task)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(task, field, None)


def test_reward_exists(task):
    assert task.reward in REWARDS


@pytest.mark.parametrize("name", SPLITS)
def test_problems_are_typed(task, name):
    split = task.split(name)
    assert len(split) > 0
    for problem in some(split):
        assert isinstance(problem, Problem)
        assert isinstance(problem.answer, str) and problem.answer == problem.answer.strip()
        assert problem.solution is None or isinstance(problem.solution, str)
        if isinstance(problem.prompt, str):
            assert problem.prompt.strip()
        else:
            assert all(set(m) == {"role", "content"} for m in problem.prompt)
        assert all(isinstance(key, str) for key in problem.meta)


@pytest.mark.parametrize("name", SPLITS)
def test_index_is_the_position_and_ends_with_the_split(task, name):
    split = task.split(name)
    for index in {0, len(split) // 2, len(split) - 1}:
        assert split[index].index == index
    for index in (-1, len(split)):
        with pytest.raises(IndexError):
            split[index]


@pytest.mark.parametrize("name", SPLITS)
def test_problems_have_a_place_for_messages(task, name):
    split = task.split(name)
    assert 0 < split.preview <= len(split)
    places = [split.where(i) for i in range(min(split.preview, 20))]
    assert len(set(places)) == len(places) and all(places)


@pytest.mark.parametrize("name", SPLITS)
def test_the_reward_can_read_every_gold(task, name):
    split, reward = task.split(name), REWARDS.make(task.reward)
    assert [reward.gold_fault(p) for p in some(split)] == [""] * len(some(split))


@pytest.mark.parametrize("name", SPLITS)
def test_same_index_same_problem_in_any_order(task, name):
    forward, backward = task.split(name), task.split(name)
    indices = range(min(20, len(forward)))
    assert [forward[i] for i in indices] == [backward[i] for i in reversed(indices)][::-1]
    assert forward.fingerprint() == backward.fingerprint()


@pytest.mark.parametrize("name", SPLITS)
def test_same_problem_in_another_process(task, name, tmp_path):
    code = (
        "import pickle, sys; task, name = pickle.load(open(sys.argv[1], 'rb')); "
        "s = task.split(name); print([repr(s[i]) for i in range(3)] + [s.fingerprint()])"
    )
    (tmp_path / "task.pickle").write_bytes(pickle.dumps((task, name)))
    command = [sys.executable, "-c", code, str(tmp_path / "task.pickle")]
    env = {**os.environ, "PYTHONHASHSEED": "123"}
    out = subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout
    split = task.split(name)
    assert out.strip() == repr([repr(split[i]) for i in range(3)] + [split.fingerprint()])


def test_fingerprints_tell_splits_apart(task):
    prints = [task.split(name).fingerprint() for name in SPLITS]
    assert len(set(prints)) == 2
    assert all(re.fullmatch("[0-9a-f]{64}", p) for p in prints)


def test_train_and_test_are_disjoint(task):
    test = {repr(p.prompt) for p in task.split("test")}
    train = task.split("train")
    assert test.isdisjoint(repr(train[i].prompt) for i in range(min(3000, len(train))))


@pytest.mark.parametrize("name", SPLITS)
def test_solution_passes_its_own_reward(task, name):
    for problem in some(task.split(name)):
        if problem.solution is not None:
            assert accepted(task, problem, problem.solution), problem


@pytest.mark.parametrize("name", SPLITS)
def test_solution_ends_with_an_answer_that_is_the_gold(task, name):
    for problem in some(task.split(name)):
        if problem.solution is None:
            continue
        found = re.search(r"<answer>([^<>]+)</answer>$", problem.solution)
        assert found, problem.solution
        tagged = f"<answer>{problem.answer}</answer>"
        assert found[0] == tagged or not accepted(task, problem, tagged)


@pytest.mark.parametrize("name", SPLITS)
def test_another_answer_does_not_pass(task, name):
    for problem in some(task.split(name), 5):
        assert not accepted(task, problem, "<answer>-7654321</answer>")


def test_wrong_split_name(task):
    with pytest.raises(ValueError, match='no split "tests"; did you mean "test"'):
        task.split("tests")


def test_problems_travel_to_workers_and_to_json(task):
    problem = task.split("train")[0]
    assert pickle.loads(pickle.dumps(problem)) == problem
    json.dumps(dataclasses.asdict(problem))


def test_streams_from_any_position(task):
    split = task.split("train")
    ordered = stream(split, seed=3)
    assert [ordered[i] for i in (5, 2)] == [stream(split, seed=3)[i] for i in (5, 2)]


def test_tasks_never_import_jax():
    code = (
        "import sys; from rlvr_jax.tasks import TASKS; TASKS.make('arithmetic').split('test')[0]; "
        "sys.exit(any(m.split('.')[0] in ('jax', 'flax', 'grain') for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
