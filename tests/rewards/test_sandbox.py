"""What a sandbox keeps in.  Tests of what only namespaces give skip, saying so, without them."""

import functools
import os
import pathlib
import sys
import time

import pytest

from rlvr_jax.rewards.sandbox import (
    Fault,
    Limits,
    Sandbox,
    functions,
    isolate,
    open_sandbox,
    plain,
    run,
)

LIMITS = Limits(memory_mb=256, scratch_mb=4, output_kb=64)


@pytest.fixture(scope="module")
def box():
    with open_sandbox(LIMITS) as box:
        yield box


@pytest.fixture
def shut(box):
    if not box.spaces:
        pytest.skip(f"not tested, this system does not give: {'; '.join(box.lacks)}")
    return box


def says(box, code, stdin="", timeout_s=10.0):
    output, status = run(box, code, stdin, timeout_s)
    return output.decode().strip(), status


def refused(box, body):
    """The exception that `body` meets inside, or "" if it works."""
    lines = "\n".join("    " + line for line in body.splitlines())
    code = f"try:\n{lines}\nexcept BaseException as e:\n    print(type(e).__name__)"
    return says(box, code)[0]


def descendants(pid):
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == pid:
                found += [int(entry.name), *descendants(int(entry.name))]
    return found


def test_input_output_and_exit_code(box):
    assert says(box, "print(input() * 2)", "ab\n") == ("abab", 0)
    assert says(box, "import sys; print(len(sys.stdin.read()))", "x" * 500_000) == ("500000", 0)
    assert says(box, "import sys; print(1); sys.exit(3)") == ("1", 3)
    assert says(box, "print(1); raise ValueError") == ("1", 1)
    assert says(box, "import os; print(1, flush=True); os._exit(0)") == ("1", 0)
    assert says(box, "exit('text')")[1] == 1 or says(box, "raise SystemExit('text')")[1] == 1
    assert says(box, "def f(:")[1] == 1


def test_script_sees_itself_as_main(box):
    code = "import sys\nif __name__ == '__main__': print(sys.modules['__main__'].x)\nx = 1"
    assert says(box, "x = 5\n" + code) == ("5", 0)
    assert says(box, "def f(a: missing): pass") == ("", 1)  # no future flags of ours


def test_exit_and_quit_work(box):
    assert says(box, "print(1)\nexit()") == ("1", 0) and says(box, "quit(0)") == ("", 0)
    assert says(box, "def f(): exit(3)\nf()") == ("", 3) and says(box, "quit('text')")[1] == 1


def test_standard_library_works(box):
    code = "import json, decimal, asyncio, threading, sqlite3, zlib, datetime, fractions\n"
    code += "async def f(): return 7\nprint(asyncio.run(f()))\n"
    code += "t = threading.Thread(target=print, args=(8,)); t.start(); t.join()"
    assert says(box, code) == ("7\n8", 0)


@pytest.mark.parametrize(
    "code, reason",
    [
        ("while True: pass", "timeout"),
        ("import time; time.sleep(60)", "timeout"),
        ("print(1, flush=True); import os; os.close(1); import time; time.sleep(60)", "timeout"),
        ("while True: print('x' * 1000)", "output"),
        ("import signal\nfor s in range(1, 65):\n  try: signal.signal(s, lambda *a: None)\n"
         "  except (OSError, ValueError): pass\nwhile True: pass", "timeout"),
    ],
)  # fmt: skip
def test_endless_programs_end_in_time(code, reason):
    with open_sandbox(LIMITS) as box:
        start = time.monotonic()
        with pytest.raises(Fault) as caught:
            run(box, code, "", 1.0)
        assert caught.value.reason == reason
        assert time.monotonic() - start < 4.0


def test_memory_is_limited(box):
    assert refused(box, "x = bytearray(10**9)") == "MemoryError"


def test_files_are_limited(box):
    assert refused(box, "open('big', 'wb').write(b'x' * 10**7)") in ("OSError", "MemoryError")
    body = "k = [open(__file__ if 0 else '/dev/null') for _ in range(200)]"
    assert refused(box, body) == "OSError"


def test_no_sockets_and_no_other_programs(box):
    if any("filter" in lack for lack in box.lacks):
        pytest.skip(f"not tested, this system does not give: {'; '.join(box.lacks)}")
    assert refused(box, "import socket; socket.socket()") == "PermissionError"
    assert refused(box, "import os; os.execv('/bin/sh', ['sh'])") in (
        "PermissionError",
        "FileNotFoundError",
    )
    assert refused(box, "import os; os.kill(1, 9)") in ("PermissionError", "ProcessLookupError")


