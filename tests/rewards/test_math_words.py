import pytest

from rlvr_jax.rewards.math_form import expanded, has_i, is_constant, left_undone, undone
from rlvr_jax.rewards.math_labels import expand, label, members
from rlvr_jax.rewards.math_parse import parse
from rlvr_jax.rewards.math_text import fold
from rlvr_jax.rewards.math_words import is_wordy, synonym, words_match


def tree(text):
    return parse(fold(text))


@pytest.mark.parametrize(
    "text, wordy",
    [
        (r"\text{Evelyn}", True),
        ("Evelyn", True),
        ("no solution", True),
        (r"\text{A}", True),
        ("ABC", True),
        ("abc", False),  # a product
        ("cab", True),
        ("xyz", False),
        ("ab", False),
        ("x", False),
        ("sin", False),
        ("pi", False),
        ("x+y", False),
        ("a, b", False),
        (r"\text{red, blue}", True),
        ("12", False),
        ("", False),
    ],
)
def test_golds_in_words(text, wordy):
    assert is_wordy(text) == wordy


@pytest.mark.parametrize(
    "answer, gold, match",
    [
        (r"\text{evelyn}", "Evelyn", True),
        ("Evan", "Evelyn", False),
        ("CAB", "ABC", False),
        ("A, B, C", "ABC", True),
        ("(B)", "B", True),
        ("B) twelve", "B", True),
        (r"\textbf{(B)}\ 12", "B", True),
        ("(A) or (B)", "B", False),
        ("option B", "B", True),
        ("B because A is false", "B", True),
        ("C", "B", False),
        ("2.718", "E", None),
        ("x+y", "z+1", None),
        (r"\infty", "infinitely many", True),
        (r"\emptyset", "empty set", True),
    ],
)
def test_words_match(answer, gold, match):
    assert words_match(fold(answer), fold(gold)) is match


def test_synonyms():
    assert synonym(r"\text{All real numbers}") == r"\mathbb{R}"
    assert synonym("seven") == "7" and synonym(r"\text{two thirds}") == r"\frac{2}{3}"
    assert synonym("seventh heaven") == synonym("7") == ""


@pytest.mark.parametrize(
    "text, kinds",
    [
        ("7", set()),
        (r"\frac{14}{3}", set()),
        (r"3.2\times10^5", set()),
        (r"2\sqrt3", {"root"}),
        ("2+3i", set()),
        ("x^2+2x", set()),
        ("3+4", {"sum of numbers"}),
        ("x+1+2", {"sum of numbers"}),
        (r"4\cdot6", {"product of numbers"}),
        (r"\sqrt2\sqrt3", {"root", "product of roots"}),
        ("2^{10}", {"power"}),
        ("x^0", {"power"}),
        (r"\sqrt{16}", {"exact root"}),
        (r"\frac{12}{6}", {"quotient"}),
        ("5!", {"factorial"}),
        (r"\sin x", {"trig"}),
        (r"\log_2 8", {"log"}),
        (r"\frac1i", {"complex quotient"}),
        (r"e^{i\pi}", {"cis"}),
        ("e^2", set()),
        (r"\begin{vmatrix}1&2\\3&4\end{vmatrix}", {"determinant"}),
        (r"\sum_{k=1}^{3} k", {"big sum"}),
        (r"\{1\}\cup\{2\}", {"set operation"}),
    ],
)
def test_undone(text, kinds):
    assert undone(tree(text)) == kinds


def test_left_undone_is_relative_to_the_gold():
    assert left_undone(tree("2^{10}"), tree("1024")) == {"power"}
    assert not left_undone(tree("2^{4^8}"), tree("2^{65536}"))
    assert not left_undone(tree(r"\sqrt2 e^{i\pi/4}"), tree("1+i"))
    assert not left_undone(tree(r"2\sin x\cos x"), tree(r"\sin 2x"))


def test_factored():
    assert expanded(tree("x^2-5x+6"), tree("(x-2)(x-3)"))
    assert expanded(tree("x^2+2x+1"), tree("(x+1)^2"))
    assert not expanded(tree("(x-3)(x-2)"), tree("(x-2)(x-3)"))
    assert expanded(tree("x^2+x"), tree("x(x+1)"))
    assert expanded(tree("x^3+x^2"), tree("x^2(x+1)"))
    assert not expanded(tree("n^2+n"), tree("n(n+1)"))
    assert expanded(tree("2(x^2-1)"), tree("2(x+1)(x-1)"))
    assert not expanded(tree("(2x+2)(x-1)"), tree("2(x+1)(x-1)"))
    assert not expanded(tree("2x+2"), tree("2(x+1)"))
    assert has_i(tree("2+3i")) and not has_i(tree("2+x"))
    assert is_constant(tree(r"\sqrt2+\pi")) and not is_constant(tree("2x"))


@pytest.mark.parametrize(
    "text, name, value",
    [
        ("x=5", "x", "5"),
        ("5=x", "x", "5"),
        ("f(x)=x^2", "f(x)", "x^2"),
        (r"\text{Area}=5", r"\text{Area}", "5"),
    ],
)
def test_label(text, name, value):
    assert label(tree(text)) == (tree(name), tree(value))


@pytest.mark.parametrize("text", ["x=x+1", "2x=10", "x<5", "x=y=5", "5"])
def test_no_label(text):
    assert label(tree(text)) is None


@pytest.mark.parametrize(
    "text, found",
    [
        ("1,2", ["1", "2"]),
        ("n=2, 3", ["2", "3"]),
        (r"x=2 \text{ or } x=3", ["2", "3"]),
        ("x=2, y=3", ["x=2", "y=3"]),
        (r"\{1,2\}", ["1", "2"]),
        ("5", None),
        ("(1,2)", None),
    ],
)
def test_members(text, found):
    assert members(tree(text)) == (found if found is None else [tree(part) for part in found])


def test_plus_minus():
    assert len(expand(tree(r"1\pm\sqrt2"))) == 2
    assert len(expand(tree(r"\pm1\pm\sqrt2"))) == 4
    assert expand(tree(r"x\pm1")) == [tree("x+1"), tree("x-1")]
    assert expand(tree(r"\pm1\mp y")) == [
        ("add", tree("1"), ("neg", tree("y"))),
        ("add", ("neg", tree("1")), tree("y")),
    ]
    assert expand(tree("7")) == [tree("7")]
