"""The map of the house, checked on the source: layers, host rooms, sizes, fields, names.

Allow-lists name what is over a limit today.  They may only shrink: an entry that is no longer
needed fails a test.
"""

import ast
import dataclasses
import functools
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "rlvr_jax"

# A room is a package or a module of rlvr_jax.  Imports point only to lower layers.
LAYERS = dict(
    enumerate(
        (
            "types registry",
            "masking batch schema",
            "losses advantages sharding sampling slots rewards tasks text statistics workdir",
            "models evalreport runfiles choices effects grade store interruption",
            "generate packing console preset_rows audit checkpoint analysis",
            "scoring log presets report memory phrase",
            "rollout learner",
            "experience evaluate shaping curriculum reference",
            "critic controllers",
            "config reward_model",
            "preflight",
            "setup invariants",
            "recipes doctor export",
            "commands",
            "cli",
        )
    )
)
LAYER = {room: layer for layer, rooms in LAYERS.items() for room in rooms.split()}
HOST = ["types", "registry", "rewards", "tasks", "text", "statistics", "evalreport", "runfiles"]
HOST += ["console", "log", "slots", "analysis", "report", "grade", "audit", "workdir"]

LONG_FILES: set[str] = set()
LONG_FUNCTIONS: set[str] = set()
LONG_PARAMETERS: set[str] = set()
BIG_CLASSES: set[str] = set()
FORBIDDEN = ("Trainer", "Manager", "Engine", "Helper", "Helpers", "Utils")


