"""Constraints, language, repetition."""

import pathlib
import time

import pytest

from rlvr_jax.audit import audit, load_cases, make_verifier
from rlvr_jax.rewards.constraint_rules import (
    holds,
    other_language,
    paragraphs,
    repeated_share,
    script_share,
)
from rlvr_jax.rewards.constraints import Constraints, Language, Repetition
from rlvr_jax.types import Completion, Problem

CASES = (
    pathlib.Path(__file__).resolve().parents[2] / ".." / "shared" / "spec" / "verifier_cases.jsonl"
)
# Cases on which sound graders differ, and what is decided here.
DECIDED = {
    "format-ifeval-06": False,  # a keyword is a whole word
    "format-ifeval-08": False,
    "format-ifeval-10": False,  # the letter that was asked for
    "format-ifeval-11": False,  # two constraints of one kind both count
    "format-ifeval-14": True,  # blank paragraphs do not count
    "format-lang-03": False,  # nine tenths of the letters must be the language's
    "format-tags-02": True,  # newlines around the tags are free
    "format-tags-03": True,
    "format-tags-07": False,  # thoughts must not be blank
    "format-tags-08": False,
    "format-tags-18": True,
    "format-tags-21": True,  # what the prompt opened counts
}


def problem(*rules):
    return Problem(prompt="?", answer="", index=0, meta={"rules": list(rules)})


def test_cases():
    if not CASES.exists():
        pytest.skip("the verifier cases are not on this machine")
    for finding in audit(load_cases(str(CASES), ["format"]), make_verifier("constraints")):
        case = finding.case
        want = DECIDED[case.id] if case.convention else case.expected
        assert (finding.says == "right") == want, (case.id, finding.verdict)


