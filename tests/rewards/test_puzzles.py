"""Knights and knaves, GeneralPoints, lists, and answers of reasoning-gym."""

import json
import pathlib
import sys
import types

import pytest

from rlvr_jax.audit import audit, load_cases, make_verifier
from rlvr_jax.rewards import grade_all
from rlvr_jax.rewards.countdown import Countdown
from rlvr_jax.rewards.generalpoints import GeneralPoints, formula_of
from rlvr_jax.rewards.knights import Knights, read_roles
from rlvr_jax.rewards.reasoning_gym import ReasoningGym
from rlvr_jax.rewards.sequence import Sequence, items
from rlvr_jax.types import Completion, Problem

CASES = (
    pathlib.Path(__file__).resolve().parents[2] / ".." / "shared" / "spec" / "verifier_cases.jsonl"
)
# Cases on which sound graders differ, and what is decided here.
DECIDED = {
    "countdown-arith-02": True,  # "= target" may follow the expression
    "countdown-arith-05": False,  # every number exactly once
    "countdown-arith-20": True,  # a leading minus is arithmetic
    "countdown-arith-28": True,  # the last answer tag counts
    "countdown-arith-29": True,  # text after the tag is harmless
    "countdown-arith-35": False,  # no implicit product
    "countdown-arith-37": False,  # ASCII digits only
    "logic-kk-10": True,  # "Zoey: knight" is a statement
    "logic-kk-18": True,  # saying the same twice is harmless
    "logic-kk-19": False,  # a conditional states nothing
}
TWO = {"Zoey": "knight", "Oliver": "knave"}


@pytest.mark.parametrize("kind", ["countdown", "logic"])
def test_cases(kind):
    if not CASES.exists():
        pytest.skip("the verifier cases are not on this machine")
    for finding in audit(load_cases(str(CASES), [kind]), make_verifier("auto")):
        case = finding.case
        want = DECIDED[case.id] if case.convention else case.expected
        assert finding.says == ("right" if want else "wrong"), (case.id, finding.verdict)


@pytest.mark.parametrize(
    "text",
    [
        "Zoey is a knight and Oliver is a knave.",
        "Zoey is a knight; Oliver is not a knight",
        "Zoey isn't a knave, Oliver isn't a knight",
        "**Zoey**: knight\n**Oliver**: knave",
        '{"Zoey": "knight", "Oliver": "knave"}',
        "Zoey = Knight, Oliver = Knave",
        "| Zoey | knight |\n| Oliver | knave |",
        "- Zoey - knight\n- Oliver -> knave",
        "Zoey (knight), Oliver (knave)",
        "zoey is the knight, oliver is the knave",
        "Zoey is a knight while Oliver is a knave",
        "Zoey is a knight, Oliver a knave",
        "Zoey, a knight; Oliver, a knave",
        "Zoey's a knight. Therefore Oliver is a knave!",
        "Zoey is a Knight (truth teller), Oliver is a Knave (liar)",
        "Zoey is a knight because Oliver is a knave",
        "The final answer is:\n1. **Zoey** is a **knight**.\n2. **Oliver** is a **knave**.",
        "Zoey says Oliver is a knave; so Zoey is a knight; Oliver is a knave",
        r"\text{Zoey is a \textbf{knight}, Oliver is a knave}",
        "Zoey is a knight and tells the truth, Oliver is a knave and lies.",
        "We conclude that Zoey is a knight and that Oliver is a knave (assuming Zoey is a knight)",
        "It follows that Zoey must be a knight and Oliver is definitely a knave",
        "✅ Zoey is a knight, Oliver is a knave",
        "Zoey is a knight: she tells the truth. Oliver is a knave.",
    ],
)
def test_roles_are_read(text):
    assert read_roles(text, list(TWO)) == TWO


