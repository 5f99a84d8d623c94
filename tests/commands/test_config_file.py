"""A config file and the flags over it: faults in one line; what a flag replaces is left out."""

import pathlib

import pytest

from rlvr_jax.losses import LOSSES
from rlvr_jax.models.hf import write_model
from rlvr_jax.rewards import REWARDS
from rlvr_jax.tasks import TASKS

ROOT = pathlib.Path(__file__).resolve().parents[2]
QUICK = f"--config={ROOT / 'configs' / 'quickstart.py'}"
JSONL = ("task.name=jsonl", "task.train_path=a.jsonl", "task.test_fraction=0.1")


def keys(*pairs):
    return [f"--config.{pair}" for pair in pairs]


# What a flag replaces.


def test_a_flag_names_another_task(built):
    """The quickstart's task.solution_error_rate is nothing that "jsonl" knows."""
    run = built(QUICK, *keys(*JSONL))
    assert run.task == TASKS.make("jsonl", train_path="a.jsonl", test_fraction=0.1)


def test_the_order_of_flags_does_not_matter(built):
    run = built(*keys(*reversed(JSONL)), QUICK)
    assert run.task.train_path == "a.jsonl"


def test_fields_that_both_tasks_know_stay(built, tmp_path):
    text = (ROOT / "configs" / "quickstart.py").read_text()
    changed = text.replace("return c", "c.task.size_test = 77\n    return c")
    (tmp_path / "mine.py").write_text(changed)
    run = built(f"--config={tmp_path / 'mine.py'}", *keys("task.name=countdown"))
    assert run.task == TASKS.make("countdown", size_test=77)


def test_a_field_given_by_flag_stays_an_error(complaint):
    flag = "task.solution_error_rate=0.2"
    line = complaint("run", QUICK, "--workdir=w", *keys(*JSONL, flag))
    assert 'task "jsonl" has no field "solution_error_rate"' in line


def test_a_field_that_the_old_task_did_not_know_stays_an_error(complaint, tmp_path):
    text = (ROOT / "configs" / "quickstart.py").read_text()
    (tmp_path / "mine.py").write_text(text.replace("return c", "c.task.shots = 2\n    return c"))
    line = complaint("run", f"--config={tmp_path / 'mine.py'}", "--workdir=w", *keys(*JSONL))
    assert 'task "jsonl" has no field "shots"' in line


@pytest.fixture
def own(tmp_path):
    """A file that sets a field of the reward and of the loss that its task and algorithm name."""
    text = (ROOT / "configs" / "quickstart.py").read_text()
    more = "c.reward.format_score = 0.1\n    c.loss.eps_high = 0.3\n    return c"
    (tmp_path / "own.py").write_text(text.replace("return c", more))
    return f"--config={tmp_path / 'own.py'}"


def test_entries_that_the_task_or_the_algorithm_names_change_with_it(built, own):
    run = built(own)
    assert (run.reward.format_score, run.objective.loss.eps_high) == (0.1, 0.3)
    run = built(own, *keys("reward.name=control", "algorithm=gmpo"))
    assert (run.reward, run.objective.loss) == (REWARDS.make("control"), LOSSES.make("gmpo"))


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_any_loss_may_be_named_over_a_file(own, name, built, complaint):
    """Whatever `build` then says against it, it is not that the old loss's fields are unknown."""
    flags = keys(f"loss.name={name}")
    try:
        assert isinstance(built(own, *flags).objective.loss, LOSSES[name])
    except AssertionError:
        assert "has no field" not in complaint("run", own, "--workdir=w", *flags)


def test_a_stage_that_a_flag_leaves_out_takes_its_sections_along(built, complaint):
    run = built(QUICK, *keys("stages=('rl',)"))
    assert run.stages == ("rl",) and run.sft.steps == type(run.sft)().steps
    assert built(QUICK, *keys("stages=sft")).stages == ("sft",)
    line = complaint("run", QUICK, "--workdir=w", *keys("stages=('rl',)", "sft.steps=3"))
    assert "config.sft has no effect" in line


def test_a_checkpoint_takes_the_place_of_the_files_architecture(built, complaint, tmp_path):
    from rlvr_jax.models.config import AttentionConfig, ModelConfig

    model = ModelConfig(vocab=8, width=16, layers=1, mlp_width=24, attn=AttentionConfig(2, 1, 8))
    write_model(tmp_path, model, {}, "float32")
    run = built(QUICK, *keys(f"model.path={tmp_path}", "tokenizer=char"))
    assert (run.model.width, run.model.layers, run.model.attn.heads) == (16, 1, 2)
    line = complaint(
        "run", QUICK, "--workdir=w", *keys(f"model.path={tmp_path}", "model.attn.heads=4")
    )
    assert "config.model.attn has no effect" in line


