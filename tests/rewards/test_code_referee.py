"""Tests that need more Python than one comparison: what scores, what does not, what cannot be told.

Each row: the tests, a solution.  The solutions run in the sandbox that this system gives.
"""

import pathlib
import tempfile

import pytest

from rlvr_jax.rewards import grade_all
from rlvr_jax.rewards.code import Code
from rlvr_jax.types import Completion, Problem


def grade(rows, prompt="", entry="f", **meta):
    completions = [Completion(text=f"```python\n{code}\n```") for _, code in rows]
    problems = [
        Problem(
            prompt=prompt,
            answer="",
            index=0,
            meta={"mode": "assert", "entry": entry, "tests": list(tests), **meta},
        )
        for tests, _ in rows
    ]
    return grade_all(Code(timeout_s=15.0, deadline_s=60.0), completions, problems, workers=1)


def statuses(rows, **options):
    return {
        code: verdict.status
        for (_, code), verdict in zip(rows, grade(rows, **options), strict=True)
    }


LOOP = "for got, want in zip(map(f, [1, 2, 3]), [2, 4, 6]):\n    assert got == want"
NEAR = "assert abs(f(2) - 4) < 1e-6"
LISTS = "r = f(3)\nassert len(r) == 3\nassert all(a == b for a, b in zip(r, [0, 1, 2]))"
STATEFUL = """class {name}:
  def __init__(self, *a): self.n = 0
  def __len__(self): self.n += 1; return 3 if self.n == 1 else 0
  def __iter__(self): return iter([])
  def __getitem__(self, i): raise IndexError
  def area(self): return {name}()
"""
ODD = """class S:
  def __sub__(self, o): return 0.0
  __rsub__ = __add__ = __abs__ = __round__ = __mod__ = lambda self, *o: 0
  __lt__ = __gt__ = __eq__ = __contains__ = __le__ = __ge__ = lambda self, o: True
  def __float__(self): return 4.0
def f(x): return S()
class Circle:
  def __init__(self, *a): pass
  def area(self): return S()
"""
FORGED = """import os
def f(x):
  m = b'["l",["value",' + b'["l",[' * 300 + b']]' * 300 + b',["l",[]]]]'
  for fd in range(3, 30):
    try: os.write(fd, len(m).to_bytes(8, 'big') + m)
    except OSError: pass
  return 0
"""
REPLIES = """import os
def f(*x):
  for m in ({messages}):
    for fd in range(3, 30):
      try: os.write(fd, len(m).to_bytes(8, 'big') + m)
      except OSError: pass
  return 0
"""
PASSED = REPLIES.format(messages='b\'["l",["passed",true]]\', b\'["l",["unable","x","y"]]\'')
CALLS = REPLIES.format(
    messages='b\'["l",["callback",["h","ref builtins exit"],["l",[0]],["d",[]]]]\','
    'b\'["l",["callback",["h","call 0 x"],["l",[0]],["d",[]]]]\','
    'b\'["l",["value",["h","known 7"],["l",[]]]]\''
)
WRONG = [
    ([LOOP], "def f(x): raise StopIteration"),
    ([LOOP], "class E(Exception): pass\nE.__name__ = 'StopIteration'\ndef f(x): raise E"),
    ([LOOP], "class E(StopIteration): pass\ndef f(x): raise E"),
    ([LOOP], "def f(x): raise StopAsyncIteration\n"),
    ([LOOP], "def f(x): raise GeneratorExit\n"),
    (["assert all(map(lambda p: f(p[0]) == p[1], [(1, 2)]))"], "def f(x):\n  raise StopIteration"),
    (["def check(c):\n    assert all(map(lambda x: c(x) == 2 * x, range(5)))"],
     "def f(x):\n  next(iter([]))"),
    (["import pytest\nwith pytest.raises(Exception):\n    f(-1)"], "x = 1"),
    (["import pytest\nwith pytest.raises(TypeError):\n    f([1])"], FORGED),
    (["try:\n    f(-1)\n    ok = False\nexcept Exception:\n    ok = True\nassert ok"], "y = 1"),
    (["assert f(1) + 0 == 2"], FORGED),
    (["assert f(1) + 0 == 2"], PASSED),
    (["assert f(lambda x: x) + 1 == 2"], CALLS),
    (["assert f(f(1)) == 2"], "x = []\nfor _ in range(196): x = [x]\ndef f(y): return x"),
    (["assert f(1) + base == 2"], "def f(x):\n  raise ValueError(x)"),
    (["import math\nassert math.isclose(f(2), 4)"], "def f(x): return 5"),
    ([NEAR], ODD),
    (["assert f(2) > 3 and Circle(1) is not None"], ODD),
    (["assert abs(Circle(2).area() - 12.5) < 1e-3"], ODD),
    (["assert 4 in Circle(1).area()"], ODD),
    (["assert Circle(1).area() == Circle(1).area() and Circle(1) == Circle(1)"], ODD),
    (["assert not (Circle(1).area() != 3)"], ODD),
    ([LISTS], STATEFUL.format(name="f")),
    (["for _ in range(3): " + LISTS.replace("\n", "; ", 1).split("\n")[0], LISTS.replace(
        "f(3)", "Circle(3).area()")], "def f(n): return list(range(n))\n"
     + STATEFUL.format(name="Circle")),
    ([LISTS], "def f(n): yield from range(n)"),
    (["assert f(3) == [0, 1, 2] and True"], "def f(n): return iter([0, 1, 2])"),
    (["xs = [3, 1]\nf(xs)\nassert xs == [1, 3]"], "def f(xs): xs = sorted(xs)"),
    (["g = [[1], [2]]\nrow = g[0]\nf(g)\nassert row == [0]"], "def f(g): g[0] = [0]"),
    (["with P() as p:\n    assert f(1) == 2"], "class P:\n  def __enter__(s): pass\n"
     "  def __exit__(s, *a): return True\ndef f(x): return 0"),
    (["def test_a():\n    assert f(1) == 2"], "def f(x): return 0"),
    (["def test_a():\n    assert f(1) == 2"], "x = 2"),
    (["from solution import f\ndef test_a():\n    assert f(1) == 2"], "def f(x): return 1"),
    (["import unittest\nclass A(unittest.TestCase):\n  def test_a(self): "
      "self.assertEqual(f(1), 2)\nif __name__ == '__main__': unittest.main()"],
     "def f(x): import unittest; raise unittest.SkipTest"),
    (["class TestF:\n  def test_a(self):\n    assert f(1) == 2"], "def f(x): return -1"),
    (["assert callable(f) and f(1) == 2"], "f = 5"),
]  # fmt: skip


