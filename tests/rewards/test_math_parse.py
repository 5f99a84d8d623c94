from fractions import Fraction

import pytest

from rlvr_jax.rewards.math_lex import Unparsable, tokenize
from rlvr_jax.rewards.math_parse import parse
from rlvr_jax.rewards.math_stream import children, walk
from rlvr_jax.rewards.math_text import fold


def num(value, bottom=1):
    return ("num", Fraction(value, bottom))


X, Y, PI = ("sym", "x"), ("sym", "y"), ("const", "pi")
TWO = num(2)


@pytest.mark.parametrize(
    "text, tree",
    [
        ("7", num(7)),
        ("-7", ("neg", num(7))),
        ("0.25", num(1, 4)),
        ("1,234", num(1234)),
        ("1{,}234{,}567", num(1234567)),
        (r"32,\! 349", num(32349)),
        ("12 000", num(12000)),
        ("1.5e3", num(1500)),
        (r"0.\overline{3}", num(1, 3)),
        (r"0.1\overline{6}", num(1, 6)),
        ("0.(09)", num(1, 11)),
        ("0.333...", num(1, 3)),
        (r"1\frac{1}{2}", num(3, 2)),
        ("1 1/2", num(3, 2)),
        (r"2\frac{5}{3}", ("mul", TWO, ("div", num(5), num(3)))),
        (r"\frac12", ("div", num(1), TWO)),
        (r"\frac{x}2", ("div", X, TWO)),
        (r"\sqrt2", ("root", TWO, TWO)),
        (r"\sqrt[3]{x}", ("root", X, num(3))),
        ("√12", ("root", num(12), TWO)),
        ("x^2", ("pow", X, TWO)),
        ("x^10", ("pow", X, num(10))),
        ("-x^2", ("neg", ("pow", X, TWO))),
        ("(-x)^2", ("pow", ("neg", X), TWO)),
        ("2x+y", ("add", ("mul", TWO, X), Y)),
        ("x-y", ("add", X, ("neg", Y))),
        ("x/2y", ("mul", ("div", X, TWO), Y)),
        (r"\sin^2 x", ("pow", ("fn", "sin", X), TWO)),
        (r"\tan^{-1} x", ("fn", "arctan", X)),
        (r"\sin 2x", ("fn", "sin", ("mul", TWO, X))),
        (r"2\sin x\cos x", ("mul", TWO, ("fn", "sin", X), ("fn", "cos", X))),
        (r"\log_2 x", ("fn", "log", X, TWO)),
        (r"\log\log x", ("fn", "log", ("fn", "log", X))),
        ("f(x)", ("fn", "f", X)),
        ("x(y)", ("mul", X, Y)),
        ("|x|", ("fn", "abs", X)),
        ("n!", ("fn", "factorial", ("sym", "n"))),
        (r"\binom{5}{2}", ("fn", "binom", num(5), TWO)),
        (r"{5 \choose 2}", ("fn", "binom", num(5), TWO)),
        (r"60^\circ", ("deg", num(60))),
        (r"28\%", ("pct", num(28))),
        ("x_1", ("sym", "x_1")),
        ("x_{n+1}", ("sym", "x_n+1")),
        ("y'", ("sym", "y'")),
        (r"\vec{a}", ("sym", "vec a")),
        ("4210_5", ("base", "4210", "5")),
        ("1A_{16}", ("base", "1A", "16")),
        ("(1,2)", ("tuple", "()", num(1), TWO)),
        ("[1,2)", ("tuple", "[)", num(1), TWO)),
        (r"\{1,2\}", ("set", num(1), TWO)),
        (r"\{\}", ("set",)),
        ("1,2", ("list", ",", num(1), TWO)),
        (r"1 \text{ or } 2", ("list", "or", num(1), TWO)),
        (r"1, \text{ and } 2", ("list", "and", num(1), TWO)),
        ("x=2", ("rel", "=", X, TWO)),
        ("1<x\\le 2", ("rel", "< <=", num(1), X, TWO)),
        (r"x \in [1,2]", ("rel", "in", X, ("tuple", "[]", num(1), TWO))),
        (r"\{x : x>2\}", ("builder", X, ("rel", ">", X, TWO))),
        (r"\{x | x>2\}", ("builder", X, ("rel", ">", X, TWO))),
        (r"\{1\}\cup\{2\}", ("setop", "union", ("set", num(1)), ("set", TWO))),
        (r"\mathbb{R}", ("space", "R")),
        ("1:2", ("ratio", num(1), TWO)),
        (r"\pm 2", ("pm", "pm", num(0), TWO)),
        (r"5 \text{ cm}", ("unit", num(5), "cm")),
        ("5 apples", ("unit", num(5), "apples")),
        (r"\$5", ("unit", num(5), "dollar")),
        (r"-\$5", ("unit", ("neg", num(5)), "dollar")),
        (r"2 \text{ million}", num(2_000_000)),
        (r"\text{Yes}", ("text", "yes")),
        (r"\mathrm{e}", ("const", "e")),
        ("2pi", ("mul", TWO, PI)),
        (r"\begin{pmatrix}1&2\\x&y\end{pmatrix}", ("matrix", 2, num(1), TWO, X, Y)),
        (r"\begin{array}{cc}1&2\end{array}", ("matrix", 2, num(1), TWO)),
        (r"\begin{vmatrix}1\\2\\\end{vmatrix}", ("det", 1, num(1), TWO)),
    ],
)
def test_tree(text, tree):
    assert parse(fold(text)) == tree


@pytest.mark.parametrize(
    "text",
    ["7 8", "x 2", "2^{1}0", "(1", "1)", r"\frac{1}", r"\sqrt", "x^", "*", "+", r"\{1", "(]", "(1]"]
    + [
        "#",
        "a@b",
        "__import__('os')",
        r"\begin{foo}\end{foo}",
        r"\begin{pmatrix}1&2\\3\end{pmatrix}",
    ]
    + [r"\unknown", "|x", r"\left", "1..2", "5 \\text{ or more}", r"\text{a", "x__1", "\\", "'"],
)
def test_outside_the_grammar(text):
    with pytest.raises(Unparsable):
        parse(text)


@pytest.mark.parametrize(
    "text, reason",
    [
        ("", "empty"),
        ("$ $", "empty"),
        ("(" * 300 + ")" * 300, "too_deep"),
        ("\\sqrt{" * 60 + "2" + "}" * 60, "too_deep"),
        ("x+" * 1000, "too_long"),
        ("1" * 1300, "too_long"),
        ("?", "unparsable"),
    ],
)
def test_reasons(text, reason):
    with pytest.raises(Unparsable) as caught:
        parse(text)
    assert caught.value.reason == reason


def test_commas_in_brackets_part_members():
    assert parse("(1,234)") == ("tuple", "()", num(1), num(234))
    assert parse("1,234") == num(1234)
    assert parse(r"\{1,234\}") == ("set", num(1), num(234))
    assert parse("(1{,}234)") == num(1234)


def test_tokens():
    kinds = [kind for kind, _ in tokenize(r"2x+\frac{1}{2}\text{ cm}")]
    assert kinds == ["num", "name", "op", "cmd", "op", "num", "op", "op", "num", "op", "text"]
    assert tokenize("x**2")[1] == ("op", "^")
    assert tokenize("sqrt(2)")[0] == ("cmd", "usqrt")


def test_walk_meets_every_node():
    tree = parse("2x+y")
    assert {node[0] for node in walk(tree)} == {"add", "mul", "num", "sym"}
    assert list(children(tree)) == [("mul", TWO, X), Y]
