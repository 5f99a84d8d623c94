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
    arguments = [file, "--verifier=numeric", "--kind=math", f"--out={out}", "--against=format"]
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


def test_bad_files(tmp_path, file):
    path = tmp_path / "bad.jsonl"
    path.write_text('{"gold": "1", "response": "1", "expected": "yes"}\n')
    with pytest.raises(ValueError, match="bad.jsonl:1.*true or false"):
        audit.load_cases(str(path))
    with pytest.raises(ValueError, match="no case of kind maths .there are: countdown, math"):
        audit.load_cases(file, ["maths"])
