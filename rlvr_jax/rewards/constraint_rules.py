"""Instructions about the form of a text as checkable rules (the kind of IFEval, arXiv:2311.07911).

A rule is plain data: {"rule": name, ...its own keys}.  `holds(text, rule)` says whether the text
obeys it; a rule that does not exist or lacks a key is a ValueError, never a pass.

Departures from the reference checkers: words are whole words, never parts of longer ones (where
a script puts no blanks between words: any occurrence); a letter is the letter that was asked for;
what cannot be seen, or is only punctuation, counts as nothing; constraints of one kind may repeat.
"""

from __future__ import annotations

import json
import operator
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from rlvr_jax.registry import nearest
from rlvr_jax.rewards.format import SHAPES, shape_fault, visible

RELATIONS = {
    "at least": operator.ge,
    "at most": operator.le,
    "exactly": operator.eq,
    "less than": operator.lt,
    "more than": operator.gt,
}
SCRIPTS = {"zh": ("CJK",), "ja": ("CJK", "HIRAGANA", "KATAKANA"), "ko": ("HANGUL",)}
SCRIPTS |= dict.fromkeys(("ru", "uk", "bg", "sr"), ("CYRILLIC",))
SCRIPTS |= {"ar": ("ARABIC",), "fa": ("ARABIC",), "ur": ("ARABIC",), "he": ("HEBREW",)}
SCRIPTS |= {"el": ("GREEK",), "hi": ("DEVANAGARI",), "mr": ("DEVANAGARI",), "th": ("THAI",)}
SCRIPTS |= {"bn": ("BENGALI",), "ta": ("TAMIL",), "te": ("TELUGU",), "gu": ("GUJARATI",)}
_COMMON = {  # small words by which languages of one script are told apart
    "en": "the and of to is in that it for with as was are this we so then have not be by",
    "de": "der die das und ist nicht ein eine zu den von mit sich auf wir dann also dass es",
    "fr": "le la les et est des une un que pour dans nous ne pas ce qui sur donc avec du",
    "es": "el la los las y es que una un por para con no se del entonces como lo su en",
    "it": "il la che di e un una per con non si del della sono quindi lo gli nel come",
    "pt": "o a os as que e um uma para com não se do da então como por no na em",
    "nl": "de het een en van is dat niet te zijn met op voor we dus als er",
}
COMMON = {language: frozenset(words.split()) for language, words in _COMMON.items()}
SCRIPTS |= dict.fromkeys(COMMON, ("LATIN",))

_TAG = re.compile(r"</?\w+>")
_ASIDE = re.compile(  # bounded, so that openings that never close stay cheap
    r"```.*?(?:```|\Z)|`[^`\n]{0,500}`|\$\$.{0,500}?\$\$|\$[^$\n]{0,500}\$"
    r"|\\\(.{0,500}?\\\)|\\\[.{0,500}?\\\]|\\\w+",
    re.S,
)
_WORD = re.compile(r"\w+(?:['’-]\w+)*")
_JOINS = (  # a character by which a word would go on; not in scripts without blanks between words
    r"[^\W\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff"
    r"\uff66-\uff9f\U00020000-\U0003ffff]"
)
_RULER = str.maketrans("", "", "-*_+• \t")  # what a ruler across the page is made of
_SENTENCE = re.compile(r"[.!?]+(?=\s|$)|[。！？]+")

Rule = Mapping[str, Any]
_RULES: dict[str, Callable[[str, Rule], bool]] = {}


def rule(name: str) -> Callable:
    """Add a rule under this name."""

    def add(function: Callable[[str, Rule], bool]) -> Callable[[str, Rule], bool]:
        _RULES[name] = function
        return function

    return add


def holds(text: str, spec: Rule) -> bool:
    """Whether a text obeys a rule; a blank text obeys none.  ValueError for a faulty rule."""
    name = spec.get("rule") if isinstance(spec, Mapping) else None
    if name not in _RULES:
        hint = nearest(str(name), list(_RULES))
        raise ValueError(f"no rule {name!r}{hint} (there are: {', '.join(sorted(_RULES))})")
    try:
        obeys = _RULES[name](text, spec)
    except KeyError as error:
        raise ValueError(f'rule "{name}" needs {error}, got {dict(spec)!r:.80}') from None
    except (TypeError, AttributeError) as error:
        raise ValueError(f'rule "{name}": {error}, in {dict(spec)!r:.80}') from None
    return visible(text) and obeys


def words(text: str) -> list[str]:
    """The words of a text."""
    return [word for word in _WORD.findall(text) if word.strip("_-'’")]


