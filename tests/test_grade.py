import json
import math

import pytest

from rlvr_jax import audit, grade
from rlvr_jax.rewards import REWARDS
from rlvr_jax.statistics import maj_at_k

ROWS = [
    {
        "question": "3+4",
        "gold": 7,
        "samples": ["#### 7", "#### 8", "#### 8"],
        "rm": [0.9, 0.2, 0.3],
    },
    {"question": "1+1", "gold": 2, "samples": ["#### 2", "#### 2.0", "no"], "rm": [0.1, 0.2, 0.9]},
]


@pytest.fixture
def file(tmp_path):
    def write(rows):
        path = tmp_path / "responses.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return str(path)

    return write


def run(path, **columns):
    groups = grade.load_groups(path, columns)
    verdicts = grade.grade_groups(groups, grade.make_reward("numeric"))
    return grade.summarise(groups, verdicts)


def test_estimates_by_hand(file):
    grades = run(file(ROWS), score="rm")
    assert (grades.problems, grades.responses, grades.k) == (2, 6, 3)
    assert math.isclose(grades.avg.value, (1 / 3 + 2 / 3) / 2)
    assert math.isclose(grades.pass_at[2].value, (2 / 3 + 1.0) / 2)
    assert set(grades.pass_at) == {1, 2}
    assert grades.maj.value == 0.5  # 8 wins the first; 2 and 2.0 are one vote in the second
    assert grades.best_of.value == 0.5  # the best-scored sample is right, then not
    assert grades.weighted.value == 1.0  # 0.9 for 7 against 0.5 for 8; "no" does not vote
    assert grades.agreement is None and grades.reasons == {"mismatch": 2, "no_answer": 1}
    text = grade.format_grades(grades)
    assert "maj@3           0.500 [" in text and "best-of@3" in text and "labels" not in text
    assert text.startswith("2 problems, 6 responses\n") and "]  of 2 problems\n" in text
    assert "left out" not in text


def test_without_any_answer_there_is_no_majority(file):
    rows = [dict(row, samples=["well", "well", "well"]) for row in ROWS]
    grades = run(file(rows), score="rm")
    assert grades.maj is None and grades.weighted is None and grades.best_of.value == 0.0
    assert "maj@" not in grade.format_grades(grades)


def test_unequal_and_missing_samples_are_told(file):
    rows = [dict(ROWS[0], samples=["#### 7", "#### 8"]), dict(ROWS[1], samples=["#### 2"])]
    rows += [{"question": "5+5", "gold": 10, "samples": []}]
    rows += [{"question": "?", "gold": "none", "samples": ["#### 2"]}]
    grades = run(file([{k: v for k, v in row.items() if k != "rm"} for row in rows]))
    assert (grades.problems, grades.responses, grades.empty, grades.unjudged) == (4, 4, 1, 1)
    assert (grades.fewest, grades.k) == (1, 2)
    assert (grades.avg.n, grades.pass_at[1].n, grades.pass_at[2].n) == (2, 2, 1)
    text = grade.format_grades(grades)
    assert "avg@1-2         0.750 [" in text and "maj@1-2 " in text
    (line,) = [line for line in text.splitlines() if line.startswith("pass@2")]
    assert line.endswith("]  of 1 problem")
    assert "left out: 1 without a response, 1 with none that could be judged" in text


@pytest.mark.parametrize(
    "row, says",
    [
        ({"samples": ["#### 7"], "gold": "seven"}, "nothing could be judged: bad_gold 1"),
        ({"samples": []}, "nothing could be judged: no problem has a response"),
    ],
)
def test_nothing_judged_is_an_error(file, tmp_path, capsys, row, says):
    path = file([{"question": "3+4", "gold": 7, **row}])
    with pytest.raises(ValueError, match=says):
        grade.main([path, "--reward=numeric", f"--out={tmp_path}/out.jsonl"])
    assert capsys.readouterr().out == "" and (tmp_path / "out.jsonl").exists()


