"""The console: few plain lines in a pipe, a live view on a terminal, never the model's codes."""

import io
import os

import pytest

from rlvr_jax.console import Console, StagePlan, TimeLeft, duration, short, sparkline

STAGES = [StagePlan("sft", 10), StagePlan("rl", 150)]


class Ticks:
    """A clock that a test moves."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_sparkline():
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    assert len(sparkline(range(1000), width=40)) == 40
    assert sparkline([1.0, 1.0]) == "▄▄"
    assert sparkline([]) == sparkline([float("nan"), None]) == ""


def test_durations_and_numbers():
    assert [duration(x) for x in (0.4, 59, 125, 4020)] == ["0s", "59s", "2m05s", "1h07m"]
    values = (None, 3, 1234, 0.12345, 5678.9, 1e-7)
    assert [short(v) for v in values] == ["n/a", "3", "1,234", "0.123", "5,679", "1e-07"]


def test_time_left_is_an_average_of_this_stage_and_names_the_next():
    ticks = Ticks()
    left = TimeLeft(STAGES, ticks)
    assert left.text() == ""
    for step in (1, 2, 3):
        ticks.now = 2.0 * step
        left.step("sft", step)
    assert left.text() == "14s left, then rl (150 steps)"
    left.step("rl", 1)
    assert left.text() == ""
    ticks.now += 10
    left.step("rl", 3)
    assert left.text() == "12m15s left"


def test_time_left_follows_a_change_of_pace():
    ticks = Ticks()
    left = TimeLeft([StagePlan("rl", 100)], ticks)
    for step in range(1, 61):
        ticks.now += 100.0 if step < 20 else 1.0
        left.step("rl", step)
    assert left.text() == "40s left"


def plain(steps, seconds):
    ticks, out = Ticks(), io.StringIO()
    console = Console([StagePlan("rl", steps)], out, clock=ticks)
    for step in range(1, steps + 1):
        ticks.now += seconds
        console.step("rl", step, {"reward/mean": step / steps, "perf/gen_tok_s": 5000.0})
    return out.getvalue().splitlines()


def test_a_pipe_gets_one_line_in_two_seconds_and_the_last_step():
    lines = plain(steps=100, seconds=0.1)
    assert len(lines) == 6
    assert lines[0] == "rl 1/100  reward 0.01  gen tok/s 5,000"
    assert lines[-1].startswith("rl 100/100  reward 1 ") and lines[-1].endswith("0s left")


def test_slow_steps_get_a_line_each():
    assert len(plain(steps=5, seconds=10)) == 5


def test_evaluations_and_notes_always_show():
    out = io.StringIO()
    console = Console(STAGES, out)
    for i in range(3):
        console.evaluation(f"eval {i}")
    console.note("saved [bold]x[/bold]")
    assert out.getvalue().splitlines() == ["eval 0", "eval 1", "eval 2", "saved [bold]x[/bold]"]


def test_a_long_line_in_a_pipe_is_not_wrapped():
    out = io.StringIO()
    Console(STAGES, out).note("word " * 100)
    assert len(out.getvalue().splitlines()) == 1


def test_a_reader_who_goes_away_does_not_end_the_run():
    """`rlvr run ... | head -3`: what is printed after that goes nowhere."""
    read, write = os.pipe()
    with open(write, "w") as out, open(read) as reader:
        console = Console([StagePlan("rl", 9)], out)
        console.note("first")
        assert reader.readline() == "first\n"
        reader.close()
        console.note("second")
        console.evaluation("third")
        console.step("rl", 9, {"reward/mean": 1.0})
        console.close()


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("NO_COLOR", "TTY_COMPATIBLE", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return Terminal()


def test_a_terminal_gets_a_live_view_that_goes_away(terminal):
    console = Console(STAGES, terminal)
    console.evaluation("eval before")
    console.sample({"correct": False, "prompt": "3+4=", "completion": "8\x1b[31m\x07 [bold]x"})
    for step in (1, 2, 3):
        console.step("rl", step, {"reward/mean": step / 3, "policy/entropy": 0.5})
    console.close()
    console.close()
    text = terminal.getvalue()
    for piece in ("step 3/150", "reward", "entropy", "3+4=", "[bold]x", "eval before", "▁"):
        assert piece in text
    assert "\x1b[?25h" in text  # the cursor is back
    assert "8\x1b[31m" not in text and "\x07" not in text


def test_a_stage_without_a_plan_and_without_numbers_still_shows(terminal):
    console = Console([], terminal)
    console.step("extra", 1, {"reward/mean": None})
    console.close()
    assert "extra" in terminal.getvalue()