def paragraphs(text: str) -> list[str]:
    """The pieces between blank lines (or lines of asterisks), blank ones left out."""
    pieces = re.split(r"\n[ \t]*(?:\*{3,}[ \t]*)?\n|^\*{3,}$", text, flags=re.M)
    return [piece.strip() for piece in pieces if visible(piece)]


def prose(text: str) -> str:
    """The text without tags, formulas and code."""
    return _ASIDE.sub(" ", _TAG.sub(" ", text))


def script_share(text: str, language: str) -> float:
    """Share of the letters outside tags, formulas and code that belong to the language's script;
    0 where there are no letters.  ValueError for a language without a known script."""
    if language not in SCRIPTS:
        known = sorted(SCRIPTS)
        raise ValueError(
            f'no language "{language}"{nearest(language, known)} (there are: {", ".join(known)})'
        )
    counts: Counter = Counter(char for char in prose(text) if char.isalpha())
    own = sum(n for c, n in counts.items() if unicodedata.name(c, "").startswith(SCRIPTS[language]))
    return own / counts.total() if counts else 0.0


def other_language(text: str, language: str) -> bool:
    """Whether the small words of another language of the same script clearly prevail; for Japanese,
    whether a dozen characters and more are next to all Chinese ones."""
    if language == "ja":
        letters = sum(char.isalpha() for char in prose(text))
        return letters >= 12 and script_share(text, "zh") > 0.95
    if language not in COMMON:
        return False
    seen = [word.lower() for word in words(prose(text))]
    hits = {name: sum(word in common for word in seen) for name, common in COMMON.items()}
    return max(hits.values()) >= max(3, 2 * hits[language] + 1)


def repeated_share(text: str, n: int) -> float:
    """1 - distinct / all n-grams of words (of letters where there are no blanks); 0 for less than
    two n-grams."""
    units = text.lower().split()
    if len(units) < 2 * n and len(text) > 20 * max(1, len(units)):
        units = [char for char in text if not char.isspace()]
    grams = [tuple(units[i : i + n]) for i in range(len(units) - n + 1)]
    return 1.0 - len(set(grams)) / len(grams) if len(grams) > 1 else 0.0


def _compare(count: int, spec: Rule) -> bool:
    relation = spec.get("relation", "exactly")
    if relation not in RELATIONS:
        raise ValueError(f'no relation "{relation}" (there are: {", ".join(RELATIONS)})')
    n = spec["n"]
    if not isinstance(n, int) or isinstance(n, bool) or n < 0:
        raise ValueError(f"n must be a whole number, got {n!r}")
    return RELATIONS[relation](count, n)


def _whole(phrase: str) -> str:
    """A pattern for the phrase where it is not part of a longer word."""
    before = rf"(?<!{_JOINS})" if re.match(_JOINS, phrase) else ""
    after = rf"(?!{_JOINS})" if re.match(_JOINS, phrase[-1:]) else ""
    return before + re.escape(phrase) + after


def _count_word(text: str, word: str) -> int:
    return len(re.findall(_whole(_some(word)), text, re.IGNORECASE))


def _listed(spec: Rule, key: str) -> list[str]:
    """A list of texts that must not be empty: nothing would hold for any text, one text for its
    letters."""
    if not isinstance(spec[key], list | tuple) or not spec[key]:
        raise ValueError(f"{key} must be a list that is not empty, got {spec[key]!r:.40}")
    return list(spec[key])


@rule("all_of")
def _all_of(text: str, spec: Rule) -> bool:
    return all([holds(text, inner) for inner in _listed(spec, "rules")])


for _shape in SHAPES:
    rule(_shape)(lambda text, spec, s=_shape: not shape_fault(text, s, spec.get("prefill", "")))

