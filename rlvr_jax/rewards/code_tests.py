"""Tests of a program as data: what a problem asks for, and whether what came back is right.

Expectations stay here.  A test that is a call of the solution compared with a literal is split: the
arguments go to the sandbox, the literal does not.  Tests that need more Python than that run in a
sandbox of their own ("referee"), where every use of the solution is a message.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import json
import math
import operator
import re
from collections.abc import Mapping, Sequence
from typing import Any

from rlvr_jax.rewards.code_sources import read_sources
from rlvr_jax.types import Problem

MODES = ("assert", "call", "stdio")
_MAX_BITS = 1 << 14  # of a number that a test's arithmetic may make

_BLANKS = " \t\r"
_GAP = re.compile(r"[ \t]+")
_DECIMAL = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)

_BINARY = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


@dataclasses.dataclass(frozen=True)
class Call:
    """One call of a function of the solution and the value it must give."""

    name: str
    arguments: list
    keywords: dict
    expected: object


@dataclasses.dataclass(frozen=True)
class Script:
    """One run of the solution as a script."""

    stdin: str
    expected: str


@dataclasses.dataclass(frozen=True)
class Plan:
    """How a problem's solutions are tested.

    mode: of MODES.  cases: `Call`s, `Script`s, or the sources of tests for the referee.
    names: what the referee's tests use of the solution; empty where there is no referee.
    imports, setup: code that runs once before the referee's tests.
    """

    mode: str
    cases: tuple[Call | Script | str, ...]
    names: tuple[str, ...] = ()
    imports: str = ""
    setup: str = ""
    timeout_s: float | None = None


def parse_plan(problem: Problem) -> Plan:
    """The plan in problem.meta, or in the JSON object that problem.answer is.

    {"mode": "assert", "tests": [source, ...], "entry": name, "setup": source}
    {"mode": "call", "entry": name, "cases": [{"args": [...], "kwargs": {...}, "expected": ...}]}
    {"mode": "stdio", "cases": [{"input": text, "output": text}]}
    {"inputs": [...], "outputs": [...], "fn_name": name}     as APPS and TACO write it
    "timeout_s": seconds of one test.  "mode" may be left out where the keys tell.  ValueError else.
    """
    meta = problem.meta
    if not {"tests", "cases", "inputs"} & set(meta) and problem.answer.lstrip().startswith("{"):
        meta = json.loads(problem.answer)
    meta = _from_columns(meta) if "inputs" in meta else meta
    entry = meta.get("entry")
    if entry is not None and not (isinstance(entry, str) and entry.isidentifier()):
        raise ValueError(f"code: entry must be a name, got {entry!r}")
    timeout_s = meta.get("timeout_s")
    if timeout_s is not None and not (isinstance(timeout_s, int | float) and timeout_s > 0):
        raise ValueError(f"code: timeout_s must be a positive number, got {timeout_s!r}")
    mode = meta.get("mode") or _guess(meta)
    if mode not in MODES:
        raise ValueError(f'code: no mode "{mode}" (there are: {", ".join(MODES)})')
    cases = meta.get("tests" if mode == "assert" else "cases")
    cases = [cases] if isinstance(cases, str) else cases
    if not isinstance(cases, Sequence) or not cases:
        raise ValueError(f'code: mode "{mode}" needs a list of tests or cases, got {cases!r:.60}')
    if mode == "assert":
        plan = _assert_plan(cases, entry, meta.get("setup") or "", _text(problem.prompt))
    elif mode == "call":
        plan = Plan("call", tuple(_call(case, entry) for case in cases))
    else:
        plan = Plan("stdio", tuple(_script(case) for case in cases))
    return dataclasses.replace(plan, timeout_s=timeout_s)


def _guess(meta: Mapping[str, Any]) -> str:
    if "tests" in meta:
        return "assert"
    return "call" if meta.get("entry") else "stdio"


def _from_columns(meta: Mapping[str, Any]) -> dict[str, Any]:
    inputs, outputs, name = meta["inputs"], meta.get("outputs"), meta.get("fn_name")
    if not isinstance(outputs, Sequence) or len(outputs) != len(inputs):
        raise ValueError("code: inputs and outputs must be lists of the same length")
    pairs = list(zip(inputs, outputs, strict=True))
    rest = {"timeout_s": meta.get("timeout_s"), "entry": name}
    if not name:
        return rest | {"mode": "stdio", "cases": [{"input": i, "output": o} for i, o in pairs]}
    return rest | {"mode": "call", "cases": [{"args": i, "expected": o} for i, o in pairs]}


def _call(case: Mapping[str, Any], entry: str | None) -> Call:
    args, kwargs = case.get("args", []), case.get("kwargs", {})
    if not entry or "expected" not in case or not isinstance(args, list | tuple):
        raise ValueError('code: a call needs "entry", a list "args" and "expected"')
    return Call(entry, list(args), dict(kwargs), case["expected"])


def _script(case: Mapping[str, Any]) -> Script:
    pair = (case.get("input", ""), case.get("output"))
    pair = tuple("\n".join(part) if isinstance(part, list) else part for part in pair)
    if not all(isinstance(part, str) for part in pair):
        raise ValueError('code: a stdio case needs "input" and "output" as text')
    return Script(*pair)


def _text(prompt: str | tuple[Mapping[str, str], ...]) -> str:
    return prompt if isinstance(prompt, str) else "\n".join(m["content"] for m in prompt)


def _assert_plan(tests: Sequence[str], entry: str | None, setup: str, prompt: str) -> Plan:
    if not all(isinstance(test, str) for test in tests):
        raise ValueError("code: tests must be a list of Python sources")
    try:
        sources = read_sources(tests, setup, entry, prompt)
        calls = [] if setup.strip() else [split_assert(test, entry) for test in sources.cases]
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"code: a test is no Python: {error}") from error
    if calls and all(call and call.name in sources.names for call in calls):
        return Plan("assert", tuple(calls))
    return Plan("assert", sources.cases, sources.names, sources.imports, sources.setup)


def split_assert(source: str, entry: str | None = None) -> Call | None:
    """``assert f(literals) == literal`` as a call and its value; None for any other test."""
    body = ast.parse(source).body
    test = body[0].test if len(body) == 1 and isinstance(body[0], ast.Assert) else None
    if not isinstance(test, ast.Compare) or [type(op) for op in test.ops] != [ast.Eq]:
        return None
    left, right = test.left, test.comparators[0]
    call, value = (left, right) if isinstance(left, ast.Call) else (right, left)
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        return None
    taken = hasattr(builtins, call.func.id) and call.func.id != entry
    if taken or any(k.arg is None for k in call.keywords):
        return None
    try:
        arguments = [literal(node) for node in call.args]
        keywords = {k.arg: literal(k.value) for k in call.keywords}
        return Call(call.func.id, arguments, keywords, literal(value))
    except ValueError:
        return None


def literal(node: ast.expr) -> object:
    """The value of constants, containers and bounded arithmetic of them; ValueError for more."""
    if isinstance(node, ast.Constant) and node.value is not Ellipsis:
        return node.value
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        kind = {ast.List: list, ast.Tuple: tuple, ast.Set: set}[type(node)]
        return kind(literal(item) for item in node.elts)
    if isinstance(node, ast.Dict) and None not in node.keys:
        return {literal(k): literal(v) for k, v in zip(node.keys, node.values, strict=True)}
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        value = _number(node.operand)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _arithmetic(node)
    raise ValueError("not a literal")


def _number(node: ast.expr) -> int | float | complex:
    value = literal(node)
    if isinstance(value, bool) or not isinstance(value, int | float | complex):
        raise ValueError("not a number")
    return value


def _arithmetic(node: ast.BinOp) -> int | float | complex:
    left, right = _number(node.left), _number(node.right)
    whole = isinstance(left, int) and isinstance(right, int)
    if whole and isinstance(node.op, ast.Pow):
        if abs(right) * max(1, left.bit_length()) > _MAX_BITS:
            raise ValueError("a number too large")
    elif whole and left.bit_length() + right.bit_length() > 2 * _MAX_BITS:
        raise ValueError("a number too large")
    try:
        return _BINARY[type(node.op)](left, right)
    except (ArithmeticError, TypeError) as error:
        raise ValueError(str(error)) from error


def same_value(got: object, want: object, tolerance: float = 0.0, loose: bool = False) -> bool:
    """Equality of plain data as Python has it; what cannot be compared is not equal.

    tolerance: absolute or relative difference that is allowed where either number is a float.
    loose: for expectations that came from JSON: a tuple is as good as a list, but true is not 1.
    """
    try:
        return _same(got, want, tolerance, loose)
    except (ArithmeticError, TypeError, ValueError, RecursionError):  # Decimal("sNaN") == 1 raises
        return False


def _same(got: object, want: object, tolerance: float, loose: bool) -> bool:
    if loose or tolerance:
        if isinstance(want, list | tuple) and isinstance(got, list | tuple):
            kinds = loose or type(got) is type(want)
            pairs = zip(got, want, strict=False)
            return (
                kinds
                and len(got) == len(want)
                and all(_same(g, w, tolerance, loose) for g, w in pairs)
            )
        if isinstance(want, dict) and isinstance(got, dict):
            return got.keys() == want.keys() and all(
                _same(got[key], want[key], tolerance, loose) for key in want
            )
    if loose and isinstance(got, bool) != isinstance(want, bool):
        return False
    numbers = all(isinstance(x, int | float) and not isinstance(x, bool) for x in (got, want))
    if tolerance and numbers and (isinstance(got, float) or isinstance(want, float)):
        return math.isclose(got, want, rel_tol=tolerance, abs_tol=tolerance)
    return bool(got == want)


def same_output(got: str, want: str, tolerance: float = 0.0) -> bool:
    """Equality line by line; blanks at the ends of lines and empty lines at both ends do not count.

    Only "\\n" ends a line.

    tolerance: numbers at the same place of a line may differ by so much, absolutely or relatively.
    """
    lines = [_lines(text) for text in (got, want)]
    if lines[0] == lines[1] or not tolerance or len(lines[0]) != len(lines[1]):
        return lines[0] == lines[1]
    words = [[_GAP.split(line) for line in side] for side in lines]
    return all(
        len(a) == len(b) and all(_same_word(x, y, tolerance) for x, y in zip(a, b, strict=True))
        for a, b in zip(*words, strict=True)
    )


def _lines(text: str) -> list[str]:
    lines = [line.rstrip(_BLANKS) for line in text.split("\n")]
    filled = [place for place, line in enumerate(lines) if line]
    return lines[filled[0] : filled[-1] + 1] if filled else []


def _same_word(got: str, want: str, tolerance: float) -> bool:
    if got == want:
        return True
    if not (_DECIMAL.fullmatch(got) and _DECIMAL.fullmatch(want)):
        return False
    return math.isclose(float(got), float(want), rel_tol=tolerance, abs_tol=tolerance)
