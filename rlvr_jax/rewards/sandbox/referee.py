"""The tests' side: test code runs here, in one scope in which the solution's names are remote.

Every use of the solution is a message to serving.py in another sandbox; only plain data and handles
come back, and stand-ins (standins.py) are made of the handles.

Standard library only; see child.py.
"""

from __future__ import annotations

import builtins
import importlib
import operator
import socket
import sys
import types
from collections import deque

import channel
import plain
from standins import Broken, Handle, Missing, Remote, RemoteError, Rich, Stream, Unknown, Unsendable

# Raised in a test these would end its loops early instead of failing it.
_STEERING = (StopIteration, StopAsyncIteration, GeneratorExit)


class Line:
    """The connection with the solution, and what was named on it.

    rich: the tests use a class, so objects stand in for containers and operands too.  A test of
    functions alone expects plain values; there an object has nothing that could pass for one.
    """

    def __init__(self, data: socket.socket, rich: bool):
        self.data, self.rich = data, rich
        self.known: list = []  # containers among the arguments of the call that is under way
        self.lent: list = []
        self.remotes: dict[int, Remote] = {}
        self.errors: dict[int, type] = {}
        self.named = self.used = False

    def ask(self, target: object, path: list, arguments: list | None, keywords: dict) -> object:
        """A value of the solution; raises what it raised."""
        self.used = True
        known = channel.containers([*(arguments or ()), *keywords.values()])
        message = ["call", target, path, arguments, keywords]
        while True:
            kind, *rest = self._exchange(message, known)
            if kind != "callback":
                break
            message = self._called_back(*rest)
        if kind == "error":
            raise _error(*rest)
        for mine, theirs in zip(known, rest[1], strict=False):
            _update(mine, theirs)
        return rest[0]

    def _exchange(self, message: list, known: list) -> list:
        try:
            channel.write(self.data, message, self.give)
            self.known = known
            return channel.read(self.data, self.take)
        except Exception as error:  # values too deep, forged handles: no exception a test may catch
            raise Broken(str(error)) from None

    def _called_back(self, function: object, arguments: list, keywords: dict) -> list:
        """Run a lent function for the solution: the message that says what came of it."""
        if not any(function is mine for mine in self.lent) or not isinstance(arguments, list):
            raise Broken("not a function of the tests")
        try:
            return ["return", function(*arguments, **keywords)]
        except Unsendable:
            raise
        except BaseException as error:  # the solution meets it, as without a wall between them
            return ["raise", type(error).__name__, channel.text_of(error)]

    def give(self, value: object) -> int | str:
        """The handle by which the solution knows a value of the tests that is not plain."""
        if isinstance(value, Unknown):
            raise Missing("the solution does not define it")
        if isinstance(value, Remote | Handle):
            return value.text if isinstance(value, Handle) else value._way[1]
        if isinstance(value, type) and value in self.errors.values():
            return next(number for number, kind in self.errors.items() if kind is value)
        reference = _reference(value)
        if reference:
            return reference
        if isinstance(value, types.FunctionType | types.MethodType | types.BuiltinMethodType):
            return f"call {_lend(self.lent, value)} {_word(value.__name__)}"
        if type(value).__module__ == "functools" and callable(value):
            return f"call {_lend(self.lent, value)}"
        if hasattr(value, "__next__"):
            return f"each {_lend(self.lent, value.__next__)}"
        raise Unsendable(f"{type(value).__name__} cannot be given to the solution")

    def take(self, handle: int | str) -> object:
        """What a handle of the solution stands for in the tests; NotPlain for a forged one."""
        kind, _, rest = str(handle).partition(" ")
        try:
            if isinstance(handle, int):
                return self._remote(handle, Rich if self.rich else Remote)
            if kind == "iter":
                return self._remote(int(rest), Stream)
            if kind == "error":
                return _local(self.errors, rest.split("|"))
            things = {"known": self.known, "call": self.lent}[kind]
            return things[operator.index(int(rest.split(" ")[0]))]
        except (LookupError, ValueError):
            raise plain.NotPlain(f"no handle {handle!r:.40}") from None

    def _remote(self, number: int, kind: type) -> Remote:
        if number not in self.remotes:
            self.remotes[number] = kind(self, number)
        return self.remotes[number]


def _lend(lent: list, value: object) -> int:
    lent.append(value)
    return len(lent) - 1


