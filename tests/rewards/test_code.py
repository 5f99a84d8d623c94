"""The code reward: cases, exploits, kinds of tests.  The exploits run with whatever isolation this
system has; what only namespaces keep out is tested in test_sandbox.py."""

import json
import pathlib
import time
from decimal import Decimal

import pytest

from rlvr_jax.rewards import grade_all
from rlvr_jax.rewards.code import Code
from rlvr_jax.rewards.code_fences import last_code
from rlvr_jax.rewards.code_sources import free_names
from rlvr_jax.rewards.code_tests import parse_plan, same_output, same_value, split_assert
from rlvr_jax.types import Completion, Problem

CASES = (
    pathlib.Path(__file__).resolve().parents[2] / ".." / "shared" / "spec" / "verifier_cases.jsonl"
)
# Cases on which sound graders differ, and what is decided here.
DECIDED = {
    "code-assert-18": True,  # a fence without a language
    "code-assert-19": True,  # a "py" fence
    "code-assert-21": False,  # the last block counts
    "code-stdio-02": True,  # blanks at the ends of lines and of the output
    "code-stdio-14": False,  # case matters
    "code-stdio-16": False,  # no tolerance unless asked for
}
ADD = {"mode": "assert", "tests": ["assert add(1, 2) == 3", "assert add(-1, 1) == 0"]}


def problem(meta, answer=""):
    return Problem(prompt="?", answer=answer, index=0, meta=meta)


def fence(code):
    return f"```python\n{code}\n```"


def grade(codes, meta, **fields):
    completions = [Completion(text=fence(code)) for code in codes]
    return grade_all(Code(**fields), completions, [problem(meta)] * len(codes), workers=2)


def test_cases():
    if not CASES.exists():
        pytest.skip("the verifier cases are not on this machine")
    rows = [json.loads(line) for line in CASES.read_text().splitlines()]
    rows = [row for row in rows if row["kind"] == "code"]
    verdicts = grade_all(
        Code(),
        [Completion(text=row["response"]) for row in rows],
        [problem(row["gold"]) for row in rows],
    )
    for row, verdict in zip(rows, verdicts, strict=True):
        want = DECIDED[row["id"]] if "convention" in row else row["expected"]
        assert verdict.correct == want and verdict.status != "unknown", (row["id"], verdict)


