import pytest

from rlvr_jax.rewards.math_text import compact, fold, strip_text_commands, unbox, undress, words


@pytest.mark.parametrize(
    "text, folded",
    [
        ("−5", "-5"),
        ("– 5", "- 5"),
        ("１２", "12"),
        ("x²", "x^{2}"),
        ("x⁻¹⁰", "x^{-10}"),
        ("x₁₂", "x_{12}"),
        ("½", r"\frac{1}{2}"),
        ("2¾", r"2\frac{3}{4}"),
        ("60°", r"60^{\circ}"),
        ("√2", r"\usqrt 2"),
        ("∛2", r"\sqrt[3]2"),
        ("2×3", r"2\times 3"),
        ("π", r"\pi"),
        ("θ", r"\theta"),
        ("ℝ", r"\mathbb{R}"),
        ("3.2 x 10^5", r"3.2\times 10^5"),
        (r"\left(1,2\right)", "(1,2)"),
        (r"\left\{1\right\}", r"\{1\}"),
        (r"\left|x\right|", r"\lvert x\rvert"),
        (r"\left.x\right|", r"x\rvert"),
        (r"\displaystyle \frac12", r"\frac12"),
        (r"\bigl(1\bigr)", "(1)"),
        (r"\boxed{7}", "7"),
        (r"\frac{\text{m}}{\text{s}}", r"\text{m/s}"),
        ("$7$", "7"),
        (r"\(7\)", "7"),
        (r"\[ 7 \]", "7"),
        ("**7**", "7"),
        ("= 7.", "7"),
        ("7.;,", "7"),
        ("1, 2, ...", "1, 2, ..."),
        (r"7\ ", "7"),
        ("", ""),
    ],
)
def test_fold(text, folded):
    assert fold(text).strip() == folded


def test_fold_is_stable():
    for text in ("½ x² √2", r"\left(\boxed{1}, 2\right)", "$$ 3 $$"):
        assert fold(fold(text)) == fold(text)


def test_unbox_leaves_open_boxes():
    assert unbox(r"\boxed{1") == r"\boxed{1"
    assert unbox(r"a \boxed{x=\fbox{2}} b").split() == ["a", "x=", "2", "b"]


def test_undress_keeps_an_escaped_row_break():
    assert undress("a\\\\") == "a\\\\"
    assert undress('"a"') == "a"


@pytest.mark.parametrize(
    "a, b",
    [
        (r"\frac{ 1 }{ 2 }", r"\dfrac{1}{2}"),
        (r"x \, + \; y", "x+y"),
        ("2 x", "2x"),
        (r"\cos  x", r"\cos x"),
    ],
)
def test_compact_drops_needless_blanks(a, b):
    assert compact(fold(a)) == compact(fold(b))


@pytest.mark.parametrize("a, b", [("4 2", "42"), ("a b", "ab"), (r"\cos x", r"\cosx")])
def test_compact_keeps_the_blanks_that_matter(a, b):
    assert compact(a) != compact(b)


def test_words():
    assert words(r"\text{ Not  Enough} \textbf{Information}.") == "not enough information"
    assert words("$$") == ""
    assert strip_text_commands(r"\text{a \mathrm{b}}") == "a b"
    assert strip_text_commands(r"\text{a") == r"\text{a"