# Faults of a file.


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def get_config(:\n", "line 1: not Python ("),
        ("stages:\n  - rl\n", "line 1: not Python ("),
        ("\x00\x01", "not Python ("),
        ("import nosuchthing\n", "line 1: ModuleNotFoundError: No module named 'nosuchthing'"),
        ("x = 1\n", "it has no function get_config()"),
        ("def get_config():\n    return c\n", "line 2: NameError"),
        ("def get_config():\n    raise ValueError('mine')\n", "line 2: mine"),
        ("def get_config():\n    return {}\n", "not another dict"),
        ("def get_config():\n    pass\n", "not another NoneType"),
        (
            "from ml_collections import ConfigDict\ndef get_config():\n    return ConfigDict()\n",
            "base()",
        ),
        (
            "from rlvr_jax.config import base\ndef get_config():\n    c = base()\n"
            "    c.rl.steps = 'x'\n    return c\n",
            "line 4: TypeError",
        ),
    ],
)
def test_a_broken_config_file_is_told_in_one_line(complaint, tmp_path, text, said):
    path = tmp_path / "broken.py"
    path.write_text(text)
    line = complaint("run", f"--config={path}", "--workdir=w")
    assert str(path) in line and said in line


def test_a_config_file_that_is_not_there(complaint, tmp_path):
    assert 'did you mean "quickstart.py"?' in complaint(
        "run", QUICK.replace("quickstart", "quickstrat"), "--workdir=w"
    )
    assert "is a folder" in complaint("run", f"--config={tmp_path}", "--workdir=w")
    assert "there is no config file" in complaint("run", "--config=a/b/c.py", "--workdir=w")
    for args in ([], ["--config"], ["--config="], keys("seed=1")):
        assert "--config is missing: name" in complaint("run", "--workdir=w", *args)
    said = complaint("run", "--workdir=w", "--confg=configs/quickstart.py")
    assert "--config is missing (there is --confg=configs/quickstart.py)" in said


def test_a_file_may_take_words(built, tmp_path):
    text = (ROOT / "configs" / "quickstart.py").read_text()
    text = text.replace("get_config():", "get_config(steps):")
    text = text.replace("return c", "c.rl.steps = int(steps)\n    return c")
    (tmp_path / "words.py").write_text(text)
    assert built(f"--config={tmp_path / 'words.py'}:17").rl.steps == 17


# Faults of a flag.


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("--config.loss.eps_hihg=0.3", 'no config key "loss.eps_hihg"; did you mean "eps_high"?'),
        ("--config.los.eps_high=0.3", 'no config key "los"; did you mean "loss"?'),
        ("--config.loss.zzz=1", "(loss has: "),
        ("--config.seed.x=1", '"seed" is one value'),
        ("--config.loss=clipped", '"loss" is a section; set its keys: loss.name'),
        ("--config.seed", "--config.seed"),
        ("--confg.seed=1", 'did you mean "--config.seed"?'),
        ("--loss.eps_high=0.3", 'did you mean "--config.loss.eps_high"?'),
        ("--seed=1", 'did you mean "--config.seed"?'),
        ("--wrkdir=x", 'did you mean "workdir"?'),
        ("--xyz=1", "(there are: "),
        ("extra", 'unexpected argument "extra"'),
        ("--config.seed=-1", "seed must be at least 0 and below 4294967296"),
        ("--config.seed=4294967296", "seed must be at least 0 and below 4294967296"),
        ("--config.sft.batch=0", "sft.batch must be at least 1, got 0"),
        ("--config.sft.steps=-1", "sft.steps must be at least 1, got -1"),
        ("--config.rl.steps=0", "rl.steps must be at least 1, got 0"),
        ("--config.optim.learning_rate=nan", "optim.learning_rate must be a finite number"),
        ("--config.sft.optim.learning_rate=inf", "sft.optim.learning_rate must be a finite number"),
        ("--config.optim.learning_rate=-1e-3", "learning_rate must be 0 or more, got -0.001"),
        ("--config.loss.eps_high=nan", "loss.eps_high must be a finite number"),
        ("--config.eval_sampling.top_p=nan", "eval_sampling.top_p must be a finite number"),
        ("--workdir=", "--workdir is empty"),
    ],
)
def test_a_flag_that_cannot_be_meant(complaint, flag, said):
    assert said in complaint("run", QUICK, "--workdir=w", flag)
