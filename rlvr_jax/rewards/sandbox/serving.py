"""The solution's side of a call: its code is loaded once, then asked for values by messages.

Everything here runs beside the solution, which may read and change it: nothing here is trusted.
Objects that are not plain stay here and are known outside by a handle, a number or a text:

    3                              an object                 iter 3        an iterator
    error 3 Full|2 Own|ValueError  a class of exceptions     known 0       an argument of this call
    call 5 name, each 5            a function, an iterator of the tests, lent to the solution
    ref math sqrt                  something of the standard library

Standard library only; see child.py.
"""

from __future__ import annotations

import builtins
import collections
import importlib
import operator
import socket
import sys
import threading
import typing

import channel

_TYPES = (
    *("Any", "Callable", "DefaultDict", "Deque", "Dict", "FrozenSet", "Generator", "Iterable"),
    *("Iterator", "List", "Mapping", "Optional", "Sequence", "Set", "Tuple", "Union"),
)


class Borrowed:
    """A function of the tests."""

    def __init__(self, shop: Shop, handle: str, name: str):
        self._shop, self._handle, self.__name__ = shop, handle, name

    def __call__(self, *arguments, **keywords):
        return self._shop.call_back(self, list(arguments), keywords)


class Fresh:
    """A method that is called on a new ``Solution()`` each time, as some judges do."""

    def __init__(self, kind: type, name: str):
        self._kind, self.__name__ = kind, name

    def __call__(self, *arguments, **keywords):
        return getattr(self._kind(), self.__name__)(*arguments, **keywords)


class _Known:
    """Stands for an argument inside what became of the arguments."""

    def __init__(self, place: int):
        self.place = place


class Shop:
    """The loaded code and what the other side knows of it."""

    def __init__(self, data: socket.socket, scope: dict):
        self.data, self.scope = data, scope
        self.objects: list[object] = []
        self.numbers: dict[int, int] = {}
        self.lock = threading.RLock()

    def keep(self, value: object) -> int | str:
        """The handle of an object."""
        if isinstance(value, Borrowed):
            return value._handle
        if isinstance(value, _Known):
            return f"known {value.place}"
        if id(value) not in self.numbers:
            self.numbers[id(value)] = len(self.objects)
            self.objects.append(value)
        number = self.numbers[id(value)]
        if isinstance(value, type) and issubclass(value, BaseException):
            return self._exception(value)
        if type(value).__module__ in ("builtins", "itertools") and hasattr(value, "__next__"):
            return f"iter {number}"
        return number

    def _exception(self, kind: type) -> str:
        parts = []
        for base in kind.__mro__:
            if getattr(builtins, base.__name__, None) is base:
                return "error " + "|".join([*parts, base.__name__])
            number = self.numbers.setdefault(id(base), len(self.objects))
            if number == len(self.objects):
                self.objects.append(base)
            parts.append(f"{number} {base.__name__}")
        return "error " + "|".join(parts)

    def find(self, handle: int | str) -> object:
        """What a handle from the other side means."""
        if isinstance(handle, int):
            return self.objects[handle]
        kind, *rest = handle.split(" ")
        if kind == "ref":
            module = importlib.import_module(rest[0])
            return operator.attrgetter(rest[1])(module) if len(rest) > 1 else module
        name = rest[1] if len(rest) > 1 else "function"
        borrowed = Borrowed(self, f"call {rest[0]} {name}", name)
        return _each(borrowed) if kind == "each" else borrowed

    def named(self, name: str) -> object:
        """A global, or where there is none a method of the class ``Solution``; else KeyError."""
        if name not in self.scope and hasattr(self.scope.get("Solution"), name):
            return Fresh(self.scope["Solution"], name)
        return self.scope[name]

    def answer(self, message: list) -> None:
        """Do what one message asks and reply.

        ["names", names]: those that exist.  ["call", target, path, arguments, keywords]: target is
        a global's name or an object, path attributes to follow from there; arguments None: the
        value itself is wanted, not a call.
        """
        try:
            if message[0] == "names":
                found = {}
                for name in message[1]:
                    if name in self.scope or hasattr(self.scope.get("Solution"), name):
                        found[name] = self.named(name)
                reply = ["value", found, []]
            else:
                reply = self._call(*message[1:])
            channel.write(self.data, reply, self.keep)
        except BaseException as error:  # whatever the solution raises is its own
            channel.write(self.data, self._failure(error), self.keep)

    def _call(self, target, path: list, arguments: list | None, keywords: dict) -> list:
        value = self.named(target) if isinstance(target, str) else target
        value = self.objects[target] if isinstance(target, int) else value
        for name in path:
            value = getattr(value, name)
        given = channel.containers([*(arguments or ()), *keywords.values()])
        if arguments is not None:
            value = value(*arguments, **keywords)
        places = {id(mine): place for place, mine in enumerate(given)}
        return ["value", value, [_inside(mine, places) for mine in given]]

    def _failure(self, error: BaseException) -> list:
        text = channel.text_of(error)
        simple = all(type(part) in (str, int, float, bool) for part in error.args)
        kind = type(error)
        return ["error", str(kind.__name__), text, kind, list(error.args) if simple else [text]]

    def call_back(self, function: Borrowed, arguments: list, keywords: dict) -> object:
        """Have the tests call their function; they may call the solution meanwhile."""
        with self.lock:
            channel.write(self.data, ["callback", function, arguments, keywords], self.keep)
            while True:
                message = channel.read(self.data, self.find)
                if message[0] == "return":
                    return message[1]
                if message[0] == "raise":
                    kind = getattr(builtins, message[1], None)
                    raise (kind if isinstance(kind, type) else Exception)(message[2])
                self.answer(message)