def test_wrong_programs_are_wrong():
    """Never right, and never "could not tell", which would spare them the penalty."""
    # A sandbox has a /tmp of its own: packages installed below the system's are not seen in it.
    hidden = pathlib.Path(tempfile.gettempdir()) in pathlib.Path(pytest.__file__).parents
    rows = [row for row in WRONG if not (hidden and "import pytest" in row[0][0])]
    for code, status in statuses(rows, setup="base = 1").items():
        assert status == "wrong", code


def test_a_program_that_breaks_the_setup_is_wrong():
    rows = [(["assert f(2) == 4 and base == 2"], "def f(x): raise ValueError")]
    assert grade(rows, setup="base = f(1)")[0].status == "wrong"
    rows = [(["assert f(2) == 4 and base == 2"], "def f(x): return 0")]
    assert grade(rows, setup="base = 10 // f(1)")[0].status == "wrong"


VECTOR = """class V:
  def __init__(self, *x): self.x = list(x)
  def __add__(self, o): return V(*[a + b for a, b in zip(self.x, o.x)])
  def __neg__(self): return V(*[-a for a in self.x])
  def __abs__(self): return sum(a * a for a in self.x) ** 0.5
  def __len__(self): return len(self.x)
  def __getitem__(self, i): return self.x[i]
  def __setitem__(self, i, v): self.x[i] = v
  def __iter__(self): return iter(self.x)
  def __str__(self): return f'<{self.x[0]}>'
  def __bool__(self): return any(self.x)
  def push(self, v): self.x.append(v)
class Full(ValueError): pass
class Fuller(Full): pass
class W(V): pass
def f(x): raise Fuller(f'no {x}')
"""
RIGHT = [
    (["assert list(f(3)) == [0, 1, 2]"], "def f(n): yield from range(n)"),
    (["assert list(f(300)) == list(range(300))"], "def f(n): return iter(range(n))"),
    (["assert list(f(3)) == [0, 1, 2]"], "def f(n): return map(int, '012')"),
    (["g = f()\nassert [next(g) for _ in range(40)] == list(range(40))"],
     "import itertools\ndef f(): return itertools.count()"),
    (["g = f()\nassert next(g) == 1 and next(g, None) is None"], "def f(): yield 1"),
    (["try:\n  list(f())\n  assert False\nexcept KeyError: pass"],
     "def f():\n  yield from range(50)\n  raise KeyError(1)"),
    (["assert sorted(f({'b': 1, 'a': 2})) == ['a', 'b'] and len(f({})) == 0"],
     "def f(d): return d.keys()"),
    (["assert dict(f({'b': 1})) == {'b': 1}"], "def f(d): return d.items()"),
    (["assert f(lambda x: x + 1, 3) == 4"], "def f(g, x): return g(x)"),
    (["assert f(abs, -3) == 3", "import math\nassert f(math.sqrt, 4) == 2",
      "assert f(str.upper, 'a') == 'A'"], "def f(g, x): return g(x)"),
    (["seen = []\nf(seen.append, [1, 2])\nassert seen == [1, 2]"],
     "def f(g, xs):\n  for x in xs: g(x)"),
    (["h = f(lambda x: x * 2)\nassert h(4) == 8 and h.__name__ == 'h'"],
     "def f(g):\n  def h(*a): return g(*a)\n  return h"),
    (["def g(x): return x\nassert f(g) is g and f(g)(3) == 3"], "def f(g): return g"),
    (["assert f(f2, 3) == 9"], "def f(g, x): return g(x)\ndef f2(x): return x * x"),
    (["assert f(lambda n: f(None, n), 3) == 4"], "def f(g, n): return g(n) if g else n + 1"),
    (["def bad(x): raise ValueError('no')\ntry:\n  f(bad)\n  assert False\n"
      "except ValueError as e:\n  assert str(e) == 'no'"], "def f(g): return g(1)"),
    (["assert f(x * x for x in range(3)) == 5"], "def f(xs): return sum(xs)"),
    (["assert str(V(1, 2)) == '<1>' and f'{V(3)}' == '<3>'"], VECTOR),
    (["s = V(1)\ns.push(2)\nassert len(s) == 2\ns.push(3)\nassert len(s) == 3 and 3 in s"], VECTOR),
    (["v = V(1, 2)\nv[0] = 5\nassert v[0] == 5 and v[-1] == 2 and list(v) == [5, 2]"], VECTOR),
    (["assert (V(1, 2) + V(3, 4)).x == [4, 6] and abs(V(3, 4)) == 5 and list(-V(1)) == [-1]"],
     VECTOR),
    (["v = V(1)\nv.x = [7]\nassert str(v) == '<7>' and not V(0)"], VECTOR),
    (["try:\n  f(-1)\n  assert False\nexcept Full as e:\n  assert str(e) == 'no -1'"], VECTOR),
    (["import pytest\nwith pytest.raises(Full, match='no'):\n  f(1)"], VECTOR),
    (["try:\n  f(-1)\n  assert False\nexcept ValueError: pass"], VECTOR),
    (["assert isinstance(V(1), V) and isinstance(W(1), V) and not isinstance(V(1), W)",
      "assert issubclass(W, V) and not isinstance(3, V) and issubclass(Full, ValueError)"], VECTOR),
    (["g = [[1, 2], [3, 4]]\nrow = g[0]\nf(g)\nassert row == [0, 0] and g == [[0, 0], [3, 4]]"],
     "def f(x): x[0][:] = [0, 0]"),
    (["d = {'a': [1]}\na = d['a']\nf(d=d)\nassert a == [1, 2] and d == {'a': [1, 2], 'b': 3}"],
     "def f(d):\n  d['a'].append(2); d['b'] = 3"),
    (["assert f(1) == 2 and LIMIT == 3"], "LIMIT = 3\ndef f(x): return 2 * x"),
    (["try:\n  f()\n  assert False\nexcept SystemExit: pass"], "def f(): exit(1)"),
    (["assert math.isclose(f(2), 4) and Counter([f(1)]) == Counter([2])",
      "assert isinstance(f(1), int)"], "def f(x): return 2 * x"),
    (["import pytest\nfrom solution import f\ndef test_a():\n  assert f(1) == 2\n"
      "def test_b():\n  with pytest.raises(TypeError): f()"], "def f(x): return 2 * x"),
    (["import solution as s\nclass TestF:\n  def setup_method(self): self.x = 1\n"
      "  def test_a(self): assert s.f(self.x) == 2"], "def f(x): return 2 * x"),
    (["import unittest\nfrom main import f as g\nclass A(unittest.TestCase):\n"
      "  def setUp(self): self.x = 1\n  def test_a(self): self.assertEqual(g(self.x), 2)\n"
      "  def test_b(self):\n    with self.assertRaises(TypeError): g()\n"
      "if __name__ == '__main__':\n  unittest.main()"], "def f(x): return 2 * x"),
    (["def check(f):\n  assert f(1) == 2"], "def f(x): return 2 * x"),
    (["def helper(x): return f(x)", "assert helper(1) == 2"], "def f(x): return 2 * x"),
]  # fmt: skip


