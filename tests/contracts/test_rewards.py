"""Properties every registered reward must have; a new file is tested before its author tests it."""

import random
import subprocess
import sys
import time

import pytest

from rlvr_jax.rewards import REWARDS, grade_all
from rlvr_jax.rewards.base import PLAIN
from rlvr_jax.rewards.extract import PLACES, extract
from rlvr_jax.types import Completion, Problem, Verdict

NAMES = list(REWARDS)


def example_of(name):
    return REWARDS[name].example()


def grade(example, *texts):
    completions = [Completion(text=t, token_ids=(1, 2), num_tokens=2) for t in texts]
    return grade_all(example.reward, completions, [example.problem] * len(texts), workers=1)


@pytest.mark.parametrize("name", NAMES)
def test_right_pays_and_wrong_and_empty_do_not(name):
    example = example_of(name)
    if example.right is None:
        pytest.skip("the reward does not depend on the text")
    right, empty, blank = grade(example, example.right, "", " \n")
    assert right.status == "scored" and right.score > 0 and right.correct
    assert empty.score <= 0 and not empty.correct
    assert blank.score <= 0 and not blank.correct
    if example.wrong is not None:
        (wrong,) = grade(example, example.wrong)
        assert not wrong.correct and wrong.score < right.score


@pytest.mark.parametrize("name", NAMES)
def test_rubbish_never_raises_nor_pays(name):
    example = example_of(name)
    rng = random.Random(0)
    texts = ["<answer>" + "9" * 100_000 + "</answer>", "<answer>1e999999999</answer>"]
    texts += ["(" * 50_000, "\\boxed{" * 2_000, "<think>" * 5_000, "\ud800", "\x00", "\\"]
    texts += [rng.randbytes(rng.randrange(200)).decode("latin-1") for _ in range(50)]
    start = time.monotonic()
    verdicts = grade(example, *texts)
    assert time.monotonic() - start < 20
    for verdict in verdicts:
        assert isinstance(verdict, Verdict)
        assert verdict.status in ("scored", "wrong", "unknown")
        assert verdict.status != "unknown" or example.right is None
        assert verdict.status == "scored" or verdict.reason
        if example.right is not None:
            assert not verdict.correct


@pytest.mark.parametrize("name", NAMES)
def test_a_gold_is_called_unreadable_where_no_answer_can_be_judged(name):
    """What a look at the data says is what grading would say."""
    example = example_of(name)
    assert example.reward.gold_fault(example.problem) == ""
    if name in ("control", "function", "verl_function", "learned"):
        return  # they do not look at the gold, or are not asked before the run
    bare = Problem(prompt="?", answer="", index=0)
    fault = example.reward.gold_fault(bare)
    text = "```python\nprint(0)\n```" if name == "code" else PLAIN.text
    (verdict,) = grade_all(example.reward, [Completion(text=text)], [bare], workers=1)
    assert bool(fault) == (verdict.status == "unknown")


def test_the_plain_answer_stands_in_every_place():
    assert {extract(PLAIN.text, (place,)) for place in PLACES} == {"0"}


@pytest.mark.parametrize("name", NAMES)
def test_deterministic(name):
    example = example_of(name)
    texts = [example.right or "7", example.wrong or "8", ""]
    assert grade(example, *texts) == grade(example, *texts)


def test_no_reward_module_imports_jax():
    code = (
        "import sys, rlvr_jax.rewards as r; [r.REWARDS[n].example() for n in r.REWARDS]; "
        "print(sorted(m for m in sys.modules if m.split('.')[0] in ('jax', 'flax', 'torch', "
        "'transformers', 'sympy')))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