@functools.cache
def tree(path: pathlib.Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


SOURCES = sorted(PACKAGE.rglob("*.py"))


def module_name(path: pathlib.Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(p): p for p in SOURCES}


def room(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


@functools.cache
def imports(module: str) -> frozenset[str]:
    """Absolute names of what a module imports anywhere in it, imports for types only left out."""
    found, root = set(), tree(MODULES[module])
    typing_only = {
        id(child)
        for node in ast.walk(root)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for child in ast.walk(node)
    }
    for node in ast.walk(root):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}: relative import"
            inner = {f"{node.module}.{a.name}" for a in node.names}
            found |= {node.module} | (inner & set(MODULES))
    return frozenset(found)


def inside(module: str) -> set[str]:
    """The modules of the package that importing `module` runs, its parents included."""
    named = {m for m in imports(module) if m in MODULES}
    parents = {".".join(m.split(".")[:i]) for m in named for i in range(1, m.count(".") + 1)}
    return (named | parents) - {module}


def test_every_room_has_a_layer():
    rooms = {room(m) for m in MODULES} - {""}
    assert rooms == set(LAYER), "update LAYERS"


def test_imports_point_down():
    wrong = {
        f"{module} imports {other}"
        for module in MODULES
        for other in inside(module)
        if room(other) and room(module) != room(other) and LAYER[room(module)] <= LAYER[room(other)]
    }
    assert not wrong


def test_the_sampler_reaches_no_text():
    waiting, seen = ["rlvr_jax.generate"], set()
    while waiting:
        module = waiting.pop()
        seen.add(module)
        waiting.extend(inside(module) - seen - {"rlvr_jax"})
    assert not {m for m in seen if room(m) in ("text", "rewards", "tasks")}


def test_no_import_cycles():
    done, path = set(), []

    def visit(module):
        assert module not in path, " -> ".join([*path[path.index(module) :], module])
        if module in done:
            return
        path.append(module)
        # a package's own __init__ runs before its modules, and may import them
        for other in sorted(inside(module)):
            if not module.startswith(f"{other}."):
                visit(other)
        path.pop()
        done.add(module)

    for module in MODULES:
        visit(module)


@pytest.mark.parametrize("host", HOST)
def test_host_rooms_never_import_jax(host):
    """Not even by way of another module."""
    waiting, seen = [m for m in MODULES if room(m) == host], set()
    assert waiting
    while waiting:
        module = waiting.pop()
        outside = {m.split(".")[0] for m in imports(module)} & {"jax", "flax", "optax", "orbax"}
        assert not outside, f"{host} reaches {module}, which imports {outside}"
        seen.add(module)
        waiting += sorted(inside(module) - seen)


def test_axis_names_live_in_sharding_alone():
    for path in SOURCES:
        if path.name == "sharding.py":
            continue
        for call in ast.walk(tree(path)):
            if not isinstance(call, ast.Call | ast.Subscript):
                continue
            what = ast.unparse(call.func if isinstance(call, ast.Call) else call.value)
            if not re.search(r"(^|\.)(P|PartitionSpec|Mesh|constrain|psum|pmean|shape)$", what):
                continue
            words = {n.value for n in ast.walk(call) if isinstance(n, ast.Constant)}
            assert not words & {"data", "fsdp", "tensor"}, f"{path.name}:{call.lineno}"


def test_partition_specs_are_made_in_sharding_alone():
    users = {m for m in MODULES if any(i.endswith("PartitionSpec") or i == "jax.sharding"
             for i in imports(m)) and "PartitionSpec" in MODULES[m].read_text()}  # fmt: skip
    assert users == {"rlvr_jax.sharding"}


# Sizes.


def functions():
    for module, path in MODULES.items():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{module}.{node.name}", node


def body_lines(node) -> int:
    """Lines after the signature and the docstring."""
    body = node.body[1:] if ast.get_docstring(node) else node.body
    return node.end_lineno - body[0].lineno + 1 if body else 0


def within(limit_of, found: dict[str, int], allowed: set[str]) -> None:
    over = {name: size for name, size in found.items() if size > limit_of(name)}
    assert not set(over) - allowed, f"too big: { {k: over[k] for k in set(over) - allowed} }"
    assert not allowed - set(over), f"no longer needed in the allow-list: {allowed - set(over)}"


def test_files_are_short():
    sizes = {m: len(p.read_text().splitlines()) for m, p in MODULES.items()}
    within(lambda name: 400, sizes, LONG_FILES)


def test_functions_are_short():
    sizes = {}
    for name, node in functions():
        sizes[name] = max(sizes.get(name, 0), body_lines(node))
    mains = {f"rlvr_jax.recipes.{m}.{f}" for m, f in (("rl", "rl"), ("sft", "sft"))}
    within(lambda name: 120 if name in mains else 40, sizes, LONG_FUNCTIONS)


def test_functions_take_few_parameters():
    sizes = {}
    for name, node in functions():
        a = node.args
        count = len(a.posonlyargs) + len(a.args) + len(a.kwonlyargs)
        sizes[name] = max(sizes.get(name, 0), count)
    within(lambda name: 7, sizes, LONG_PARAMETERS)


def classes():
    for module, path in MODULES.items():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef):
                yield module, node


def test_classes_have_few_methods():
    sizes = {
        f"{module}.{node.name}": sum(
            isinstance(n, ast.FunctionDef) and not n.name.startswith("__") for n in node.body
        )
        for module, node in classes()
    }
    within(lambda name: 8, sizes, BIG_CLASSES)


def test_names_say_what_a_thing_is():
    bad = [f"{m}.{n.name}" for m, n in classes() if n.name.endswith(FORBIDDEN)]
    bad += [str(p) for p in SOURCES if p.stem in ("utils", "helpers", "util", "common", "misc")]
    assert not bad


def test_only_recipes_loop_over_steps():
    for module, path in MODULES.items():
        if room(module) == "recipes":
            continue
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.For):
                assert ast.unparse(node.target) != "step", f"{module}:{node.lineno}"


def test_nothing_is_left_to_do():
    words = re.compile(r"\b(TODO|FIXME|XXX)\b")
    assert not [str(p) for p in SOURCES if words.search(p.read_text())]


def test_broad_excepts_are_explained():
    """`except Exception` has a comment on its line or the next."""
    for path in SOURCES:
        lines = path.read_text().splitlines()
        for node in ast.walk(tree(path)):
            if not isinstance(node, ast.ExceptHandler):
                continue
            kind = ast.unparse(node.type) if node.type else ""
            if kind in ("", "Exception", "BaseException"):
                near = "".join(lines[node.lineno - 1 : node.lineno + 2])
                assert "#" in near, f"{path.relative_to(ROOT)}:{node.lineno}"