@pytest.mark.parametrize(
    "text, reason",
    [
        ("Zoey is a knight", "incomplete"),
        ("", "unparsable"),
        ("Zoey is a knight or a knave, Oliver is a knave", "hedged"),
        ("Either Zoey is a knight or Oliver is a knave", "hedged"),
        ("Zoey is a knight, Oliver is a knave, Bob is a knight", "unparsable"),
        ("knight, knave", "unparsable"),
        (
            "Zoey is a knight. Oliver is a knave. Zoey is a knave. Oliver is a knight",
            "contradiction",
        ),
        ("It is false that Zoey is a knight and Oliver is a knave", "hedged"),
        ("Zoey is a knight? Oliver is a knave?", "hedged"),
        ("Maybe Zoey is a knight, Oliver is a knave", "hedged"),
        ("Zoeyx is a knight, Oliver is a knave", "unparsable"),
        ("Zoey is a knighthood, Oliver is a knave", "incomplete"),
        ("Unless Zoey is a knight, Oliver is a knave", "hedged"),
        ("Whenever Zoey is a knight, Oliver is a knave", "hedged"),
        ("Zoey says Oliver is a knave. Zoey is a knight", "hedged"),
        ("Zoey says: Oliver is a knave. Oliver says:\nZoey is a knight", "hedged"),
        ("Zoey is a knight in name. Oliver is a knave", "hedged"),
        ("Zoey is a knight's squire, Oliver is a knave", "hedged"),
        ("Zoey's knight is Oliver, Oliver is a knave", "unparsable"),
        ("Call Zoey a knight, Oliver a knave", "hedged"),
        ("Let us assume Zoey is a knight. Oliver is a knave", "hedged"),
        ("Zoey is a knight, Oliver is a knave. No, wrong", "hedged"),
        ("Zoey is a knight. Oliver is a knave. Correction: Oliver is a knight", "contradiction"),
        ("Zoey and Oliver, a knight and a knave", "unparsable"),
        ("❌ Zoey is a knight. Oliver is a knave", "hedged"),
        ("Zoey is a knight, Oliver is a knave. These are lies.", "hedged"),
        ("Zoey is a knight, Oliver is a knave: a contradiction", "hedged"),
        ("Zoey must not be a knave, Oliver is a knave", "hedged"),
        ("Zoey is a knight, Oliver is a knave, in case Zoey lies", "hedged"),
    ],
)
def test_what_is_no_assignment(text, reason):
    assert read_roles(text, list(TWO)) == reason


@pytest.mark.parametrize(
    "link",
    [
        "iff", "if and only if", ", if and only if,", "only if", "unless", "whenever", "when",
        "exactly when", "just in case", "precisely when", "as long as", "provided that", "provided",
        "assuming", "given that", "on condition that", "if", "implies", "implies that", "means",
        "means that", "entails", "is equivalent to", "is the same as", "or", "xor", "or else",
        "iff,", "in which case", "then", "until", "except when", "is as true as", "=", "==", "<=>",
        "<->", "->", "=>", "↔", "⇔", "→", "∨", "||", "/", "in the case that", "would mean",
        "exactly if", "in so far as", "just when", "follows from", "requires", "depends on whether",
    ],
)  # fmt: skip
@pytest.mark.parametrize("comma", ["", ","])
def test_what_binds_two_statements_states_neither(link, comma):
    for text in (
        f"Zoey is a knight{comma} {link} Oliver is a knave",
        f"The answer is: Zoey is a knight{comma} {link} Oliver is a knave.",
        f"{link} Zoey is a knight, Oliver is a knave",
    ):
        assert read_roles(text, list(TWO)) == "hedged", text


def test_several_people_at_once():
    names = ["Ann", "Bo", "Cy"]
    text = "Ann, Bo and Cy are all knaves"
    assert read_roles(text, names) == dict.fromkeys(names, "knave")
    assert read_roles("Ann and Bo are both knights. Cy is a knave", names)["Cy"] == "knave"


def test_knights_never_pays_a_share_and_checks_its_data():
    half = Completion(text="<answer>Zoey is a knight, Oliver is a knight</answer>")
    problem = Problem(prompt="", answer="", index=0, meta={"roles": TWO})
    assert Knights()(half, problem).score == 0.0
    assert Knights()(Completion(text="<answer>" + "Zoey " * 999 + "</answer>"), problem).reason
    for roles in (None, {}, {"Zoey": "spy"}):
        broken = Problem(prompt="", answer="", index=0, meta={"roles": roles})
        assert Knights()(half, broken).status == "unknown"