rule("no_comma")(lambda text, spec: not any(_is_comma(char) for char in set(text)))
rule("all_lower")(lambda text, spec: text.islower())
rule("all_upper")(lambda text, spec: text.isupper())
rule("keyword_count")(lambda text, spec: _compare(_count_word(text, spec["word"]), spec))
rule("keywords")(lambda text, spec: all([_count_word(text, w) for w in _listed(spec, "words")]))
rule("forbidden_words")(
    lambda text, spec: not any([_count_word(text, w) for w in _listed(spec, "words")])
)
rule("word_count")(lambda text, spec: _compare(len(words(text)), spec))
rule("sentence_count")(lambda text, spec: _compare(_sentences(text), spec))
rule("paragraph_count")(lambda text, spec: _compare(len(paragraphs(text)), spec))
rule("capital_words")(
    lambda text, spec: _compare(sum(w.isupper() and len(w) > 1 for w in words(text)), spec)
)
rule("highlights")(
    lambda text, spec: _compare(len(re.findall(r"\*{1,2}[^*\s][^*\n]*\*{1,2}", text)), spec)
)
rule("placeholders")(
    lambda text, spec: _compare(sum(map(visible, re.findall(r"\[([^\[\]\n]+)\]", text))), spec)
)
rule("title")(lambda text, spec: any(map(visible, re.findall(r"<<([^<>\n]+)>>", text))))
rule("quoted")(
    lambda text, spec: (
        bool(re.fullmatch(r'"[^"]+"', text.strip())) and visible(text.strip().strip('"'))
    )
)
rule("starts_with")(lambda text, spec: bool(_beginning(spec["text"]).match(text)))
rule("choice")(lambda text, spec: text.strip() in _listed(spec, "options"))


@rule("ends_with")
def _ends_with(text: str, spec: Rule) -> bool:
    text, end = text.rstrip(), _some(spec["text"])
    return text.endswith(end) and bool(re.compile(_whole(end)).match(text, len(text) - len(end)))


@rule("repeat_prompt")
def _repeat_prompt(text: str, spec: Rule) -> bool:
    """The prompt word for word, then an answer: more than the prompt again and punctuation."""
    prompt, at = _beginning(spec["prompt"]), 0
    while start := prompt.match(text, at):
        at = start.end()
    return at > 0 and any(visible(c) and unicodedata.category(c)[0] != "P" for c in text[at:])


def _beginning(phrase: str) -> re.Pattern:
    return re.compile(r"\s*" + _whole(_some(phrase)))


def _is_comma(char: str) -> bool:
    return unicodedata.category(char) == "Po" and "COMMA" in unicodedata.name(char, "")


def _some(text: str) -> str:
    if not visible(text):
        raise ValueError("the text to look for is blank")
    return text.strip()


def _sentences(text: str) -> int:
    return sum(any(char.isalnum() for char in piece) for piece in _SENTENCE.split(text))


@rule("letter_count")
def _letter_count(text: str, spec: Rule) -> bool:
    letter = spec["letter"]
    if not isinstance(letter, str) or len(letter) != 1:
        raise ValueError(f'rule "letter_count": letter must be one character, got {letter!r}')
    return _compare(text.lower().count(letter.lower()), spec)


@rule("bullets")
def _bullets(text: str, spec: Rule) -> bool:
    items = re.findall(r"^[ \t]*(?:[-+•]|\*(?!\*))[ \t]+(\S[^\n]*)", text, re.M)
    return _compare(sum(visible(item.translate(_RULER)) for item in items), spec)


@rule("sections")
def _sections(text: str, spec: Rule) -> bool:
    return _compare(len(re.findall(_whole(_some(spec["word"])) + r"\s+\w+", text)), spec)


@rule("postscript")
def _postscript(text: str, spec: Rule) -> bool:
    mark = re.escape(_some(spec.get("mark", "P.S.")))
    return bool(re.search(rf"^[ \t]*{mark}[^\n]*?[^\W_]", text, re.M | re.IGNORECASE))


@rule("nth_paragraph_first_word")
def _first_word(text: str, spec: Rule) -> bool:
    pieces = paragraphs(text)
    if not 1 <= spec["nth"] <= spec["paragraphs"]:
        raise ValueError(f"there is no paragraph {spec['nth']} of {spec['paragraphs']}")
    if len(pieces) != spec["paragraphs"]:
        return False
    first = words(pieces[spec["nth"] - 1])[:1]
    return [w.lower() for w in first] == [spec["word"].lower()]


@rule("json")
def _json(text: str, spec: Rule) -> bool:
    body = re.fullmatch(r"\s*```(?:json)?\s*\n(.*)\n\s*```\s*", text, re.S | re.IGNORECASE)
    try:
        json.loads(body[1] if body else text, parse_constant=_no_json)
    except (ValueError, RecursionError):
        return False
    return True


def _no_json(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


@rule("language")
def _language(text: str, spec: Rule) -> bool:
    share, least = script_share(text, spec["lang"]), spec.get("min_share", 0.9)
    return share > 0 and share >= least and not other_language(text, spec["lang"])


@rule("no_repetition")
def _no_repetition(text: str, spec: Rule) -> bool:
    if spec["ngram"] < 1:
        raise ValueError(f"ngram must be positive, got {spec['ngram']}")
    return repeated_share(text, spec["ngram"]) <= spec["max_fraction"]