@pytest.mark.parametrize(
    "label, read",
    [(1, True), (0, False), (-1, False), (True, True), (False, False), (1.0, True), (-1.0, False)],
)
def test_labels(file, label, read):
    row = {"prompt": "p", "answer": "7", "response": "#### 7", "label": label}
    assert grade.load_groups(file([row]))[0].labels == [read]


@pytest.mark.parametrize("label", [0.3, 2, -2, "true", None, [0.5], float("nan")])
def test_labels_that_are_none(file, label):
    row = {"prompt": "p", "answer": "7", "response": "#### 7", "label": label}
    with pytest.raises(ValueError, match='jsonl:1: column "label" must hold true or 1'):
        grade.load_groups(file([row]))
    assert grade.load_groups(file([row]), {"label": ""})[0].labels is None


@pytest.mark.parametrize("command", [grade, audit])
def test_the_output_is_checked_before_the_work(command, file, tmp_path):
    path = file([{"question": "q", "gold": "7", "response": "#### 7", "expected": True}])
    before = (tmp_path / "responses.jsonl").read_bytes()
    (tmp_path / "link.jsonl").symlink_to(path)
    (tmp_path / "hard.jsonl").hardlink_to(path)
    (tmp_path / "sub").mkdir()
    verifier = "--reward=numeric" if command is grade else "--verifier=numeric"
    for name in ("responses.jsonl", "link.jsonl", "hard.jsonl", "sub/../responses.jsonl"):
        with pytest.raises(ValueError, match="is the file that is read"):
            command.main([path, verifier, f"--out={tmp_path}/{name}"])
    for name, says in (("none/out", "no folder"), ("sub", "name of a file"), ("sub/", "name of")):
        with pytest.raises(ValueError, match=says):
            command.main([path, verifier, f"--out={tmp_path}/{name}"])
    with pytest.raises(ValueError, match="name of a file"):
        command.main([path, verifier, "--out="])
    if command is grade:
        with pytest.raises(ValueError, match="at least 1, got 0"):
            grade.main([path, verifier, "--workers=0"])
    assert (tmp_path / "responses.jsonl").read_bytes() == before
    assert command.main([path, verifier, f"--out={tmp_path}/sub/out.jsonl"]) == 0
    assert (tmp_path / "sub" / "out.jsonl").read_text().count("\n") == 1


def test_single_responses_with_the_same_prompt_are_one_problem(file):
    rows = [
        {"prompt": "p", "answer": "7", "response": f"#### {n}", "label": n == 7} for n in (7, 8, 7)
    ]
    rows.append({"prompt": "q", "answer": "7", "response": "#### 7", "label": False})
    grades = run(file(rows))
    assert (grades.problems, grades.k) == (2, 3)
    assert math.isclose(grades.avg.value, (2 / 3 + 1) / 2)
    assert grades.agreement.value == 0.5
    assert grades.best_of is None


def test_messages_dicts_and_patterns(file):
    rows = [
        {
            "messages": [{"role": "user", "content": "?"}],
            "completion": [{"role": "assistant", "content": "#### 7"}],
            "answer": "it is\nA: 7",
        }
    ]
    groups = grade.load_groups(file(rows), {}, "^A: (.*)")
    assert groups[0].problem.answer == "7" and groups[0].responses == ["#### 7"]
    with pytest.raises(ValueError, match="responses.jsonl:1.*does not match"):
        grade.load_groups(file(rows), {}, "B: (.*)")
    with pytest.raises(ValueError, match="no group"):
        grade.load_groups(file(rows), {}, "B: .*")
    with pytest.raises(ValueError, match=r"'\(' is no pattern: missing \)"):
        grade.load_groups(file(rows), {}, "(")