HOLDS = [
    ({"rule": "no_comma"}, "a b", "a, b"),
    ({"rule": "no_comma"}, "a b", "甲，乙"),
    ({"rule": "no_comma"}, "Hawaiʻi", "a﹐b"),
    ({"rule": "all_lower"}, "abc 1", "Abc"),
    ({"rule": "all_lower"}, "straße", "你好"),
    ({"rule": "all_lower"}, "abc", "𝐀bc"),
    ({"rule": "keywords", "words": ["猫"]}, "我爱猫咪。", "我爱狗。"),
    ({"rule": "forbidden_words", "words": ["猫"]}, "我爱狗。", "我爱猫咪。"),
    ({"rule": "word_count", "relation": "at least", "n": 2}, "a b", "a ___ _-_"),
    ({"rule": "sentence_count", "relation": "at least", "n": 2}, "A. B.", "A. - . -- !"),
    ({"rule": "paragraph_count", "n": 2}, "a\n\nb", "a\n\n\u200b"),
    ({"rule": "placeholders", "n": 1}, "[a]", "[ ]"),
    ({"rule": "title"}, "<<a>>", "<<\u200b>>"),
    ({"rule": "quoted"}, '"a"', '" "'),
    ({"rule": "starts_with", "text": "Yes"}, " Yes, sir", "Yesterday"),
    ({"rule": "starts_with", "text": "好"}, "好的", "不好"),
    ({"rule": "ends_with", "text": "end"}, "the end", "the weekend"),
    ({"rule": "ends_with", "text": "(end)"}, "the (end)", "the end"),
    ({"rule": "repeat_prompt", "prompt": "Name a colour."}, "Name a colour. Blue.", "Blue."),
    ({"rule": "repeat_prompt", "prompt": "Name a colour."}, "Name a colour.红", "Name a colour."),
    ({"rule": "repeat_prompt", "prompt": "Say hi."}, "Say hi. Say hi. hi", "Say hi. Say hi. ..."),
    ({"rule": "repeat_prompt", "prompt": "Go on"}, "Go on: x", "Go only"),
    ({"rule": "repeat_prompt", "prompt": "Go on"}, "Go on 🙂", "Go on\u200b."),
    ({"rule": "bullets", "n": 1}, "- a\n* * *\n- - -", "* * *"),
    ({"rule": "bullets", "n": 1}, "- -5", "- \u200b"),
    ({"rule": "postscript"}, "P.S. y", "P.S. ..."),
    ({"rule": "json"}, '{"a": 1}', '{"a": NaN}'),
    (
        {"rule": "language", "lang": "ja"},
        "東京と大阪は日本の都市です。",
        "东京和大阪都是日本的大城市。",
    ),
    ({"rule": "language", "lang": "en", "min_share": 0}, "fine", "12345"),
    ({"rule": "all_upper"}, "ABC 1", "1 2"),
    ({"rule": "keywords", "words": ["art", "war"]}, "Art of war", "art forward"),
    ({"rule": "forbidden_words", "words": ["war"]}, "forward", "no War!"),
    ({"rule": "keyword_count", "word": "a+b", "n": 1}, "is a+b ok", "aab"),
    ({"rule": "letter_count", "letter": "e", "relation": "more than", "n": 1}, "Ee", "e"),
    ({"rule": "word_count", "relation": "less than", "n": 3}, "don't stop", "a b c"),
    ({"rule": "sentence_count", "n": 2}, "One. Two!", "One. Two. Three"),
    ({"rule": "paragraph_count", "n": 2}, "a\n\n\n\nb", "a\nb"),
    ({"rule": "paragraph_count", "n": 2}, "a\n***\nb", "a b"),
    ({"rule": "capital_words", "relation": "at most", "n": 1}, "THE end I", "THE END"),
    ({"rule": "highlights", "n": 2}, "*a* and **b c**", "*a* and * b"),
    ({"rule": "placeholders", "relation": "at least", "n": 1}, "Dear [name]", "Dear []"),
    ({"rule": "title"}, "<<My day>>\nx", "<< >> x"),
    ({"rule": "quoted"}, '"all of it"', '"a" and "b"'),
    ({"rule": "starts_with", "text": "Yes"}, "Yes.", "No. Yes"),
    ({"rule": "ends_with", "text": "end."}, "the end.  ", "end. not"),
    ({"rule": "choice", "options": ["yes", "no"]}, " yes\n", "yes and no"),
    ({"rule": "bullets", "relation": "at least", "n": 2}, "- a\n+ b", "**a**\n*b*"),
    ({"rule": "sections", "word": "Part", "n": 2}, "Part 1 x Part 2", "Part 1"),
    ({"rule": "postscript"}, "x\nP.S. y", "x\nP.S."),
    ({"rule": "json"}, '```json\n{"a": 1}\n```', "{a: 1}"),
    ({"rule": "language", "lang": "fr"}, "la vie est dans le jardin", "the life is in the garden"),
    ({"rule": "language", "lang": "en"}, "so $x$ is `für` ok", "это не английский"),
    ({"rule": "no_repetition", "ngram": 2, "max_fraction": 0.2}, "a b c d", "a b a b a b a b"),
    ({"rule": "think_boxed"}, r"<think>a</think>\boxed{7}", r"<think>a</think>\boxed{}"),
    (
        {"rule": "nth_paragraph_first_word", "paragraphs": 1, "nth": 1, "word": "One"},
        "one thing",
        "two things",
    ),
]


@pytest.mark.parametrize("rule, good, bad", HOLDS)
def test_rules(rule, good, bad):
    assert holds(good, rule) and not holds(bad, rule)
    assert not any(holds(blank, rule) for blank in ("", " \n", "\u200b", "\ufeff\u3164"))


