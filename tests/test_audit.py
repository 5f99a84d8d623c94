import json
import time

import pytest

from rlvr_jax import audit
from rlvr_jax.rewards.base import Reward
from rlvr_jax.types import Verdict

CASES = [
    {"id": "a", "kind": "math", "gold": "7", "response": "#### 7", "expected": True},
    {"id": "b", "kind": "math", "gold": "7", "response": "#### 8", "expected": False},
    {"id": "c", "kind": "math", "gold": "7", "response": "#### 7", "expected": False},
    {"id": "d", "kind": "math", "gold": "7", "response": "7", "expected": True, "convention": "x"},
    {"id": "e", "kind": "countdown", "gold": {"numbers": [1, 2], "target": 3},
     "response": "<answer>1+2</answer>", "expected": True},
]  # fmt: skip


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "cases.jsonl"
    path.write_text("".join(json.dumps(case) + "\n" for case in CASES))
    return str(path)


def test_command(file, tmp_path, capsys):
    out = tmp_path / "verdicts.jsonl"
    arguments = [file, "--verifier=numeric", "--kind=math, ", f"--out={out}", "--against=format"]
    assert audit.main(arguments) == 0
    printed = capsys.readouterr().out
    assert "math                       3  1/2 [" in printed and "0/1 [" in printed
    assert "false positives: c\n" in printed and "false negatives: d*" in printed
    assert "disagreements of numeric and format: 2 of 4" in printed
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["id"] for line in lines] == ["a", "b", "c", "d"]
    assert {"id", "expected", "verdict", "reason", "milliseconds"} <= set(lines[0])
    assert [line["verdict"] for line in lines] == ["right", "wrong", "right", "wrong"]


def test_objects_are_the_problems_data(file):
    cases = audit.load_cases(file, ["countdown"])
    findings = audit.audit(cases, audit.make_verifier("countdown"))
    assert [f.says for f in findings] == ["right"] and findings[0].milliseconds > 0


def test_auto_takes_the_verifier_of_the_kind(file):
    if not all(name in audit.make_reward.__globals__["REWARDS"] for name in audit.BY_KIND.values()):
        pytest.skip("a verifier is not registered")
    findings = audit.audit(audit.load_cases(file), audit.make_verifier("auto"))
    assert [f.says for f in findings][-1] == "right" and findings[0].says == "right"


class Slow(Reward):
    deadline_s = 0.01

    def __call__(self, completion, problem):
        time.sleep(0.05)
        return Verdict(status="unknown", reason="lost")


def test_hangs_and_unknown_are_counted(file):
    cases = audit.load_cases(file, ["math"])[:1]
    findings = audit.audit(cases, Slow())
    assert findings[0].says == "unknown" and findings[0].false_negative
    assert "ran past the deadline: 1" in audit.format_audit(findings, Slow())


@pytest.mark.parametrize(
    "fields, says",
    [
        ({"expected": "yes"}, "true or false"),
        ({"expected": None}, "true or false"),
        ({"gold": None}, '"gold" must be text, a number or an object, got NoneType'),
        ({"gold": ["1"]}, '"gold" must be text'),
        ({"response": None}, '"response" must be text, got NoneType'),
        ({"response": ["1"]}, '"response" must be text, got list'),
        ({"response": 1}, '"response" must be text, got int'),
        ({"kind": ["x"]}, '"kind" must be text, got list'),
        ({"kind": None}, '"kind" must be text, got NoneType'),
        ({"id": {}}, '"id" must be text or a number'),
        ({"convention": 3}, '"convention" must be text'),
        ({"kind": "maths"}, 'no verifier belongs to kind "maths"; did you mean "math"'),
        ({"kind": "case"}, 'no verifier belongs to kind "case" .there are: math, choice'),
    ],
)
def test_bad_cases(tmp_path, fields, says):
    path = tmp_path / "bad.jsonl"
    good = {"kind": "math", "gold": "1", "response": "1", "expected": True}
    rows = [CASES[0], good | fields]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(ValueError, match=f"bad.jsonl:2: .*{says}"):
        audit.load_cases(str(path), known=tuple(audit.BY_KIND))


def test_only_what_is_audited_needs_a_verifier(tmp_path):
    path = tmp_path / "cases.jsonl"
    rows = [{"gold": {}, "kind": "x", "response": "1", "expected": True}, CASES[0]]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [c.id for c in audit.load_cases(str(path), ["math"], tuple(audit.BY_KIND))] == ["a"]
    first = audit.load_cases(str(path))[0]
    assert (first.problem.answer, first.problem.meta) == ("", {"kind": "x"})
    with pytest.raises(ValueError, match="cases.jsonl:1: no verifier belongs"):
        audit.main([str(path)])


def test_bad_arguments(file):
    with pytest.raises(ValueError, match="no case of kind maths .there are: countdown, math"):
        audit.load_cases(file, ["math", "maths"])
    with pytest.raises(ValueError, match="auto takes no settings"):
        audit.main([file, "--verifier=auto", "--set", "extract=phrase"])