EXPLOITS = {
    "exit": "def add(a, b):\n    import sys; sys.exit(0)",
    "exit_at_import": "import sys; sys.exit(0)",
    "hard_exit": "import os\ndef add(a, b): os._exit(0)",
    "quit": "raise SystemExit",
    "keyboard": "def add(a, b): raise KeyboardInterrupt",
    "says_pass": "print('PASS', '[\"passed\"]', flush=True)\ndef add(a, b): print('PASS')",
    "at_exit": "import atexit, os\natexit.register(lambda: os._exit(0))\ndef add(a, b): return 0",
    "equal_int": "class S(int):\n  __eq__ = lambda s, o: True\n  __hash__ = int.__hash__\n"
    "def add(a, b): return S(9)",
    "equal_object": "class S:\n  __eq__ = lambda s, o: True\n  __ne__ = lambda s, o: False\n"
    "def add(a, b): return S()",
    "equal_list": "class S(list):\n  __eq__ = lambda s, o: True\ndef add(a, b): return S([0])",
    "mock": "from unittest.mock import ANY\ndef add(a, b): return ANY",
    "no_assertions": "import builtins\nbuiltins.AssertionError = ValueError\ndef add(a, b): pass",
    "builtins": "import builtins\nfor n in ('all', 'any', 'bool', 'isinstance', 'len'):\n"
    "  setattr(builtins, n, lambda *a, **k: True)\ndef add(a, b): return 0",
    "json": "import json\njson.dumps = lambda *a, **k: '[\"passed\"]'\ndef add(a, b): return 0",
    "plain": "import sys\nsys.modules['plain'].dumps = lambda *a, **k: b'[\"passed\"]'\n"
    "def add(a, b): return 0",
    "runner": "import sys, runner\nrunner.write = lambda data, *a: data.sendall(\n"
    "  bytes(7) + b'\\x0a' + b'[\"passed\"]')\ndef add(a, b): return 0",
    "flood": "import os\nm = b'[\"passed\"]'\nfor fd in range(3, 30):\n  try:\n"
    "    for _ in range(9): os.write(fd, bytes(7) + bytes([len(m)]) + m)\n"
    "  except OSError: pass\ndef add(a, b): return 0",
    "frames": "import inspect, sys\ndef add(a, b):\n  f = sys._getframe()\n  seen = ''\n"
    "  while f: seen += repr(f.f_locals) + repr(f.f_globals); f = f.f_back\n"
    "  return 3 if '== 3' in seen or 'expected' in seen else 9",
    "memory": "import gc\ndef add(a, b):\n  text = ' '.join(repr(o) for o in gc.get_objects()\n"
    "    if isinstance(o, (str, list, dict, tuple)) and len(repr(o)) < 10**4)\n"
    "  return a + b if 'dda tressa'[::-1] in text else 9",
    "test_files": "import glob\ndef add(a, b):\n  for p in glob.glob('/**/*test*.py', "
    "recursive=True):\n    if 'add(1' in open(p, errors='ignore').read(): return a + b\n  return 9",
    "trace": "import sys\nsys.settrace(lambda *a: sys.exit(0))\ndef add(a, b): return 0",
    "fork": "import os\ndef add(a, b):\n  os.fork()\n  return 0",
    "threads": "import threading\nfor _ in range(99): threading.Thread(target=input).start()",
    "signal": "import os, signal\ndef add(a, b): os.kill(os.getppid(), signal.SIGKILL)",
    "kill_all": "import os\ndef add(a, b): os.kill(-1, 9)",
    "recursion": "def add(a, b): return add(b, a)",
    "c_stack": "import sys\nsys.setrecursionlimit(10**9)\ndef add(a, b): return add(b, a)",
    "segfault": "import ctypes\ndef add(a, b): ctypes.string_at(0)",
    "big_output": "def add(a, b): return 'x' * 10**8",
    "deep_output": "x = []\nfor _ in range(10**5): x = [x]\ndef add(a, b): return x",
    "memory_bomb": "def add(a, b): return [0] * 10**11",
    "cycle": "x = []\nx.append(x)\ndef add(a, b): return x",
    "nan": "def add(a, b): return float('nan')",
    "conftest": "open('conftest.py', 'w').write('x')\ndef add(a, b): return 0",
    "signaling_nan": "from decimal import Decimal\ndef add(a, b): return Decimal('sNaN')",
    "signaling_nans": "from decimal import Decimal\ndef add(a, b): return [Decimal('sNaN')]",
    "too_deep": "import os\ndef add(a, b):\n  m = b'[|l|,[' * 300 + b']]' * 300\n"
    "  m = (b'[|l|,[|value|,' + m + b',[|l|,[]]]]').replace(b'|', bytes([34]))\n"
    "  for fd in range(3, 30):\n    try: os.write(fd, len(m).to_bytes(8, 'big') + m)\n"
    "    except OSError: pass\n  return 0",
    "hash": "def add(a, b): return {(): 3}",
}
SLOW = {
    "loop": "def add(a, b):\n  while True: pass",
    "sleep": "import time; time.sleep(99)",
    "bomb": "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass",
    "print": "while True: print('x' * 999)",
    "power": "def add(a, b): return 9 ** 9 ** 9",
}


@pytest.mark.parametrize("extra", ["", "assert add(2, 2) > 3"])
def test_no_exploit_scores(extra):
    """Against tests that are split here, and against tests that a referee runs."""
    meta = {**ADD, "tests": ADD["tests"] + ([extra] if extra else [])}
    verdicts = grade(list(EXPLOITS.values()), meta, timeout_s=3.0)
    for name, verdict in zip(EXPLOITS, verdicts, strict=True):
        assert verdict.status == "wrong" and verdict.score == 0.0 and verdict.reason, (
            name,
            verdict,
        )
    assert grade(["def add(a, b): return a + b"], meta)[0].correct


