import pathlib

import pytest

from rlvr_jax.rewards import grade_all
from rlvr_jax.rewards.verl_function import VerlFunction
from rlvr_jax.types import Completion, Problem

SOURCE = """
def plain(data_source, solution_str, ground_truth, extra_info=None):
    return float(solution_str == ground_truth)

def full(data_source, solution_str, ground_truth, extra_info=None):
    return {"score": 0.5, "acc": solution_str == ground_truth, "n": len(solution_str),
            "who": data_source, "level": extra_info["level"]}

def text(data_source, solution_str, ground_truth, extra_info=None):
    return "1"

def nothing(data_source, solution_str, ground_truth, extra_info=None):
    return {"acc": 1}
"""


@pytest.fixture
def file(tmp_path):
    path = pathlib.Path(tmp_path, "score.py")
    path.write_text(SOURCE)
    return str(path)


def run(path, text, meta):
    problem = Problem(prompt="?", answer="7", index=0, meta=meta)
    return grade_all(VerlFunction(path=path), [Completion(text=text)], [problem], workers=1)[0]


def test_number(file):
    assert run(f"{file}:plain", "7", {}).score == 1.0
    assert run(f"{file}:plain", "8", {"reward_model": {"ground_truth": "8"}}).score == 1.0


def test_dict(file):
    meta = {"data_source": "gsm8k", "extra_info": {"level": 3}}
    verdict = run(f"{file}:full", "8", meta)
    assert verdict.score == 0.5 and not verdict.correct
    assert verdict.parts == {"correct": 0.0, "n": 1.0, "level": 3.0}
    assert run(f"{file}:full", "7", meta).correct


def test_faults_stop_with_one_line(file):
    with pytest.raises(ValueError, match="no finite score"):
        run(f"{file}:nothing", "7", {})
    with pytest.raises(ValueError, match="returned '1': no finite score"):
        run(f"{file}:text", "7", {})
    with pytest.raises(ValueError, match="failed: TypeError"):
        run(f"{file}:full", "7", {})
    with pytest.raises(ValueError, match="no file"):
        VerlFunction(path="nowhere.py:f")
    with pytest.raises(ValueError, match="module:function"):
        VerlFunction()
    with pytest.raises(ValueError, match="positive"):
        VerlFunction(path="a:b", deadline_s=0.0)