@pytest.mark.parametrize(
    "rule, says",
    [
        ({"rule": "no_coma"}, 'did you mean "no_comma"'),
        ({}, "no rule None"),
        ("no_comma", "no rule None"),
        ({"rule": "word_count"}, "needs 'n'"),
        ({"rule": "word_count", "n": 1, "relation": "about"}, "no relation"),
        ({"rule": "word_count", "n": "1"}, "whole number"),
        ({"rule": "word_count", "n": True}, "whole number"),
        ({"rule": "keywords", "words": "some"}, "words must be a list"),
        ({"rule": "keywords", "words": []}, "words must be a list"),
        ({"rule": "keywords", "words": [""]}, "blank"),
        ({"rule": "forbidden_words", "words": []}, "words must be a list"),
        ({"rule": "choice", "options": "some text"}, "options must be a list"),
        ({"rule": "postscript", "mark": ""}, "blank"),
        ({"rule": "letter_count", "letter": "ab", "n": 1}, "one character"),
        ({"rule": "all_of", "rules": []}, "rules must be a list"),
        ({"rule": "ends_with", "text": " "}, "blank"),
        ({"rule": "language", "lang": "xx"}, "no language"),
        ({"rule": "no_repetition", "ngram": 0, "max_fraction": 0}, "positive"),
        (
            {"rule": "nth_paragraph_first_word", "paragraphs": 1, "nth": 2, "word": "a"},
            "no paragraph",
        ),
    ],
)
def test_faulty_rules_never_pass(rule, says):
    with pytest.raises(ValueError, match=says):
        holds("some text", rule)
    verdict = Constraints()(Completion(text="some text"), problem(rule))
    assert (verdict.status, verdict.correct) == ("unknown", False)


def test_all_or_share():
    rules = ({"rule": "no_comma"}, {"rule": "all_lower"}, {"rule": "no_comma"})
    text = Completion(text="<think>A, b</think>Abc")
    whole = Constraints()(text, problem(*rules))
    assert (whole.status, whole.score, whole.reason) == ("wrong", 0.0, "broke_all_lower")
    share = Constraints(partial=True)(text, problem(*rules))
    assert share.score == pytest.approx(2 / 3) and not share.correct
    assert Constraints()(Completion(text="abc"), problem(*rules)).correct
    assert Constraints()(text, problem()).status == "unknown"
    for rules_ in ("no_comma", 3, {"rule": "no_comma"}):
        odd = Problem(prompt="?", answer="", index=0, meta={"rules": rules_})
        assert Constraints()(text, odd).status == "unknown"
    assert Constraints()(Completion(text="a" * 200_000), problem(*rules)).reason == "too_long"


@pytest.mark.parametrize(
    "piece",
    ["\\(", "\\[", "$", "$$", "`", "```", "<<", '"', "\n", "P.S.", "*", "[", "<a", "ab ", "-"],
)
def test_no_text_takes_long(piece):
    text = piece * (90_000 // len(piece))
    start = time.monotonic()
    for rule, _, _ in HOLDS:
        holds(text, rule)
    assert time.monotonic() - start < 20


def test_language():
    assert script_share("", "en") == 0.0 and script_share("七 7", "zh") == 1.0
    assert script_share("ひらがな カタカナ 漢字", "ja") == 1.0
    assert other_language("der Hund ist nicht das Haus und die Katze", "en")
    assert not other_language("x = 3", "en") and not other_language("der die das und", "ru")
    ask = problem()
    half = Language(language="ru", min_share=0.4)(Completion(text="три abc"), ask)
    assert half.score == 0.5 and half.parts == {"language": 0.5}
    assert Language()(Completion(text="der Hund ist nicht das"), ask).reason == "other_language"
    with pytest.raises(ValueError, match="no language"):
        Language(language="klingon")
    with pytest.raises(ValueError, match="min_share"):
        Language(min_share=2.0)


def test_repetition():
    assert repeated_share("loop", 4) == 0.0 and repeated_share("a a a a a", 2) == 0.75
    assert repeated_share("好好好好好好好好好好好好好好好好好好好好好好好好好", 4) > 0.9
    verdict = Repetition(ngram=2, penalty=2.0)(Completion(text="a a a a a"), problem())
    assert verdict.score == -1.5 and verdict.parts == {"repeated": 0.75}
    with pytest.raises(ValueError, match="ngram >= 1"):
        Repetition(ngram=0)


def test_paragraphs():
    assert paragraphs("\n\na\n \nb\n") == ["a", "b"]