def test_right_programs_are_right():
    for (tests, code), verdict in zip(RIGHT, grade(RIGHT), strict=True):
        if any("pytest" in test for test in tests) and verdict.reason == "bad_test":
            continue  # without pytest such tests cannot be carried out
        assert verdict.status == "scored", (tests, code, verdict)


UNTOLD = [
    ["import no_such_module\nassert f(1) == 2"],
    ["assert f(1) == undefined(2)"],
    ["class N: pass\nassert f(N()) == 2"],
    ["class Q(f): pass\nassert Q() is None"],
    ["import pytest\nclass N: pass\nwith pytest.raises(Exception):\n  f(N())"],
    ["def g(): assert f(1) == 2"],
    ["f(1)"],
    ["assert callable(f)"],
    ["def test_a(fixture):\n  assert f(1) == 2"],
]


@pytest.mark.parametrize("code", ["def f(x=0): return 2 * x", "def f(x=0): raise ValueError"])
def test_what_no_program_could_pass_is_nobodys_fault(code):
    rows = [(tests, code) for tests in UNTOLD]
    for (tests, _), verdict in zip(rows, grade(rows, prompt="Write f."), strict=True):
        assert verdict.status == "unknown", (tests, verdict)


class_math = "class math:\n  isclose = staticmethod(lambda *a, **k: True)\ndef f(x): return 0"
SUPPLIED = [
    ("assert math.isclose(f(2), 4)", class_math),
    (
        "assert np.allclose(f(2), 4)",
        class_math.replace("math", "np").replace("isclose", "allclose"),
    ),
    ("assert isclose(f(2), 4)", "isclose = lambda *a: True\ndef f(x): return 0"),
    ("assert Counter(f(1)) == Counter([2])", "def Counter(*a): return 1\ndef f(x): return []"),
    ("assert same(f(2), 4)", "def same(*a): return True\ndef f(x): return 0"),
]


@pytest.mark.parametrize("entry", ["f", None])
def test_the_solution_supplies_only_what_is_asked_for(entry):
    rows = [([test], code) for test, code in SUPPLIED]
    verdicts = grade(rows, entry=entry, prompt="Write f(x), the double of a number.")
    right = [verdict.correct for verdict in verdicts]
    assert right == [False] * 4 + [entry is None]  # without an entry a name is the solution's