def test_no_exploit_scores_as_a_script():
    meta = {"mode": "stdio", "cases": [{"input": "1 2", "output": "3"}]}
    codes = [code + "\nadd(1, 2)" for code in EXPLOITS.values()]
    for name, verdict in zip(EXPLOITS, grade(codes, meta), strict=True):
        assert verdict.status == "wrong" and verdict.score == 0.0, (name, verdict)


@pytest.mark.parametrize("name", SLOW)
def test_slow_exploits_time_out(name):
    (verdict,) = grade([SLOW[name]], ADD, timeout_s=0.5, deadline_s=8.0)
    assert (verdict.status, verdict.reason) == ("wrong", "timeout")


def test_partial_credit_is_an_option():
    meta = {**ADD, "tests": [*ADD["tests"], "assert add(5, 5) == 10", "assert add(0, 0) == 0"]}
    code = "def add(a, b):\n  if a == 5: import os; os._exit(1)\n  return a + b"
    (full,) = grade([code], meta)
    assert (full.status, full.score, full.parts["passed"]) == ("wrong", 0.0, 0.5)
    (part,) = grade([code], meta, partial=True)
    assert (part.status, part.score, part.correct) == ("scored", 0.75, False)
    assert part.parts == {"correct": 0.0, "passed": 0.75}


def test_refereed_tests():
    human = "def check(candidate):\n  for i in range(5):\n    assert candidate(i, i) == 2 * i\n"
    assert grade(["def add(a, b): return a + b"], {"tests": [human], "entry": "add"})[0].correct
    meta = {
        "tests": [
            "assert abs(mean(XS) - 2.0) < 1e-9",
            "ys = [3, 1]; order(ys); assert ys == [1, 3]",
            "s = Stack(); s.push(4); assert s.top() == 4 and s.size == 1",
            "try:\n  mean([])\n  assert False\nexcept ZeroDivisionError: pass",
        ],
        "setup": "XS = [1, 2, 3]",
    }
    code = "def mean(x): return sum(x) / len(x)\ndef order(x): x.sort()\nclass Stack:\n"
    code += "  def __init__(self): self.x, self.size = [], 0\n"
    code += (
        "  def push(self, v): self.x.append(v); self.size += 1\n  def top(self): return self.x[-1]"
    )
    right, wrong = grade([code, code.replace("x.sort()", "pass")], meta, partial=True)
    assert right.correct, right
    assert wrong.parts["passed"] == 0.75


def test_calls_scripts_and_methods():
    meta = {"entry": "f", "cases": [{"args": [[1, 2]], "expected": [2, 1]}]}
    leet = "class Solution:\n  def f(self, x: List[int]) -> Optional[List[int]]: return x[::-1]"
    codes = [
        "def f(x): return tuple(x[::-1])",
        leet,
        "class Solution:\n  def f(self, x): return x[::-1]",
    ]
    assert all(verdict.correct for verdict in grade(codes, meta))
    columns = {"inputs": ["1\n", "2\n"], "outputs": ["1\n", "4\n"]}
    square, first, dies = grade(
        ["print(int(input()) ** 2)", "print(1)", "print(int(input()) ** 2); 1 / 0"], columns
    )
    assert square.correct and first.reason == "mismatch" and dies.reason == "exit_code"
    named = {"inputs": [[2]], "outputs": [4], "fn_name": "sq"}
    assert grade(["def sq(x): return x * x"], named)[0].correct
    text = json.dumps({"entry": "sq", "cases": [{"args": [2], "expected": 4}]})
    completion = Completion(text=fence("def sq(x): return x * x"))
    assert grade_all(Code(), [completion], [problem({"source": "x"}, text)])[0].correct


