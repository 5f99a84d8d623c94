r"""Mathematical text before parsing: unicode folded to LaTeX, dress taken off, words normalised.

Everything here is linear in the length of the text, which callers bound by `MAX_CHARS`.
"""

from __future__ import annotations

import re
import unicodedata

from rlvr_jax.rewards.extract import closing_brace
from rlvr_jax.rewards.math_present import plain

MAX_CHARS = 20_000  # beyond this an answer is wrong unread

_SYMBOLS = {
    **dict.fromkeys("−–—‐‑﹣", "-"),
    **dict.fromkeys("×✕⨯", r"\times "),
    **dict.fromkeys("·⋅∙•", r"\cdot "),
    **dict.fromkeys("\u2009\u202f\u00a0\u2007", r"\,"),
    "÷": r"\div ",
    "∕": "/",
    "⁄": "/",
    "±": r"\pm ",
    "∓": r"\mp ",
    "√": r"\usqrt ",
    "∛": r"\sqrt[3]",
    "∜": r"\sqrt[4]",
    "∞": r"\infty ",
    "≤": r"\le ",
    "⩽": r"\le ",
    "≥": r"\ge ",
    "⩾": r"\ge ",
    "≠": r"\ne ",
    "≈": r"\approx ",
    "≡": r"\equiv ",
    "∈": r"\in ",
    "∉": r"\notin ",
    "∪": r"\cup ",
    "∩": r"\cap ",
    "∖": r"\setminus ",
    "∅": r"\emptyset ",
    "ℝ": r"\mathbb{R}",
    "ℤ": r"\mathbb{Z}",
    "ℕ": r"\mathbb{N}",
    "ℚ": r"\mathbb{Q}",
    "ℂ": r"\mathbb{C}",
    **dict.fromkeys("°º", r"^{\circ}"),
    "′": "'",
    "’": "'",
    "…": r"\ldots ",
    "⋯": r"\ldots ",
    "∑": r"\sum ",
    "∏": r"\prod ",
    "∫": r"\int ",
    "⟨": r"\langle ",
    "⟩": r"\rangle ",
    "⌊": r"\lfloor ",
    "⌋": r"\rfloor ",
    "⌈": r"\lceil ",
    "⌉": r"\rceil ",
    "∴": r"\therefore ",
    "⇒": r"\Rightarrow ",
    **dict.fromkeys("∎■□✓✔", r"\square "),
    "¢": r"\text{ cents}",
    "∨": r"\lor ",
    "∧": r"\land ",
    "\u200b": "",
    "\ufeff": "",
    "\u2061": "",
}
_GREEK_NAMES = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau "
    "upsilon phi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega phi theta "
    "epsilon mu"
)
_GREEK = dict(
    zip(
        "αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΦΨΩϕϑϵµ",
        _GREEK_NAMES.split(),
        strict=True,
    )
)
_SUPER = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿⁱ", "0123456789+-()ni", strict=True))
_SUB = dict(zip("₀₁₂₃₄₅₆₇₈₉₊₋₍₎", "0123456789+-()", strict=True))
_TABLE = str.maketrans(_SYMBOLS | {k: rf"\{v} " for k, v in _GREEK.items()})
_RUNS = re.compile(f"([{''.join(_SUPER)}]+)|([{''.join(_SUB)}]+)|([¼-¾⅐-⅞])")
_ENCLOSED = re.compile(
    "[\u2460-\u24ff\u2776-\u2793\u3200-\u32ff\U0001f100-\U0001f1ff]"
)  # circled digits

_SIZES = re.compile(
    r"\\(?:left|right|[bB]igg?[lrm]?|displaystyle|textstyle|limits|nolimits)(?![A-Za-z])\s*"
)
_TIMES_TEN = re.compile(r"(\d)\s*[xX]\s*10\s*\^")
_BARS = re.compile(r"\\left\s*(?:\||\\vert(?![A-Za-z]))|\\right\s*(?:\||\\vert(?![A-Za-z]))")
_DRESS_PAIRS = ((r"\(", r"\)"), (r"\[", r"\]"), ("**", "**"), ("`", "`"), ('"', '"'))
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")


