import sys
import time

import pool_rewards
import pytest

from rlvr_jax.rewards import grade_all
from rlvr_jax.rewards.compose import Compose
from rlvr_jax.rewards.learned import Learned
from rlvr_jax.rewards.numeric import Numeric
from rlvr_jax.rewards.user_function import UserFunction, load_function
from rlvr_jax.rewards.verl_function import VerlFunction
from rlvr_jax.rewards.wrapper import named_reward
from rlvr_jax.types import Completion, Problem

FILE = pool_rewards.__file__


def run(name, texts=("a", "bb"), meta=({}, {}), prompt="?", deadline_s=30.0):
    problems = [Problem(prompt=prompt, answer="7", index=i, meta=m) for i, m in enumerate(meta)]
    completions = [Completion(text=t, token_ids=(i + 1,)) for i, t in enumerate(texts)]
    reward = UserFunction(path=f"{FILE}:{name}", deadline_s=deadline_s)
    return grade_all(reward, completions, problems, workers=1)


def test_values_become_scores():
    assert [v.score for v in run("ones")] == [1.0, 1.0]
    assert [v.score for v in run("length")] == [2.0, 3.0]  # gets only what it names


def test_columns_and_none():
    scored, unknown = run("columns_seen", meta=({"level": 3}, {}))
    assert scored.status == "scored" and scored.score == 3.0
    assert unknown.status == "unknown"


def test_messages_as_trl_gives_them():
    prompt = ({"role": "user", "content": "?"},)
    assert [v.score for v in run("chat", texts=("1", "2"), prompt=prompt)] == [1.0, 2.0]


@pytest.mark.parametrize(
    "name, says",
    [
        ("raises", "failed: ZeroDivisionError: division by zero .pool_rewards.py, line"),
        ("too_few", "returned 1 values for 2 completions"),
        ("no_list", "must return a list of numbers, got float"),
        ("text", "must return a list of numbers, got str"),
        ("pairs", "must return a list of numbers, got dict"),
        ("texts", "returned '1' at place 0: no finite number"),
        ("nan", "returned nan at place 0"),
        ("huge", "returned 1000.* at place 0: no finite number"),
        ("no_memory", "ran out of memory, or of stack"),
        ("mute", "failed: Mute: .its text cannot be had. .pool_rewards.py, line"),
        ("leaves", "failed: SystemExit"),
        ("dies", "crashed .process ended with 7"),
        ("missing", 'has no function "missing"'),
        ("lenght", 'has no function "lenght"; did you mean "length"'),
    ],
)
def test_faults_stop_with_one_line(name, says):
    with pytest.raises(ValueError, match=says) as caught:
        run(name)
    assert "\n" not in str(caught.value) and "reward function" in str(caught.value)


def test_a_hang_stops_at_the_deadline():
    start = time.monotonic()
    with pytest.raises(ValueError, match=r'pool_rewards.py:hangs" did not return within 0.5 s'):
        run("hangs", deadline_s=0.5)
    assert time.monotonic() - start < 15


@pytest.mark.parametrize("path", ["", "module", "module:", ":f"])
def test_bad_paths(path):
    with pytest.raises(ValueError, match="module:function"):
        UserFunction(path=path)
    with pytest.raises(ValueError, match="module:function"):
        load_function(path)


def test_a_file_without_a_function_is_told_what_there_is(tmp_path):
    file = tmp_path / "rw.py"
    file.write_text("raise SystemExit\ndef good(): pass\nclass C: pass\ndef fine(): pass\n")
    for path in (f"{file}", f"{file}:"):
        with pytest.raises(ValueError, match=r"say .*rw.py:<function> \(it defines: good, fine\)"):
            UserFunction(path=path)
        with pytest.raises(ValueError, match="say .*rw.py:<function>"):
            named_reward(path)
    file.write_text("def (")
    with pytest.raises(ValueError, match="say .*rw.py:<function>$"):
        UserFunction(path=str(file))


def test_missing_file_and_module():
    with pytest.raises(ValueError, match="there is no file"):
        UserFunction(path="nowhere/f.py:f")
    with pytest.raises(ValueError, match="cannot import"):
        load_function("no_such_module_x:f")
    with pytest.raises(ValueError, match="positive"):
        UserFunction(path="a:b", deadline_s=0.0)


@pytest.mark.parametrize("kind", [UserFunction, VerlFunction])
def test_the_home_folder_is_expanded(kind, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "at_home.py").write_text("def pay(completions, **columns):\n    return [2.0]\n")
    assert kind(path="~/at_home.py:pay").files == ("~/at_home.py",)
    assert load_function("~/at_home.py:pay")([""]) == [2.0]
    with pytest.raises(ValueError, match='no file "~/nowhere.py"'):
        kind(path="~/nowhere.py:pay")


def test_the_files_of_a_reward_are_found_without_importing_them(monkeypatch, tmp_path):
    (tmp_path / "pack" / "inner").mkdir(parents=True)
    for name in ("pack/__init__.py", "pack/inner/__init__.py", "pack/inner/mine.py"):
        (tmp_path / name).write_text("raise RuntimeError\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    mine = str(tmp_path / "pack" / "inner" / "mine.py")
    assert UserFunction(path="pack.inner.mine:f").files == (mine,)
    assert Learned(scorer="pack.inner.mine:f").files == (mine,)
    inner = str(tmp_path / "pack" / "inner" / "__init__.py")
    both = Compose(rewards=("pack.inner:f", "numeric", "pack.inner.mine:f"), gates=("format",))
    assert both.files == (inner, mine)
    assert "pack" not in sys.modules
    assert UserFunction(path="pack.nothing:f").files == UserFunction(path="sys:f").files == ()
    assert Learned().files == Numeric().files == ()