def test_tolerance_is_an_option():
    meta = {"mode": "stdio", "cases": [{"input": "", "output": "0.333333"}]}
    assert not grade(["print(1 / 3)"], meta)[0].correct
    assert grade(["print(1 / 3)"], meta, tolerance=1e-5)[0].correct


@pytest.mark.parametrize(
    "meta, says",
    [
        ({}, "needs a list"),
        ({"mode": "tests"}, "no mode"),
        ({"mode": "assert", "tests": []}, "needs a list"),
        ({"tests": ["assert 1 == 1"]}, "never use the solution"),
        ({"tests": ["assert f("]}, "no Python"),
        ({"tests": [3]}, "list of Python sources"),
        ({"mode": "call", "cases": [{"args": [1], "expected": 1}]}, 'needs "entry"'),
        ({"entry": "f", "cases": [{"args": [1]}]}, '"expected"'),
        ({"entry": "f(", "cases": [{}]}, "must be a name"),
        ({"mode": "stdio", "cases": [{"input": 3, "output": ""}]}, "as text"),
        ({"inputs": [1], "outputs": []}, "same length"),
        ({"tests": ["assert f(1) == 2"], "timeout_s": 0}, "positive number"),
    ],
)
def test_bad_problems_are_nobodys_fault(meta, says):
    with pytest.raises(ValueError, match=says):
        parse_plan(problem(meta))
    verdict = Code()(Completion(text=fence("x = 1")), problem(meta))
    assert (verdict.status, verdict.reason) == ("unknown", "bad_gold")


def test_last_code():
    assert last_code("no code") is None
    assert last_code("```python\na\n```\n```python\nb\n```") == "b\n"
    assert last_code("```python\na\n```\nprints\n```\n5\n```") == "a\n"
    assert last_code("```\na\n```\n```bash\nls\n```") == "a\n"
    assert last_code("```python\na") is None
    assert last_code("```python\na\n```\n```python\nb") == "a\n"
    assert last_code("  ```Python\n  a\n  ```") == "a\n"
    thought = Completion(text="<think>" + fence("def add(a, b): return a + b") + "</think>done")
    assert Code()(thought, problem(ADD)).reason == "no_code"
    long = Completion(text=fence("x = 1\n" * 50_000))
    assert Code()(long, problem(ADD)).reason == "too_long"


@pytest.mark.parametrize(
    "text, code",
    [
        ("So <answer>```python\na\n```</answer>", "a\n"),
        ("<answer> ```py\na\n``` </answer> done", "a\n"),
        ('```python title="a.py"\na\n```', "a\n"),
        ("```python:a.py\na\n```", "a\n"),
        ("```{.python}\na\n```", "a\n"),
        ("```pythonic\na\n```", None),
        ("~~~python\na\n```\nb\n~~~", "a\n```\nb\n"),
        ("````python\na\n```\nb\n````", "a\n```\nb\n"),
        ("```python\na\n````", "a\n"),
        ("```python\na\n~~~", None),
        ("````python\na\n```", None),
        ("- x\n\n  ```python\n  if a:\n    b\n  ```\n", "if a:\n  b\n"),
        ("1. ```python\n   if a:\n     b\n   ```\n", "if a:\n  b\n"),
        ("\t```python\n\ta\nb\n\t```", "a\nb\n"),
        ("```python\r\na\r\n```\r\n", "a\n"),
        ("```python\n'a\x0cb\u2028c\x1c'\n```", "'a\x0cb\u2028c\x1c'\n"),
        ("```python a```\n```python\nb\n```", "b\n"),
        ("```python\nx = '''\n```\n1\n```\n'''\ny\n```", "x = '''\n```\n1\n```\n'''\ny\n"),
        ('```python\nr"""\n```python\n1\n```\n"""\n```', 'r"""\n```python\n1\n```\n"""\n'),
        ("```python\n# it's '''\na\n```\n```\nb\n```", "# it's '''\na\n"),
        ("```python\n'\\'''\n```\nno", "'\\'''\n"),
        ("```python\n'''\na\n```\n```python\nb\n```", "b\n"),
        ("```\n'''\n```\nno\n```python\nb\n```", "b\n"),
    ],
)
def test_fences(text, code):
    assert last_code(text) == code


