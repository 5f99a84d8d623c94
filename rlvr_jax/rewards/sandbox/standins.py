"""Stand-ins for the solution's objects in the scope of the tests (referee.py).

What a stand-in forwards gives values, never the outcome of a comparison: `==`, `<` and `in` are
decided by the tests' own Python, so an object is equal to nothing but itself, and arithmetic is
asked for only between two objects of the solution, which therefore never learns what a value is
compared with.

Standard library only; see child.py.
"""

from __future__ import annotations

import dataclasses
import operator

_ITEMS = 100_000  # of a container that are fetched at once
_CHUNK, _PATIENCE = 256, 16  # items of an iterator at once, after so many single ones


class RemoteError(Exception):
    """The solution raised something that the tests cannot name."""


class Missing(BaseException):
    """The solution does not define a name; no ``except Exception`` of a test catches it."""


class Broken(BaseException):
    """What came from the solution, or should go back to it, makes no sense."""


class Unsendable(BaseException):
    """The test hands the solution something that cannot leave: the fault of the test."""


@dataclasses.dataclass(frozen=True)
class Handle:
    """Something on the solution's side that needs no fetching."""

    text: str


_TAKE, _CONTENTS = Handle("ref serving take"), Handle("ref serving contents")


class Remote:
    """An object of the solution: calls and attributes go out, plain data and handles return."""

    def __init__(self, line, number: int, owner: Remote | None = None):
        self.__dict__.update(_way=(line, number), _owner=owner, _seen=None)

    def __call__(self, *arguments, **keywords):
        _forget(self, *arguments, *keywords.values())
        return self._way[0].ask(self, [], list(arguments), keywords)

    def __getattr__(self, name: str):
        if name.startswith("__") and name not in ("__name__", "__wrapped__"):
            raise AttributeError(name)
        value = self._way[0].ask(self, [name], None, {})
        if isinstance(value, Remote) and value._owner is None and value is not self:
            value.__dict__["_owner"] = self
        return value

    def __setattr__(self, name: str, value: object):
        _forget(self)
        _ask(self, setattr, name, value)

    def __instancecheck__(self, value: object) -> bool:
        return isinstance(value, Remote) and _ask(value, isinstance, self) is True

    def __subclasscheck__(self, kind: object) -> bool:
        return isinstance(kind, Remote) and _ask(kind, issubclass, self) is True

    def __mro_entries__(self, bases: tuple) -> tuple:
        raise Unsendable("a class of the tests cannot extend one of the solution")


def _ask(remote: Remote, function: object, *arguments: object) -> object:
    return remote._way[0].ask(function, [], [remote, *arguments], {})


def _forget(*values: object) -> None:
    """What was seen of these objects, and of what they are parts of, may have changed."""
    for value in values:
        while isinstance(value, Remote) and value is not None:
            value.__dict__["_seen"] = None
            value = value._owner


class Unknown(Remote):
    """A name that the solution lacks."""

    def __call__(self, *arguments, **keywords):
        raise Missing("the solution does not define it")

    def __getattr__(self, name: str):
        raise Missing("the solution does not define it")


class Stream(Remote):
    """An iterator of the solution."""

    def __iter__(self):
        return self

    def __next__(self):
        state = self.__dict__.setdefault("_state", [[], False, 0])
        items, over, count = state
        if not items and not over:
            chunk = 1 if count < _PATIENCE else _CHUNK
            items[:], state[1] = _taken(_ask(self, _TAKE, chunk))
            items.reverse()
        if not items:
            raise StopIteration
        state[2] += 1
        return items.pop()


def _taken(reply: object) -> tuple[list, bool]:
    if not (isinstance(reply, tuple) and len(reply) == 2 and isinstance(reply[0], list)):
        raise RemoteError("not an iterator")
    return reply[0], reply[1] is True or not reply[0]


class Rich(Remote):
    """An object in a test that uses classes of the solution: also a container and an operand.

    Its length and its items are fetched together and stay as they are until the test calls
    something of it or gives it away: as with a list, none of them can change behind an assertion.
    """

    def __len__(self):
        size = _contents(self)[0]
        if size is None:
            raise TypeError("object has no len()")
        return size

    def __iter__(self):
        items = _contents(self)[1]
        source = _ask(self, iter) if items is None else items
        rich = isinstance(source, Rich)  # an iterator whose class is the solution's
        return Stream(*source._way) if rich else iter(source)

    def __bool__(self):
        return _ask(self, bool) is True

    def __getitem__(self, key: object):
        return _ask(self, operator.getitem, key)

    def __setitem__(self, key: object, value: object):
        _forget(self)
        _ask(self, operator.setitem, key, value)

    def __delitem__(self, key: object):
        _forget(self)
        _ask(self, operator.delitem, key)

    def __next__(self):
        items, _ = _taken(_ask(self, _TAKE, 1))
        if not items:
            raise StopIteration
        return items[0]

    def __str__(self):
        return str(_ask(self, str))


def _contents(remote: Rich) -> tuple[int | None, list | None]:
    if remote._seen is None:
        size, items = _ask(remote, _CONTENTS, _ITEMS)
        if items is not None and size not in (None, len(items)):
            raise RemoteError("its length is not the number of its items")
        remote.__dict__["_seen"] = (size, items)
    return remote._seen


def _unary(function):
    return lambda self: _ask(self, function)


def _binary(function):
    def method(self, other):
        return _ask(self, function, other) if isinstance(other, Remote) else NotImplemented

    return method


for _name, _function in {"repr": repr, "abs": abs, "neg": operator.neg}.items():
    setattr(Rich, f"__{_name}__", _unary(_function))
_OPERATORS = "add sub mul truediv floordiv mod pow matmul and or xor"
for _name in _OPERATORS.split():
    setattr(Rich, f"__{_name}__", _binary(getattr(operator, f"__{_name}__")))
