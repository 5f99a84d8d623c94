"""The sources of a problem's tests made ready to run: whose names they use, what they execute.

Tests are written for people and other judges: they forget imports, define ``test_*`` functions that
a test runner would call, import the solution as a module.  Here that is made explicit, and tests
that would pass whatever the solution is are refused.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import datetime
import re
import symtable
import sys
from collections.abc import Iterator, Sequence

# What tests use without importing it, and where it comes from.  The solution never supplies it,
# unless it is what the problem asks for: a comparison would be in its hands.
_FROM = {
    "collections": "ChainMap Counter OrderedDict UserDict UserList UserString defaultdict deque "
    "namedtuple",
    "typing": "Any Callable Dict FrozenSet Generator Iterable Iterator List Mapping Optional "
    "Sequence Set Tuple Union",
    "datetime": "date datetime timedelta timezone",
    "copy": "deepcopy",
    "dataclasses": "dataclass",
    "decimal": "Decimal",
    "enum": "Enum",
    "fractions": "Fraction",
    "functools": "cmp_to_key reduce",
    "io": "BytesIO StringIO",
    "itertools": "chain zip_longest",
    "math": "isclose isfinite isinf isnan",
    "numpy": "allclose array_equal ndarray",
    "numpy.testing": "assert_allclose assert_almost_equal assert_array_almost_equal "
    "assert_array_equal",
    "pathlib": "Path",
    "pytest": "approx raises",
    "types": "SimpleNamespace",
    "unittest": "TestCase",
    "unittest.mock": "MagicMock Mock patch",
}
_SOURCE = {name: module for module, names in _FROM.items() for name in names.split()}
_FOREIGN = {"np": "numpy", "pd": "pandas", "nx": "networkx"} | {
    name: name for name in ("networkx", "numpy", "pandas", "pytest", "scipy", "sympy")
}
_AS_MODULE = ("solution", "main", "submission", "answer", "candidate", "your_module", "my_module")
_CHECKS = ("assert", "fail", "raises", "exit", "_exit", "abort")


@dataclasses.dataclass(frozen=True)
class Sources:
    """names: what is the solution's.  imports: what the tests forgot, and slow modules they need.

    setup: code before the first test.  cases: the sources of tests, each of which checks something.
    """

    names: tuple[str, ...]
    imports: str
    setup: str
    cases: tuple[str, ...]


def read_sources(tests: Sequence[str], setup: str, entry: str | None, prompt: str) -> Sources:
    """SyntaxError: no Python.  ValueError: tests that check nothing or use names of nobody."""
    setup, *tests = (_without_solution_imports(text, entry) for text in [setup, *tests])
    tests = [_with_calls(test) for test in tests]
    definitions = _definitions([setup, *tests])
    if entry and "check" in definitions and not any("check" in _reached(t) for t in tests):
        tests.append(f"check({entry})")
    cases = _folded(tests, definitions)
    if not cases:
        raise ValueError("code: the tests check nothing (no assertion is reached)")
    free = free_names([setup, *tests], entry)
    known = {name: line for name in free if (line := _import_of(name, entry, [setup, *tests]))}
    names = tuple(name for name in free if name not in known)
    strangers = [name for name in names if name != entry and not _in(name, prompt)]
    if entry and prompt.strip() and strangers:
        raise ValueError(
            f"code: the tests use {', '.join(strangers)}, which neither they nor the prompt name"
        )
    if not names:
        raise ValueError("code: the tests never use the solution")
    imports = sorted({*known.values(), *_slow_imports([setup, *tests])})
    return Sources(names, "\n".join(imports), setup, tuple(cases))


def free_names(sources: Sequence[str], entry: str | None = None) -> tuple[str, ...]:
    """Names that the sources use and neither they nor Python define: those of the solution.

    A built-in name counts if it is the entry.
    """
    used, bound = set(), set()
    for source in sources:
        top = symtable.symtable(source, "tests.py", "exec")
        for table in _tables(top):
            for symbol in table.get_symbols():
                if table is not top and not symbol.is_global():
                    continue
                if symbol.is_referenced():
                    used.add(symbol.get_name())
                if symbol.is_assigned() or symbol.is_imported():
                    bound.add(symbol.get_name())
    return tuple(sorted(used - bound - (set(dir(builtins)) - {entry}) - {"__name__", "__file__"}))


def _tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _tables(child)


def _in(name: str, prompt: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", prompt) is not None


def _import_of(name: str, entry: str | None, sources: Sequence[str]) -> str | None:
    """The import that the tests forgot, for names of the standard library and of numpy."""
    if name == entry:
        return None
    attributes, others = set(), 0
    for node in (node for source in sources for node in ast.walk(ast.parse(source))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            attributes |= {node.attr} if node.value.id == name else set()
            others -= node.value.id == name
        elif isinstance(node, ast.Name) and node.id == name:
            others += 1
    as_module = not others  # only ever used as in `math.sqrt`
    if name == "datetime":
        as_module = as_module and attributes <= set(dir(datetime))
    if as_module and name in sys.stdlib_module_names:
        return f"import {name}"
    if name in _SOURCE:
        return f"from {_SOURCE[name]} import {name}"
    if as_module and name in _FOREIGN:
        return f"import {_FOREIGN[name]} as {name}"
    return None


def _slow_imports(sources: Sequence[str]) -> set[str]:
    """Modules beyond the standard library that the sources import."""
    found = set()
    for node in (node for source in sources for node in ast.walk(ast.parse(source))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        roots = {name.partition(".")[0] for name in names}
        found |= {f"import {root}" for root in roots - set(sys.stdlib_module_names)}
    return found


class _Inline(ast.NodeTransformer):
    """Replaces imports of the solution by its names."""

    def __init__(self, entry: str | None):
        self.entry, self.modules, self.changed = entry, set(), False

    def visit_ImportFrom(self, node: ast.ImportFrom) -> object:
        root = (node.module or "").partition(".")[0]
        named = self.entry is not None and any(alias.name == self.entry for alias in node.names)
        if root in sys.stdlib_module_names or not (root in _AS_MODULE or named or node.level):
            return node
        self.changed = True
        renamed = [alias for alias in node.names if alias.asname not in (None, alias.name)]
        return [
            ast.Assign([ast.Name(a.asname, ast.Store())], ast.Name(a.name, ast.Load()))
            for a in renamed
        ] or ast.Pass()

    def visit_Import(self, node: ast.Import) -> object:
        own = [alias for alias in node.names if alias.name in _AS_MODULE]
        self.modules |= {alias.asname or alias.name for alias in own}
        node.names = [alias for alias in node.names if alias not in own]
        self.changed |= bool(own)
        return node if node.names else ast.Pass()

    def visit_Attribute(self, node: ast.Attribute) -> object:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id in self.modules:
            return ast.copy_location(ast.Name(node.attr, node.ctx), node)
        return node


def _without_solution_imports(source: str, entry: str | None) -> str:
    inline = _Inline(entry)
    tree = inline.visit(ast.parse(source))
    return ast.unparse(ast.fix_missing_locations(tree)) if inline.changed else source


def _definitions(sources: Sequence[str]) -> dict[str, list[ast.AST]]:
    """Functions and classes by name, wherever they stand."""
    found: dict[str, list[ast.AST]] = {}
    for node in (node for source in sources for node in ast.walk(ast.parse(source))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.setdefault(node.name, []).append(node)
    return found


def _run_by(root: ast.AST) -> Iterator[ast.AST]:
    """What runs when a module, a function or a class does; not the bodies of functions in it."""
    todo = list(ast.iter_child_nodes(root))
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
            continue  # for scripts
        yield node
        method = isinstance(root, ast.ClassDef) and node in root.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not method:
            todo += node.decorator_list
        elif not isinstance(node, ast.ClassDef):
            todo += ast.iter_child_nodes(node)


def _reached(source: str) -> set[str]:
    """Names and attributes that the source itself uses when it runs."""
    nodes = list(_run_by(ast.parse(source)))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return names | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def _checks(source: str, definitions: dict[str, list[ast.AST]]) -> bool:
    """Whether running the source can reach an assertion."""
    todo: list[ast.AST] = [ast.parse(source)]
    seen: set[str] = set()
    while todo:
        for node in _run_by(todo.pop()):
            call = node.func if isinstance(node, ast.Call) else None
            if isinstance(node, ast.Assert | ast.Raise) or _word(call).startswith(_CHECKS):
                return True
            name = _word(node)
            if name in definitions and name not in seen:
                seen.add(name)
                todo += definitions[name]
    return False


def _word(node: ast.AST | None) -> str:
    return getattr(node, "id", "") or getattr(node, "attr", "") if node else ""


def _folded(tests: Sequence[str], definitions: dict[str, list[ast.AST]]) -> list[str]:
    """Sources that check nothing joined to the next one that does, the last ones to the last."""
    cases, waiting = [], []
    for test in tests:
        waiting.append(test)
        if _checks(test, definitions):
            cases.append("\n".join(waiting))
            waiting = []
    if waiting and cases:
        cases[-1] = "\n".join([cases[-1], *waiting])
    return cases


def _with_calls(source: str) -> str:
    """The source and calls of the test functions and classes that it only defines."""
    used, calls = _reached(source), []
    for node in ast.parse(source).body:
        name = getattr(node, "name", "")
        if name in used or not isinstance(node, ast.FunctionDef | ast.ClassDef):
            continue
        if isinstance(node, ast.FunctionDef) and name.startswith("test"):
            calls.append(_call(node, name, bound=0))
        elif isinstance(node, ast.ClassDef) and any("TestCase" in _word(b) for b in node.bases):
            loader = "__import__('unittest').defaultTestLoader"
            calls.append(f"{loader}.loadTestsFromTestCase({name}).debug()")
        elif isinstance(node, ast.ClassDef) and name.startswith("Test"):
            calls += _class_calls(node)
    return "\n".join([source, *calls])


def _class_calls(node: ast.ClassDef) -> Iterator[str]:
    methods = {m.name: m for m in node.body if isinstance(m, ast.FunctionDef)}
    for name, method in methods.items():
        if name.startswith("test"):
            yield f"_case = {node.name}()"
            yield from ["_case.setup_method()"] if "setup_method" in methods else []
            yield _call(method, f"_case.{name}", bound=1)


def _call(node: ast.FunctionDef, text: str, bound: int) -> str:
    spec = node.args
    needed = len(spec.posonlyargs + spec.args) - len(spec.defaults) - bound
    if needed > 0 or None in spec.kw_defaults:
        raise ValueError(f"code: {node.name} needs arguments, which only a test runner could give")
    return f"{text}()"