def test_fences_take_linear_time():
    start = time.process_time()
    for piece in ("```python\n'''\n```\n", "```python\n```\n", "````\n", "`" * 9, '"""\n', " "):
        last_code("```python\n" + piece * 20_000)
    assert time.process_time() - start < 3.0


def test_split_assert():
    call = split_assert("assert f([1, -2], k={'a': 2**10}) == (1.5, None)")
    assert (call.name, call.arguments, call.keywords) == ("f", [[1, -2]], {"k": {"a": 1024}})
    assert call.expected == (1.5, None)
    assert split_assert("assert 3 == f(1)").expected == 3
    for source in ("assert f(1)", "assert f(x) == 1", "assert len(f(1)) == 1", "f(1) == 1",
                   "assert f(1) == 2 == 2", "assert f(*[1]) == 1", "assert f(9**9**9) == 1",
                   "assert f(1) == g(1)", "assert o.f(1) == 1", "assert f(1/0) == 1"):  # fmt: skip
        assert split_assert(source) is None, source
    assert free_names(["import math\ny = 1", "assert math.sqrt(y) == f(y) and len([])"]) == ("f",)


def test_same_value_and_output():
    assert same_value((1, [2.0]), (1, [2])) and not same_value([1], (1,))
    for got, want in ((True, 1), (1, True), ([True], [1]), ({"a": 0}, {"a": False}), (1.0, True)):
        assert not same_value(got, want, loose=True) and same_value(got, want) == (got == want)
    assert same_value((1,), [1], loose=True) and not same_value([1, 2], [1], loose=True)
    assert same_value({"a": 1.0}, {"a": 1.0000001}, 1e-6) and not same_value({"a": 1}, {"b": 1}, 1)
    assert not same_value(10**400, 1.5, 1e-6) and not same_value("1", 1, 1e-6)
    assert same_output("a  \nb\n\n", "\na\nb") and not same_output("a b", "a  b")
    assert same_output("x 1.0", "x 1.0000001", 1e-5) and not same_output("x 1", "y 1", 1e-5)
    assert not same_output("1\n2", "1", 1e-5)


@pytest.mark.parametrize(
    "got, want, same",
    [
        ("1\x0c2\x0c3", "1\n2\n3", False),
        ("1\u20282\x1c3", "1\n2\n3", False),
        ("1\x852", "1\n2", False),
        ("1\r2", "1\n2", False),
        ("1\r\n2\r\n", "1\n2", True),
        ("1\n 2", "  1\n 2", False),
        ("  1\n 2", "  1\n 2\n", True),
        ("1\xa0", "1", False),
        ("\x0c", "", False),
        (" \n\t\n", "", True),
    ],
)
def test_same_output_knows_one_end_of_line(got, want, same):
    assert same_output(got, want) == same
    assert same_output(got, want, 1e-9) == same


def test_a_tolerance_is_for_decimal_numbers():
    for got in ("1_000", "\uff11000", "1000\x0c", "nan", "1e9999"):
        assert not same_output(got, "1000", 1e-6)
    assert same_output("1e3", "1000", 1e-6)


@pytest.mark.parametrize("tolerance", [0.0, 1e-6])
@pytest.mark.parametrize("loose", [False, True])
def test_what_cannot_be_compared_is_not_equal(tolerance, loose):
    snan = Decimal("sNaN")
    for got, want in ((snan, 2), ([snan], [2]), ({1: snan}, {1: 2}), ([1, (snan,)], [1, (2,)])):
        assert not same_value(got, want, tolerance, loose)


@pytest.mark.parametrize(
    "fields", [{"timeout_s": 0.0}, {"tolerance": -1.0}, {"isolation": "none"}, {"sandbox_mb": 0}]
)
def test_bad_fields(fields):
    with pytest.raises(ValueError):
        Code(**fields)
