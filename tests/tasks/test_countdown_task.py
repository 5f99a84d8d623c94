"""Countdown: every problem is solvable, its solution uses each number once and hits the target."""

import ast
import fractions
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr_jax.tasks import TASKS
from rlvr_jax.tasks.countdown import Term, join, legal

OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


def value_and_numbers(text: str) -> tuple[fractions.Fraction, list[int]]:
    """By Python's own grammar and exact rationals, independent of the reward's parser."""
    numbers = []

    def walk(node):
        if isinstance(node, ast.Constant):
            numbers.append(node.value)
            return fractions.Fraction(node.value)
        a, b, sign = walk(node.left), walk(node.right), OPERATORS[type(node.op)]
        return {"+": a + b, "-": a - b, "*": a * b}[sign] if sign != "/" else a / b

    return walk(ast.parse(text, mode="eval").body), numbers


@settings(max_examples=150, deadline=None)
@given(st.integers(2, 6), st.integers(1, 99), st.integers(100, 1000), st.integers(0, 99))
def test_solution_is_right(count, largest, max_target, seed):
    task = TASKS.make(
        "countdown", num_numbers=count, max_number=largest, max_target=max_target, seed=seed
    )
    problem = task.split("train")[seed]
    thought, expression = re.fullmatch(
        r"<think>(.*)</think><answer>(.*)</answer>", problem.solution
    ).groups()
    value, numbers = value_and_numbers(expression)
    assert value == problem.meta["target"] == int(problem.answer) <= max_target
    assert sorted(numbers) == sorted(problem.meta["numbers"]) and len(numbers) == count
    assert all(1 <= n <= largest for n in numbers)
    for step in thought.split(";"):
        left, right = step.split("=")
        assert value_and_numbers(left)[0] == int(right) >= 1  # exact divisions, positive values


def test_prompt_states_numbers_and_target():
    problem = TASKS.make("countdown").split("train")[0]
    numbers = ", ".join(map(str, problem.meta["numbers"]))
    assert problem.prompt.startswith(f"Make {problem.meta['target']} from {numbers} with ")
    short = TASKS.make("countdown", wording="{numbers} -> {target}: ").split("train")[0]
    assert short.prompt == f"{numbers} -> {problem.meta['target']}: "
    assert short.solution == problem.solution


def test_first_problem_does_not_change():
    """Golden: it depends on sha256 and the Mersenne twister alone."""
    problem = TASKS.make("countdown").split("train")[0]
    assert (problem.meta["numbers"], problem.answer) == ((5, 16, 4), "7")
    assert problem.solution == "<think>5+4=9;16-9=7</think><answer>16-(5+4)</answer>"


def test_all_four_operations_occur():
    split = TASKS.make("countdown").split("train")
    text = "".join(split[i].solution for i in range(300))
    assert all(text.count(sign) > 30 for sign in ("+", "-", "*")) and "/" in text.replace("</", "")


@pytest.mark.parametrize(("a", "b", "expected"), [(6, 3, "+*-/"), (5, 3, "+*-"), (4, 4, "+*/")])
def test_legal_operations(a, b, expected):
    assert legal(a, b) == expected


@pytest.mark.parametrize(
    ("sign", "left", "right", "expected"),
    [
        ("-", Term(9, "4+5", 0), Term(3, "1+2", 0), "4+5-(1+2)"),
        ("+", Term(9, "4+5", 0), Term(1, "2-1", 0), "4+5+2-1"),
        ("*", Term(9, "4+5", 0), Term(6, "2*3", 1), "(4+5)*2*3"),
        ("/", Term(12, "3*4", 1), Term(6, "2*3", 1), "3*4/(2*3)"),
        ("/", Term(12, "3*4", 1), Term(6, "6", 2), "3*4/6"),
        ("-", Term(12, "3*4", 1), Term(6, "2*3", 1), "3*4-2*3"),
    ],
)
def test_parentheses_only_where_needed(sign, left, right, expected):
    _, term = join(sign, left, right)
    assert term.text == expected
    assert value_and_numbers(expected)[0] == term.value


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_numbers": 1}, "num_numbers must be in 2..8, got 1"),
        ({"max_number": 0}, "max_number must be in 1"),
        ({"max_target": 0}, "max_target must be in 1"),
        ({"wording": "Make {target}."}, "wording lacks {numbers}"),
        ({"wording": "{numbers}"}, "wording lacks {target}"),
        ({"size_test": 0}, "size_test must be at least 1"),
    ],
)
def test_wrong_values_say_what_is_allowed(fields, message):
    with pytest.raises(ValueError, match=message):
        TASKS.make("countdown", **fields)
