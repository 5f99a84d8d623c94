r"""The syntax tree of mathematics, the tables of the grammar, and the token stream.

A node is a tuple (kind, *parts); parts that are tuples are nodes.  Kinds:

    num q | sym name | const pi/e/i/oo | add .. | mul .. | div a b [÷] | pow a b | neg a | root x n
    fn name args.. | big name lower upper body | pm sign a b | deg x | pct x | unit x text
    base digits b | list sep items.. | tuple brackets items.. | set items.. | setop op a b
    builder head condition | space name | matrix columns entries.. | det columns entries..
    rel ops exprs.. | ratio items.. | text words | dots
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from fractions import Fraction

from rlvr_jax.rewards.math_lex import Unparsable
from rlvr_jax.rewards.math_units import word_set

MAX_DEPTH = 40

Node = tuple
ONE, ZERO = ("num", Fraction(1)), ("num", Fraction(0))
NOTHING = ("sym", "")
END = ("end of text", "")

RELATIONS = {
    **{"=": "=", "<": "<", ">": ">", "<=": "<=", ">=": ">=", "!=": "!=", "->": "to", ":=": "="},
    **{"le": "<=", "leq": "<=", "leqslant": "<=", "ge": ">=", "geq": ">=", "geqslant": ">="},
    **{"lt": "<", "gt": ">", "ne": "!=", "neq": "!=", "approx": "approx", "sim": "sim"},
    **{"equiv": "equiv", "in": "in", "notin": "notin", "subset": "subset", "subseteq": "subseteq"},
    **{"to": "to", "rightarrow": "to", "Rightarrow": "implies", "implies": "implies"},
    **{"iff": "iff", "Leftrightarrow": "iff", "mid": "mid", "propto": "propto", "cong": "cong"},
}
SETOPS = {"cup": "union", "cap": "intersect", "setminus": "minus", "backslash": "minus"}
BIG = word_set("sum prod int oint iint iiint lim bigcup bigcap limsup liminf sup inf")
SPACES = word_set("R Z N Q C")
ALIASES = {"varphi": "phi", "vartheta": "theta", "varepsilon": "epsilon", "varrho": "rho"}
ALIASES |= {"hbar": "hbar", "ell": "ell", "nabla": "nabla", "partial": "partial"}
GREEK = word_set(
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi rho sigma tau "
    "upsilon phi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega hbar "
    "ell nabla partial angle triangle"
)
INVERSE = {"sin": "arcsin", "cos": "arccos", "tan": "arctan", "cot": "arccot"}
INVERSE |= {"sec": "arcsec", "csc": "arccsc", "sinh": "arcsinh", "cosh": "arccosh"}
INVERSE |= {"tanh": "arctanh"}
FN_ALIASES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "lg": "log", "sign": "sgn"}
APPLIED = word_set("f g h F G O Theta")  # letters read as functions before a parenthesis


def children(node: Node) -> Iterator[Node]:
    """The nodes directly below."""
    return (part for part in node[1:] if type(part) is tuple)


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it."""
    stack = [node]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(children(node))


@dataclasses.dataclass
class Stream:
    """Tokens and the place in them.

    items, sum, product, factor: the rules that atoms call back (math_parse.py).
    bars: open absolute values, -1 inside a set (where a bar parts head and condition).
    """

    tokens: list
    rules: dict[str, Callable[[Stream], Node]]
    at: int = 0
    bars: int = 0
    depth: int = 0

    def peek(self, ahead: int = 0) -> tuple:
        place = self.at + ahead
        return self.tokens[place] if place < len(self.tokens) else END

    def next(self) -> tuple:
        token = self.peek()
        self.at += 1
        return token

    def take(self, *values: str) -> bool:
        """Consume the next token if it is an operator or command of one of these names."""
        kind, value = self.peek()
        if kind in ("op", "cmd") and value in values:
            self.at += 1
            return True
        return False

    def need(self, value: str) -> None:
        if not self.take(value):
            raise Unparsable

    def rule(self, name: str) -> Node:
        """Parse by one of the grammar's rules; too deep a nesting is refused."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unparsable("too_deep")
        node = self.rules[name](self)
        self.depth -= 1
        return node