# Configuration.


def config_fields():
    """(class, field) of every dataclass that a configuration is made of."""
    from rlvr_jax import config
    from rlvr_jax.registry import Registry

    waiting = [config.RunConfig]
    for section in config.SECTIONS.values():
        waiting += [section[n] for n in section] if isinstance(section, Registry) else [section]
    seen = set()
    while waiting:
        cls = waiting.pop()
        if cls in seen:
            continue
        seen.add(cls)
        for field in dataclasses.fields(cls):
            yield cls, field.name
            if dataclasses.is_dataclass(field.default):
                waiting.append(type(field.default))


@functools.cache
def reads() -> dict[str, set[tuple[str, int]]]:
    """attribute name -> (module, line) of every place that reads it, checks left out.

    `self.x` inside `__post_init__` only checks a value and does not count.
    """
    out: dict[str, set[tuple[str, int]]] = {}
    for module, path in MODULES.items():
        checks = {
            id(child)
            for node in ast.walk(tree(path))
            if isinstance(node, ast.FunctionDef) and node.name == "__post_init__"
            for child in ast.walk(node)
        }
        for node in ast.walk(tree(path)):
            read = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
            if read and id(node) not in checks:
                out.setdefault(node.attr, set()).add((module, node.lineno))
    return out


def test_every_config_field_is_read():
    """As an attribute, somewhere in the package, outside the checks of its own definition."""
    dead = {f"{cls.__name__}.{name}" for cls, name in config_fields() if name not in reads()}
    assert not dead


# The repository.


def tracked() -> list[pathlib.Path]:
    try:
        out = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return [ROOT / name for name in out.split("\0") if name and (ROOT / name).is_file()]


def test_no_path_of_one_machine():
    path = re.compile(r"(?<![\w.])/(?:home|root|Users|work|mnt|scratch)/[\w.-]+")
    mine = pathlib.Path(__file__).name
    for file in tracked():
        if file.suffix in (".png", ".gz", ".ico") or file.name == mine:
            continue
        found = path.search(file.read_text(errors="ignore"))
        assert not found, f"{file.relative_to(ROOT)}: {found.group()}"


def test_spec_is_reached_by_tests_only():
    for file in tracked():
        if file.suffix == ".py" and file.is_relative_to(PACKAGE):
            assert "../shared" not in file.read_text(), file


def test_test_files_have_names_of_their_own():
    """Without packages in tests/, two files of one name would hide each other."""
    names = [p.name for p in (ROOT / "tests").rglob("*.py") if p.name != "conftest.py"]
    assert len(names) == len(set(names)), sorted({n for n in names if names.count(n) > 1})


METRIC = re.compile(
    r"(reward|group|len|policy|adv|mismatch|value|data|verifier|perf|time|health|sft)/\w+"
)
MOMENT = re.compile(r"(error|_sq|/error_sq|return_sq)_mean$")  # become a quotient at the end


def literal_metrics(path: pathlib.Path) -> set[str]:
    """Plain strings that look like the name of a metric; pieces of f-strings left out."""
    root = tree(path)
    pieces = {id(v) for n in ast.walk(root) if isinstance(n, ast.JoinedStr) for v in n.values}
    words = {
        n.value
        for n in ast.walk(root)
        if isinstance(n, ast.Constant) and isinstance(n.value, str) and id(n) not in pieces
    }
    return {w for w in words if METRIC.fullmatch(w) and not w.endswith("_")}


def test_every_logged_metric_is_described():
    """Every literal metric name in the source has a row in the table of metrics."""
    from rlvr_jax.analysis.metric_names import describe

    rooms = ("losses", "learner", "experience", "rollout", "recipes", "log", "setup")
    missing = {
        f"{module}: {name}"
        for module, path in MODULES.items()
        if room(module) in rooms
        for name in literal_metrics(path)
        if describe(name) is None and not MOMENT.search(name)
    }
    assert not missing