def test_no_files_of_the_host(shut, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("gold")
    for path in (secret, "/etc/passwd", "/proc/1/environ", os.path.abspath(__file__)):
        assert refused(shut, f"open({str(path)!r}).read()") in (
            "FileNotFoundError",
            "PermissionError",
        )
    assert refused(shut, f"open({str(tmp_path / 'new')!r}, 'w')") == "FileNotFoundError"
    for folder in ("/", "/usr/lib", "/dev", "/proc"):
        assert refused(shut, f"open('{folder}/new', 'w')"), folder
    names = set(says(shut, "import os; print(*os.listdir('/'))")[0].split())
    assert not names & {"home", "work", "var", "mnt", "srv"}


def test_the_command_line_tells_nothing(shut):
    code = "import glob; print(*(open(p).read() for p in glob.glob('/proc/[0-9]*/cmdline')))"
    words = says(shut, code)[0].replace("\0", " ").split()
    assert {word for word in words if not word.endswith(os.path.realpath(sys.executable))} <= {
        *("-S", "-s", "-P", "-")
    }


def test_no_privileges(shut):
    status = says(shut, "print(open('/proc/self/status').read())")[0]
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(fields[name], 16) == 0, name
    assert fields["NoNewPrivs"] == "1"
    assert set(fields["Uid"].split()) == {str(isolate.NOBODY)}
    code = "import ctypes; print(ctypes.CDLL(None).unshare(0x10000000))"
    assert says(shut, code)[0] == "-1"
    assert says(shut, "import os; print(os.readlink('/proc/self/ns/user'))")[0] != os.readlink(
        "/proc/self/ns/user"
    )


def test_no_network(shut):
    code = "import os; print(open('/proc/self/net/dev').read() if os.path.exists("
    code += "'/proc/self/net/dev') else 'lo:')"
    lines = [line for line in says(shut, code)[0].splitlines() if ":" in line]
    assert all(line.strip().startswith("lo:") for line in lines)


def test_programs_share_nothing(shut):
    assert says(shut, "open('/tmp/left', 'w').write('x'); import builtins; builtins.gold = 1")
    assert says(shut, "import os; print(os.listdir('/tmp'), os.getcwd())")[0] == "[] /tmp"
    assert refused(shut, "gold") == "NameError"


def test_fork_bomb_is_bounded_and_swept(shut):
    others = set(descendants(os.getpid()))
    bomb = "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass"
    with pytest.raises(Fault):
        run(shut, bomb, "", 1.0)
    assert says(shut, "print(1)") == ("1", 0)
    assert len(set(descendants(os.getpid())) - others) <= 3 + len(shut.lacks)


def test_what_a_program_leaves_behind_is_killed(shut):
    others = set(descendants(os.getpid()))
    code = "import os, time\nif os.fork() == 0:\n  os.setsid(); os.close(1); time.sleep(60)"
    assert says(shut, code) == ("", 0)
    assert says(shut, "import os; print(*(p for p in os.listdir('/proc') if p.isdigit()))")[1] == 0
    assert len(set(descendants(os.getpid())) - others) <= 3


def test_process_one_cannot_be_harmed(shut):
    assert refused(shut, "import os; os.kill(1, 9)") == "PermissionError"
    assert refused(shut, "open('/proc/1/mem', 'rb').read(1)")
    assert says(shut, "print(2)") == ("2", 0)


def test_closing_ends_everything():
    others = set(descendants(os.getpid()))
    box = open_sandbox(LIMITS)
    before = set(descendants(os.getpid())) - others
    box.close()
    box.close()
    assert before and not before & set(descendants(os.getpid()))
    with pytest.raises(OSError, match="ended"):
        run(box, "print(1)", "", 1.0)


def test_no_folder_is_left(shut, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "rlvr-sandbox-999999999-x").mkdir()  # of a caller that was killed
    with Sandbox(LIMITS) as box:
        assert list(tmp_path.iterdir()) == []
        assert says(box, "open('f', 'w').write('x'); print(1)") == ("1", 0)
    with Sandbox(LIMITS, spaces=False) as box:
        assert len(list(tmp_path.iterdir())) == 1
    assert list(tmp_path.iterdir()) == []


def test_without_namespaces_it_says_so_and_serves_one_program():
    with Sandbox(LIMITS, spaces=False) as box:
        assert "namespaces" in box.lacks[0] and not box.spaces
        assert says(box, "import os; print(input(), os.getcwd() != '/')", "7") == ("7 True", 0)
        assert not box.usable
    if isolate.can_filter():
        for body in ("import os; os.fork()", "import os; os.kill(os.getppid(), 9)"):
            with Sandbox(LIMITS, spaces=False) as box:
                assert refused(box, body) == "PermissionError"
    with Sandbox(LIMITS, spaces=False) as box, pytest.raises(Fault, match="timeout"):
        run(box, "while True: pass", "", 0.5)


def test_functions(box):
    code = "class Box:\n  def __init__(self): self.x = 3\ndef f(a, *, b=1):\n  a.append(b)\n"
    code += "  return a\ndef g(): return Box()\ndef h(o): return o.x\nprint('noise')"
    with functions(box, code, 5.0) as program:
        assert program.call("f", [[1]], 5.0, {"b": 2}) == ["value", [1, 2], [[1, 2]]]
        assert program.call("missing", [], 5.0)[:2] == ["error", "KeyError"]
        handle = program.call("g", [], 5.0)[1]
        assert program.call("h", [handle], 5.0)[1] == 3
    with pytest.raises(Fault, match="error: ZeroDivisionError"):
        functions(box, "1 / 0", 5.0)
    with pytest.raises(Fault, match="crash"):
        functions(box, "import os; os._exit(0)", 5.0)


@pytest.mark.parametrize(
    "body, reason",
    [
        ("import time; time.sleep(60)", "timeout"),
        ("import os; os._exit(0)", "crash"),
        ("return 'x' * 10**6", "output"),
        ("import ctypes; ctypes.string_at(0)", "crash"),
    ],
)
def test_calls_that_give_nothing(box, body, reason):
    with functions(box, f"def f():\n  {body}", 5.0) as program, pytest.raises(Fault) as caught:
        program.call("f", [], 1.0)
    assert caught.value.reason == reason


def test_rubbish_on_the_channel_is_a_fault(box):
    code = "import os\nfor fd in range(3, 64):\n  try: os.write(fd, bytes(7) + b'\\x03[1]')\n"
    code += "  except OSError: pass"
    with pytest.raises(Fault, match="output"):
        functions(box, code, 5.0)


@pytest.mark.parametrize(
    "value",
    [None, True, 0, -(10**40), 1.5, float("inf"), "ü\ud800", b"\x00", 2j, [1, (2, {3}), {"a": 4}]]
    + [
        {1: (frozenset({2}),)},
        range(3),
        {1: 2}.keys(),
        {1: 2}.items(),
        __import__("fractions").Fraction(1, 3),
    ],
)
def test_plain_data_come_back(value):
    again = plain.loads(plain.dumps(value))
    assert again == value and type(again) is type(value)


def test_what_is_not_plain():
    class Same(int):
        def __eq__(self, other):
            return True

        __hash__ = int.__hash__

    assert plain.loads(plain.dumps(Same(3))) == 3 and plain.loads(plain.dumps(Same(3))) != 4
    loop = []
    loop.append(loop)
    half = functools.reduce(lambda inner, _: [inner], range(plain.MAX_DEPTH), 1)
    assert plain.loads(plain.dumps(half)) == half
    for value in (object(), loop, print, [half]):
        with pytest.raises(plain.NotPlain):
            plain.dumps(value)
    for data in (
        b'["?",1]',
        b'["i",[]]',
        b'["s",[["l",[]]]]',
        b"{}",
        b'["h",1]',
        b"[1,2,3]",
        b"x",
        b'["K",1]',
        b'["K",["l",[["l",[]]]]]',
        b'["l",[' * 300 + b"]]" * 300,
    ):
        with pytest.raises((ValueError, TypeError)):
            plain.loads(data)


def test_limits_are_checked():
    with pytest.raises(ValueError, match="memory_mb must be positive"):
        Limits(memory_mb=0)


def test_filter_covers_known_machines_only():
    for machine in ("x86_64", "aarch64"):
        for alone in (True, False):
            program = isolate.filter_program(machine, alone)
            assert len(program) % 8 == 0 and len(program) // 8 < 256
    assert isolate.filter_program("vax", False) is None