@pytest.mark.parametrize(
    "answer, reason",
    [
        ("8/(3-8/3)", ""),
        ("8/(3-8/3) = 24", ""),
        ('{"cards": ["8", "3"], "number": [8, 3], "formula": "8/(3-8/3)=24"}', ""),
        ('{"formula": 24}', "unparsable"),
        ('```json\n{"formula": "8/(3-8/3)=24"}\n```', ""),
        (r"\boxed{\frac{8}{3-\frac{8}{3}}}", ""),
        ("24 = 8/(3-8/3)", ""),
        ("--8/(3-8/3)", "unparsable"),
        ("(8-3)*3+8", "mismatch"),
        ("3*8", "wrong_numbers"),
        ("8/(3-8/3)=25", "mismatch"),
        ("9" * 999, "too_long"),
        ("24", "wrong_numbers"),
    ],
)
def test_generalpoints(answer, reason):
    meta = {"numbers": [3, 3, 8, 8], "target": 24}
    problem = Problem(prompt="", answer="24", index=0, meta=meta)
    assert GeneralPoints()(Completion(text=f"<answer>{answer}</answer>"), problem).reason == reason


def test_letters_count_what_the_rule_says():
    for worth, right in ((10, True), (13, False)):
        meta = {"numbers": [worth, 4, 2, 8], "letters": {"K": worth}, "target": 24}
        problem = Problem(prompt="", answer="", index=0, meta=meta)
        verdict = GeneralPoints()(Completion(text="<answer>K+4+2+8</answer>"), problem)
        assert verdict.correct == right
    assert formula_of("{broken") == "{broken"
    good = {"numbers": [12, 12], "target": 24}
    for fault in ({"numbers": "12"}, {"letters": "K"}, {"letters": {"K": "10"}}, {"target": True}):
        bad = Problem(prompt="", answer="", index=0, meta=good | fault)
        assert GeneralPoints()(Completion(text="<answer>12+12</answer>"), bad).status == "unknown"


def test_same_verdicts_as_countdown_without_letters():
    meta = {"numbers": [1, 5, 5, 5], "target": 24}
    problem = Problem(prompt="", answer="", index=0, meta=meta)
    for text in ("5*(5-1/5)", "5**5", "5*5-1", "__import__('os')", "5*(5-1/5"):
        completion = Completion(text=f"<answer>{text}</answer>")
        assert (
            GeneralPoints()(completion, problem).reason == Countdown()(completion, problem).reason
        )


def test_sequences():
    assert items("[1, 2;3]") == ["1", "2", "3"] and items("('a', b)") == ["a", "b"]
    assert items("−3 2.") == ["-3", "2"]
    problem = Problem(prompt="", answer="1 2 2", index=0)
    texts = ["1,2,2", "$1, 2, 2$.", r"\boxed{[1, 2, 2]}", "1 2", "2 1 2", "1 2 2 2", "12 2", ""]
    texts += ["x" * 20_000, r"1 2 \boxed{2}", "1 2 2 or 2 2 1", "[1] 2 2", "01 2 2", "1.0 2 2"]
    completions = [Completion(text=f"<answer>{text}</answer>") for text in texts]
    verdicts = grade_all(Sequence(), completions, [problem] * len(texts))
    assert [v.correct for v in verdicts] == [True] * 3 + [False] * 11
    blank = Problem(prompt="", answer=" ", index=0)
    assert Sequence()(completions[0], blank).status == "unknown"


def test_reasoning_gym_pays_full_marks_only(monkeypatch):
    class Data:
        def __getitem__(self, number):
            return {"question": str(number), "answer": "7", "metadata": {}}

        def score_answer(self, answer, entry):
            return {"7": 1.0, "7 or 8": 0.5}.get(answer, 0.0)

    fake = types.ModuleType("reasoning_gym")
    fake.create_dataset = lambda name, **options: Data()
    monkeypatch.setitem(sys.modules, "reasoning_gym", fake)
    meta = {"dataset": "x", "options": {}, "number": 3, "space": 10}
    problem = Problem(prompt="", answer="7", index=0, meta=json.loads(json.dumps(meta)))
    for scoring in ("exact", "dataset"):
        reward = ReasoningGym(scoring=scoring)
        assert reward.in_worker == (scoring == "dataset")
        texts = ("7", "7 or 8", "8")
        verdicts = [reward(Completion(text=f"<answer>{t}</answer>"), problem) for t in texts]
        assert [v.score for v in verdicts] == [1.0, 0.0, 0.0]
    assert ReasoningGym()(Completion(text="7"), problem).reason == "no_answer"
    blank = Problem(prompt="", answer=" ", index=0)
    assert ReasoningGym()(Completion(text="<answer>7</answer>"), blank).status == "unknown"
    with pytest.raises(ValueError, match="allowed are exact"):
        ReasoningGym(scoring="lax")