def _each(function: Borrowed):
    while True:
        try:
            item = function()
        except StopIteration:
            return
        yield item


def _inside(value, places: dict[int, int]):
    """The content of a container, arguments in it replaced by their places."""
    if isinstance(value, dict):
        return {key: _swap(item, places) for key, item in value.items()}
    if isinstance(value, list | tuple | collections.deque):
        kind = next(k for k in (list, tuple, collections.deque) if isinstance(value, k))
        return kind(_swap(item, places) for item in value)
    return value


def _swap(value, places: dict[int, int]):
    return _Known(places[id(value)]) if id(value) in places else _inside(value, places)


_BROKEN: dict[int, BaseException] = {}  # what an iterator raised behind items that were taken


def take(iterator, count: int) -> tuple[list, bool]:
    """Up to `count` more items, and whether that was all."""
    if id(iterator) in _BROKEN:
        raise _BROKEN.pop(id(iterator))
    items = []
    while len(items) < count:
        try:
            items.append(next(iterator))
        except StopIteration:
            return items, True
        except BaseException as error:  # behind items it is raised when its turn comes
            if not items:
                raise
            _BROKEN[id(iterator)] = error
            break
    return items, False


def contents(value, limit: int) -> tuple[int | None, list | None]:
    """(len(value), its items), None for what it has not; an iterator's items are left alone."""
    size = len(value) if hasattr(type(value), "__len__") else None
    if hasattr(type(value), "__next__") or not hasattr(type(value), "__iter__"):
        return size, None
    items = []
    for item in value:
        if len(items) == limit:
            raise RuntimeError("too many items")
        items.append(item)
    return size, items


def serve(data: socket.socket, code: str) -> None:
    """Load the code, reply ["loaded"] or ["error", type, text], then answer until the end."""
    try:
        module = type(sys)("solution")
        sys.modules["solution"] = module
        if "class Solution" in code:  # such answers are written for a judge that has imported these
            module.__dict__.update({name: getattr(typing, name) for name in _TYPES})
        exec(compile(code, "solution.py", "exec", dont_inherit=True), module.__dict__)
    except BaseException as error:  # also SystemExit: a solution that does not load
        channel.write(data, ["error", type(error).__name__, channel.text_of(error)])
        return
    channel.write(data, ["loaded"])
    shop = Shop(data, module.__dict__)
    while True:
        shop.answer(channel.read(data, shop.find))