def _run(match: re.Match) -> str:
    if match[1]:
        return "^{" + "".join(_SUPER[c] for c in match[1]) + "}"
    if match[2]:
        return "_{" + "".join(_SUB[c] for c in match[2]) + "}"
    top, _, bottom = unicodedata.normalize("NFKC", match[3]).partition("⁄")
    return rf"\frac{{{top}}}{{{bottom}}}"


def fold(text: str) -> str:
    r"""Unicode mathematics as LaTeX; sizes (``\left``, ``\displaystyle``) and boxes removed."""
    if not text.isascii():
        text = _RUNS.sub(_run, text)
        text = _ENCLOSED.sub(lambda m: f"({unicodedata.normalize('NFKC', m[0]).strip('()')})", text)
        text = unicodedata.normalize("NFKC", text.translate(_TABLE)).translate(_TABLE)
    if "x" in text:
        text = _TIMES_TEN.sub(r"\1\\times 10^", text)
    text = plain(text)
    if "\\" not in text:
        return undress(text)
    text = _BARS.sub(lambda m: r"\lvert " if m[0][1] == "l" else r"\rvert ", text)
    text = re.sub(r"\\(?:left|right)\s*\.(?!\d)", " ", text)
    text = _SIZES.sub("", text)
    text = _UNIT_FRACTION.sub(r"\\text{\1/\2}", text)
    return undress(unbox(text))


def unbox(text: str) -> str:
    """Boxes inside the text replaced by their contents."""
    for _ in range(8):
        match = _BOX.search(text)
        if not match:
            return text
        end = closing_brace(text, match.end())
        if end < 0:
            return text
        text = f"{text[: match.start()]} {text[match.end() : end]} {text[end + 1 :]}"
    return text


def undress(text: str) -> str:
    """Math delimiters, emphasis, quotes, a leading "=" and final punctuation taken off."""
    while True:
        before = text
        text = text.strip().strip("$").strip()
        for left, right in _DRESS_PAIRS:
            if len(text) > len(left) and text.startswith(left) and text.endswith(right):
                text = text[len(left) : -len(right)]
        if text.endswith((".", ",", ";", ":")) and not text.endswith(".."):
            text = text[:-1]
        if text.endswith("\\") and not text.endswith("\\\\"):
            text = text[:-1]
        text = text.removeprefix("=")
        if text == before:
            return text


_SPACE = re.compile(r"\\[,;:! ]|\\q?quad(?![A-Za-z])|~|\s+")
_NEEDLESS = re.compile(r"(?<![A-Za-z0-9]) | (?![A-Za-z0-9])|(?<=\d) (?!\d)|(?<!\d) (?=\d)")
_UNIT_FRACTION = re.compile(
    r"\\[dtc]?frac\s*\{\s*\\(?:text|mathrm)\{\s*([A-Za-z ]+?)\s*\}\s*\}"
    r"\s*\{\s*\\(?:text|mathrm)\{\s*([A-Za-z ]+?)\s*\}\s*\}"
)
_FRAC = re.compile(r"\\[dtc]frac(?![A-Za-z])")


def compact(text: str) -> str:
    """The folded text without needless blanks: equal strings are equal answers."""
    text = _FRAC.sub(r"\\frac", text)
    text = _SPACE.sub(" ", text)
    return _NEEDLESS.sub("", text)


_TEXT_CMD = re.compile(
    r"\\(?:text(?:bf|rm|it|tt|sf|sc|up|normal)?|mathrm|mathtt|hbox|mathbf|mathit|mathsf|mbox|operatorname)\*?\s*\{"
)


def strip_text_commands(text: str) -> str:
    r"""``\text{...}`` and its kin replaced by their contents."""
    for _ in range(40):
        match = _TEXT_CMD.search(text)
        if not match:
            return text
        end = closing_brace(text, match.end())
        if end < 0:
            return text
        text = text[: match.start()] + text[match.end() : end] + text[end + 1 :]
    return text


def words(text: str) -> str:
    """Text for people as one line of lower-case words; punctuation at the ends dropped."""
    text = strip_text_commands(text)
    text = _SPACE.sub(" ", text).replace("$", "").replace("*", "").replace(",", ", ")
    return " ".join(text.casefold().split()).strip(" .,;:!?\"'")