def _local(errors: dict[int, type], parts: list[str]) -> type:
    """A class of our own for an exception of the solution, below the built-in it extends."""
    base = getattr(builtins, parts[-1], None)
    good = isinstance(base, type) and issubclass(base, BaseException)
    kind = base if good and not issubclass(base, _STEERING) else RemoteError
    for part in reversed(parts[:-1]):
        number, _, name = part.partition(" ")
        fresh = type(_word(name), (kind,), {"_says": None, "__str__": _says})
        kind = errors.setdefault(int(number), fresh)
    return kind


def _word(name: object) -> str:
    return name if isinstance(name, str) and name.isidentifier() else "function"


def _says(error: BaseException) -> str:
    return str(error.args[0] if error._says is None and error.args else error._says or "")


def _error(name: str, text: str, kind: object, arguments: object) -> BaseException:
    """The exception to raise here; it is marked as the solution's."""
    error = RemoteError(f"{name}: {text}")
    if isinstance(kind, type) and issubclass(kind, BaseException):
        try:
            error = kind(*arguments)
        except Exception:  # a built-in that is made of more than a text
            error = next(b for b in kind.__mro__ if b in (ValueError, Exception, BaseException))(
                text
            )
        if hasattr(kind, "_says"):
            error._says = text
    error.of_solution = True
    return error


def _reference(value: object) -> str | None:
    """How both sides name something of the standard library."""
    owner = getattr(value, "__objclass__", value)
    module, name = getattr(owner, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or " " in name:
        return None
    if module.partition(".")[0] not in sys.stdlib_module_names:
        return None
    try:
        same = operator.attrgetter(name)(importlib.import_module(module)) is value
    except (ImportError, AttributeError):
        return None
    return f"ref {module} {name}" if same else None


def _update(mine: object, theirs: object) -> None:
    """Repeat on the tests' own container what the solution did to its copy."""
    if type(mine) is not type(theirs) or mine is theirs:
        return
    if isinstance(mine, list):
        mine[:] = theirs
    elif isinstance(mine, dict | set):
        mine.clear()
        mine.update(theirs)
    elif isinstance(mine, deque):
        mine.clear()
        mine.extend(theirs)


def _solution_names(line: Line, names: list[str]) -> dict[str, object]:
    line.named = True
    kind, *rest = line._exchange(["names", names], [])
    found = rest[0] if kind == "value" and isinstance(rest[0], dict) else {}
    line.used = not all(type(found.get(name)) in (Remote, Rich) for name in names)
    return {name: found.get(name, Unknown(line, -1)) for name in names}


def _imported(source: str, scope: dict) -> list:
    try:
        exec(compile(source, "tests.py", "exec", dont_inherit=True), scope)
    except BaseException as error:  # the tests need what is not there
        return ["unable", type(error).__name__, channel.text_of(error)]
    return ["imported"]


def _unable(error: BaseException, line: Line) -> bool:
    """Whether the test cannot be carried out, and no solution could have brought that about."""
    if getattr(error, "of_solution", False) or isinstance(error, Missing | Broken):
        return False
    return isinstance(error, Unsendable | ModuleNotFoundError) or not line.used


def referee(data: socket.socket, names: list[str]) -> None:
    """Run test code, one ["test", source] after the other, in one scope where `names` are remote.

    ["import", source] runs imports before the first test; replies ["imported"] or ["unable", type,
    text].  A test's replies: ["passed", whether the solution was met], ["failed", type, text], or
    ["unable", type, text] where the test cannot be carried out, whatever the solution is.  Between
    them ["names", names], ["call", ...], ["return", value] and ["raise", type, text] go out.
    """
    line = Line(data, any(name[:1].isupper() for name in names))
    module = type(sys)("tests")
    sys.modules["tests"] = module
    scope = module.__dict__
    while True:
        verb, source = channel.read(data)
        if verb == "import":
            channel.write(data, _imported(source, scope))
            continue
        try:
            if not line.named:
                scope.update(_solution_names(line, names))
            exec(compile(source, "tests.py", "exec", dont_inherit=True), scope)
            reply = ["passed", line.used]
        except BaseException as error:  # a failed assertion, or a test that cannot run
            verdict = "unable" if _unable(error, line) else "failed"
            reply = [verdict, type(error).__name__, channel.text_of(error)]
        channel.write(data, reply)