@pytest.mark.parametrize(
    "rows, columns, says",
    [
        ([{"x": 1}], {}, "which column holds the prompt"),
        (ROWS, {"answer": "golden"}, 'jsonl:1: no column "golden"; did you mean "gold"'),
        ([{**ROWS[0], "samples": [3]}], {}, "a response must be text"),
        ([{**ROWS[0], "rm": [1]}], {"score": "rm"}, "has 1 values for 3"),
        ([{**ROWS[0], "rm": ["a", 1, 1]}], {"score": "rm"}, "must hold numbers"),
        ([{**ROWS[0], "rm": [10**400, 1, 1]}], {"score": "rm"}, "must hold numbers"),
        ([{**ROWS[0], "rm": [float("nan"), 1, 1]}], {"score": "rm"}, "must hold numbers"),
    ],
)
def test_bad_files(file, rows, columns, says):
    with pytest.raises(ValueError, match=says):
        grade.load_groups(file(rows), columns)


def test_votes():
    assert grade.best_of_n([1.0, 1.0, 0.0], [True, False, True]) == 0.5
    assert grade.weighted_majority(["a", "b", None], [True, False, False], [0.1, 0.2, 9.0]) == 0.0
    assert grade.weighted_majority([None], [False], [1.0]) == 0.0
    assert grade.vote_weights([0.0], False) == [0.5] and grade.vote_weights([0.3], True) == [0.3]
    even = grade.weighted_majority(["a", "b", "a"], [True, False, True], [1.0] * 3)
    assert even == maj_at_k(["a", "b", "a"], [True, False, True])


def test_settings():
    reward = grade.make_reward("numeric", ["extract=phrase,boxed", "right=2"])
    assert reward.extract == ("phrase", "boxed") and reward.right == 2
    assert grade.make_reward("code", ["partial=true"]).partial is True
    assert grade.make_reward("compose", ["weights=1,0.5"]).weights == (1.0, 0.5)
    path = "rlvr_jax.rewards.user_function:exact_match"
    function = grade.make_reward(path, ["deadline_s=3"])
    assert (function.path, function.deadline_s) == (path, 3)
    for name, settings, says in (
        ("numeric", ["wrigth=1"], "has: extract"),
        ("numeric", ["right=x"], "no float"),
        ("numeric", ["right=True"], "no float"),
        ("numeric", ["right=1", "right=2"], "already set to 1"),
        ("repetition", ["ngram=2.5"], "no int"),
        ("code", ["partial=1"], "no bool"),
        ("compose", ["weights=a,b"], "no tuple"),
        ("a.module:function", ["wrigth=1"], "it has: path"),
        ("a.module:function", ["path=b:c"], "already set"),
        ("numerik", [], "did you mean"),
    ):
        with pytest.raises(ValueError, match=says):
            grade.make_reward(name, settings)


def test_command(file, tmp_path, capsys):
    out = tmp_path / "verdicts.jsonl"
    arguments = [file(ROWS), "--reward=numeric", "--score=rm", f"--out={out}"]
    assert grade.main(arguments) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("2 problems, 6 responses") and "weighted maj@3" in printed
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["correct"] for line in lines] == [True, False, False, True, True, False]
    assert lines[5]["reason"] == "no_answer" and lines[0]["where"].endswith(":1")


def test_published_labels():
    import pathlib

    data = pathlib.Path(__file__).resolve().parents[1] / ".." / "shared" / "data"
    path = data / "gsm8k_model_solutions.jsonl"
    if not path.exists():
        pytest.skip("the sampled solutions are not on this machine")
    groups = grade.load_groups(str(path), {}, "^A: (.*)")
    reward = grade.make_reward("numeric", ["extract=phrase"])
    grades = grade.summarise(groups, grade.grade_groups(groups, reward))
    assert grades.agreement.value == 1.0 and grades.unknown == 0 and grades.responses == 2640


def test_sampled_math_answers():
    import pathlib

    data = pathlib.Path(__file__).resolve().parents[1] / ".." / "shared" / "data"
    path = data / "math_responses.jsonl"
    if not path.exists() or "math" not in REWARDS:
        pytest.skip("the sampled answers are not on this machine")
    groups = grade.load_groups(str(path))
    grades = grade.summarise(groups, grade.grade_groups(groups, grade.make_reward("math")))
    assert grades.agreement.value >= 0.99 and grades.k == 8
    assert grades.best_of is not None and grades.weighted is not None
