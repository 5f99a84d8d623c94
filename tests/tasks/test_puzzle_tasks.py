"""Knights and knaves, GeneralPoints, lists, one-shot data, the reasoning-gym adapter."""

import ast
import fractions
import itertools
import random
import re
import sys
import types

import pytest

from rlvr_jax.rewards import REWARDS
from rlvr_jax.tasks import TASKS
from rlvr_jax.tasks.generalpoints import FACES, find
from rlvr_jax.tasks.knights import Knights, holds, say, solve
from rlvr_jax.tasks.one_shot import OneShot
from rlvr_jax.tasks.reasoning_gym import ReasoningGym, parse_options
from rlvr_jax.types import Completion


def test_truth_tables():
    a, b = ("is", 0, True), ("is", 1, True)
    for knights in itertools.product((True, False), repeat=2):
        x, y = knights
        assert holds(a, knights) == x and holds(("not", b), knights) == (not y)
        assert holds(("and", a, b), knights) == (x and y)
        assert holds(("or", a, b), knights) == (x or y)
        assert holds(("if", a, b), knights) == (not x or y)
        assert holds(("iff", a, b), knights) == (x == y)


def test_solver_by_hand():
    # A: "B is a knave."  B: "A is a knave."  Either may be the knight.
    assert set(solve([("is", 1, False), ("is", 0, False)])) == {(True, False), (False, True)}
    # A: "I am a knave" has no solution; A: "both are knaves" has exactly one.
    assert solve([("is", 0, False)]) == []
    both = ("and", ("is", 0, False), ("is", 1, False))
    assert solve([both, ("is", 0, False)]) == [(False, True)]
    assert say(both, 0, ["Ada", "Ben"]) == "I am a knave and Ben is a knave"


@pytest.mark.parametrize("depth", [1, 2])
def test_puzzles_have_one_solution(depth):
    task = Knights(min_people=2, max_people=4, depth=depth)
    for seed in range(20):
        rng = random.Random(seed)
        statements, problem = task.draw(rng, "train")
        (solution,) = solve(statements)
        roles = ["knight" if knight else "knave" for knight in solution]
        assert list(problem.meta["roles"].values()) == roles
        for name in problem.meta["roles"]:
            assert f"{name} says:" in problem.prompt


def value(formula):
    def walk(node):
        if isinstance(node, ast.Constant):
            return fractions.Fraction(node.value)
        a, b = walk(node.left), walk(node.right)
        if isinstance(node.op, ast.Div):
            return a / b
        return {ast.Add: a + b, ast.Sub: a - b, ast.Mult: a * b}[type(node.op)]

    return walk(ast.parse(formula, mode="eval").body)


def test_generalpoints_solutions_are_exact():
    task = TASKS.make("generalpoints", faces="rank", size_test=20)
    for problem in [task.split("train")[i] for i in range(30)] + list(task.split("test")):
        formula = re.search("<answer>(.*)</answer>", problem.solution)[1]
        assert value(formula) == problem.meta["target"] == 24
        used = sorted(int(n) for n in re.findall(r"\d+", formula))
        assert used == sorted(problem.meta["numbers"])


def test_generalpoints_search():
    three = tuple(map(fractions.Fraction, (3, 3, 8, 8)))
    assert value(find(three, 24)[0]) == 24
    assert find(tuple(map(fractions.Fraction, (1, 1, 1, 1))), 24) is None


def test_generalpoints_out_of_distribution():
    task = TASKS.make("generalpoints", test_faces="rank", test_target=12, size_test=20)
    train, test = task.split("train")[0], list(task.split("test"))
    assert train.meta["letters"] == FACES["ten"] and train.meta["target"] == 24
    for problem in test:
        assert problem.meta["letters"] == FACES["rank"] and problem.meta["target"] == 12
        assert max(problem.meta["numbers"]) > 10 and "K as 13" in problem.prompt
    with pytest.raises(ValueError, match='test_faces is "suit", allowed are ten, rank'):
        TASKS.make("generalpoints", test_faces="suit")


@pytest.mark.parametrize(
    "kind, solve_by_hand",
    [
        ("sort", sorted),
        ("reverse", lambda numbers: numbers[::-1]),
        ("count", lambda numbers: [numbers.count(numbers[0])]),
    ],
)
def test_sequences(kind, solve_by_hand):
    task = TASKS.make("sequence", kind=kind, max_value=3, test_max_length=9, size_test=30)
    for name in ("train", "test"):
        for problem in [task.split(name)[i] for i in range(30)]:
            numbers = [int(n) for n in problem.prompt.split("in ")[-1].rstrip(":").split()[-9:]
                       if n.isdigit()]  # fmt: skip
            assert problem.answer == " ".join(map(str, solve_by_hand(numbers)))
            assert len(numbers) <= (9 if name == "test" else 6)
    lengths = {len(p.prompt) for p in task.split("test")}
    assert max(lengths) > max(len(task.split("train")[i].prompt) for i in range(50))
    with pytest.raises(ValueError, match="allowed are sort, count, reverse"):
        TASKS.make("sequence", kind="shuffle")


def test_one_shot_repeats_and_tests_on_the_whole():
    task = OneShot(task="countdown", first=3, shots=2, size_train=10)
    train, inner = task.split("train"), TASKS.make("countdown").split("train")
    assert task.reward == "countdown" and len(train) == 10
    assert [p.prompt for p in train] == [inner[3 + i % 2].prompt for i in range(10)]
    assert [p.index for p in train] == list(range(10))
    assert len(task.split("test")) == 256
    assert train.fingerprint() != OneShot(task="countdown").split("train").fingerprint()
    with pytest.raises(ValueError, match="another task"):
        OneShot(task="one_shot")
    with pytest.raises(ValueError, match="no task"):
        OneShot(task="arithmetics")
    with pytest.raises(ValueError, match="of a split of 100000"):
        OneShot(first=10**6).split("train")


@pytest.fixture
def gym(monkeypatch):
    """A stand-in for the package: entry i of a data set depends on i and the options alone."""

    def create_dataset(name, seed, size, terms=2):
        if name != "sums":
            raise ValueError(f"Dataset '{name}' not registered")
        return Entries(terms)

    class Entries:
        def __init__(self, terms):
            self.terms = terms

        def __getitem__(self, number):
            question = "+".join([str(number)] * self.terms) + " ="
            return {"question": question, "answer": str(self.terms * number)}

    fake = types.ModuleType("reasoning_gym")
    fake.create_dataset = create_dataset
    monkeypatch.setitem(sys.modules, "reasoning_gym", fake)


def test_reasoning_gym(gym):
    task = ReasoningGym(dataset="sums", options=("terms=3",), size_test=20)
    train = [task.split("train")[i] for i in range(50)]
    test = list(task.split("test"))
    assert not {p.prompt for p in train} & {p.prompt for p in test}
    problem = test[0]
    assert problem.meta["options"] == {"terms": 3}
    reward = REWARDS.make(task.reward)
    assert reward(Completion(text=f"<answer>{problem.answer}</answer>"), problem).correct
    with pytest.raises(ValueError, match="'tums' not registered"):
        ReasoningGym(dataset="tums").split("train")
    assert parse_options(("a=1", "b=x", "c=[1]")) == {"a": 1, "b": "x", "c": [1]}
    with pytest.raises(ValueError, match="no option=value"):
        ReasoningGym(options=("a",))
