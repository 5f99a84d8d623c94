"""Answers in words: names, yes and no, choices.  Words do not commute, products of letters do."""

from __future__ import annotations

import re

from rlvr_jax.rewards.math_lex import KNOWN_NAMES
from rlvr_jax.rewards.math_spoken import spoken
from rlvr_jax.rewards.math_text import strip_text_commands, words

_WORDY = re.compile(r"[^\W\d_][^\W\d_'\- ,.&/]*(?:[ ,.&/'\-]+[^\W\d_'\- ,.&/]+)*")
_BEFORE = re.compile(r"(?:the\s+)?(?:correct\s+)?(?:option|choice|answer)\s*(?:is)?\s*:?\s+", re.I)
_AFTER = re.compile(r",?\s+(?:because|since)\b.*", re.IGNORECASE | re.DOTALL)
_CHOICE = re.compile(r"\(?([A-Z])\)?|\(([A-Z])\)\s*\S.*|([A-Z])[.):]\s*\S.*", re.DOTALL)
_LETTERS = re.compile(r"[A-Z]+(?:(?:\s*(?:,|;|&|and|or)\s*|\s+)[A-Z]+)*")
_SPOKEN = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2}")  # a word that is no command
_SYNONYMS = {
    "infinitely many": r"\infty",
    "infinity": r"\infty",
    "all real numbers": r"\mathbb{R}",
    "all reals": r"\mathbb{R}",
    "empty set": r"\emptyset",
    "the empty set": r"\emptyset",
    "no solution": r"\emptyset",
    "no solutions": r"\emptyset",
}


def as_words(text: str) -> str:
    """The text as lower-case words; "" if there is nothing to see."""
    return words(text)


def is_wordy(text: str) -> bool:
    r"""Whether a gold answer is to be compared as words.

    Letters only, and one of: written in ``\text{}``; several words; a run of three or more letters;
    a run of capitals (a ranking, a multiple choice).  Function names and single letters are not.
    """
    bare = " ".join(strip_text_commands(text).replace("\\ ", " ").replace("~", " ").split())
    if not _WORDY.fullmatch(bare):
        return False
    runs = re.findall(r"[^\W\d_]+", bare)
    if all(run.lower() in KNOWN_NAMES for run in runs):
        return False
    if "," in bare and all(len(run) == 1 for run in runs):
        return False  # a list of variables
    if bare == text and set(bare) & set("-/") and all(len(run) == 1 for run in runs):
        return False  # a - b
    if bare == text and len(bare) > 2 and bare in "abcdefghijklmnopqrstuvwxyz":
        return False  # abc is a product
    several = len(runs) > 1 and not all(len(run) == 1 for run in runs) and "," not in bare
    word = len(bare) >= 3 and not (bare.islower() and not set(bare) & set("aeiou"))
    return several or word or bare != text or (len(bare) > 1 and bare.isupper())


def words_match(answer: str, gold: str) -> bool | None:
    """Whether the answer names the same as a gold in words; None if the gold is no such thing."""
    bare = " ".join(strip_text_commands(gold).split()).strip("() ")
    if len(bare) == 1 and bare.isupper():
        return _choice(answer, bare)
    if synonym(gold) == synonym(answer) != "":
        return True
    if not is_wordy(gold):
        return None
    said, gold_said = words(answer), words(gold)
    if said == gold_said or _pair(said) == _pair(gold_said) != []:
        return True
    multi = bare.isupper() and bare.isalpha() and list(bare) == sorted(set(bare))
    if multi and len(bare) > 1:
        letters = _several(answer)
        return letters is not None and letters == list(bare)
    return None if synonym(gold) else False


def _pair(said: str) -> list[str]:
    """The two sorted sides of "Alice and Bob"; a longer list may be a ranking."""
    sides = said.split(" and ")
    return sorted(sides) if len(sides) == 2 and "," not in said else []


def synonym(text: str) -> str:
    """The LaTeX that a fixed phrase ("all real numbers", "twelve") stands for, or ""."""
    if text in _SYNONYMS.values():
        return text
    if not _SPOKEN.search(text):
        return ""
    said = words(text)
    number = spoken(said) if len(said) > 2 and not said.isdigit() else None
    if number is None:
        return _SYNONYMS.get(said, "")
    whole = number.denominator == 1
    return str(number) if whole else rf"\frac{{{number.numerator}}}{{{number.denominator}}}"


def _choice(answer: str, letter: str) -> bool | None:
    r"""B against ``B``, ``(B)``, ``B.``, ``\textbf{(B)}\ 12``; None leaves it to the parser."""
    bare = strip_text_commands(answer).replace("\\ ", " ").replace("~", " ").strip(" $.")
    bare = _AFTER.sub("", _BEFORE.sub("", bare, count=1), count=1)
    match = _CHOICE.fullmatch(bare)
    if not match:
        return None
    found = next(filter(None, match.groups()))
    rest = "" if match[1] else bare.replace(f"({found})", "", 1) if match[2] else bare[2:]
    if re.search(r"\b(or|and|not)\b|[A-Z]\)", rest, re.IGNORECASE):
        return False
    return found == letter


def _several(answer: str) -> list[str] | None:
    """The letters of "A, C", "A and C", "{A, C}", sorted; None for anything else."""
    bare = strip_text_commands(answer).replace("\\", " ").strip(" ${}()[].")
    if not _LETTERS.fullmatch(bare) or " or " in bare:
        return None
    letters = re.findall(r"[A-Z]", re.sub(r"\b(and|or)\b", " ", bare))
    parted = re.search(r"[ ,;&]", bare)
    return sorted(letters) if parted and len(set(letters)) == len(letters) else letters
