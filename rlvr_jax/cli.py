"""The command line: `rlvr <command> --help`.

Every error a user can cause ends in one line and exit code 2, never in a traceback; `RLVR_DEBUG=1`
shows the traceback.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.metadata
import io
import logging
import os
import pathlib
import select
import signal
import sys
import traceback
from collections.abc import Callable, Sequence


@dataclasses.dataclass(frozen=True)
class Command:
    """module:function called with the remaining arguments, and a line for `rlvr --help`."""

    target: str
    about: str


COMMANDS = {
    "run": Command("rlvr_jax.commands.run:main", "train: all stages of a config, with a report"),
    "eval": Command("rlvr_jax.commands.eval:main", "score a run's checkpoint on held-out problems"),
    "sample": Command("rlvr_jax.commands.sample:main", "talk to a run's checkpoint"),
    "doctor": Command("rlvr_jax.commands.doctor:main", "check the invariants on your own config"),
    "report": Command("rlvr_jax.commands.report:main", "write report.html and plots of a run"),
    "grade": Command("rlvr_jax.commands.grade:main", "grade saved generations with any reward"),
    "audit": Command("rlvr_jax.audit:main", "a verifier against cases with known verdicts"),
    "export": Command(
        "rlvr_jax.commands.export:main", "a run's checkpoint as a Hugging Face folder"
    ),
    "import": Command("rlvr_jax.commands.import_gguf:main", "a GGUF file as a Hugging Face folder"),
    "list": Command("rlvr_jax.commands.list:main", "what there is: tasks, rewards, algorithms"),
}


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of the console script."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # under LC_ALL=C most characters are missing
        sys.stdout.reconfigure(errors="replace")
    try:
        try:
            _dispatch(argv)
        finally:
            if sys.stdout is not None:  # None: closed from the start
                sys.stdout.flush()
    except BrokenPipeError:
        if not _reader_gone():
            raise
        # End as other programs do then, without a word and with the code of SIGPIPE.  A training
        # run never gets here: its console goes on (console.py).
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)


def _dispatch(argv: Sequence[str] | None) -> None:
    args = list(sys.argv[1:] if argv is None else argv)
    if not args or args[0] in ("-h", "--help", "help"):
        print(usage())
        return
    if args[0] in ("--version", "version"):
        print(f"rlvr_jax {importlib.metadata.version('rlvr-jax')}")
        return
    if args[0] not in COMMANDS:
        from rlvr_jax.registry import nearest

        hint = nearest(args[0], list(COMMANDS))
        _fail(f'no command "{args[0]}"{hint} (there are: {", ".join(COMMANDS)})')
    module, name = COMMANDS[args[0]].target.split(":")
    _guarded(getattr(importlib.import_module(module), name), args[1:])


def usage() -> str:
    rows = [f"  rlvr {name:<8} {command.about}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            "rlvr: reinforcement learning with verifiable rewards, in JAX",
            "",
            *rows,
            "",
            "rlvr <command> --help explains one; rlvr --version.  A first run:",
            "  rlvr run --config=configs/quickstart.py --workdir=runs/quickstart",
        ]
    )


def _guarded(command: Callable[[Sequence[str]], int | None], args: Sequence[str]) -> None:
    """Run a command; turn what users can cause into one line."""
    logging.basicConfig(format="note: %(message)s")  # before a library chooses a form
    try:
        sys.exit(command(args) or 0)
    except (ValueError, OSError, RuntimeError) as error:
        if isinstance(error, BrokenPipeError) and _reader_gone():
            raise
        if os.environ.get("RLVR_DEBUG") or not _meant_for_people(error):
            raise
        _fail(str(error))
    except KeyboardInterrupt:
        _fail("interrupted")


def _reader_gone() -> bool:
    """Whether the standard output is a pipe that nobody reads any more: `rlvr list | head -1`."""
    pipe = select.poll()
    pipe.register(sys.stdout.fileno(), select.POLLOUT)
    return any(event & select.POLLERR for _, event in pipe.poll(0))


def _meant_for_people(error: Exception) -> bool:
    """ValueErrors raised by this package's own code, its InvariantErrors, and missing files.
    Anything raised deeper inside a library is a bug and keeps its traceback."""
    if isinstance(error, OSError):
        return True
    if type(error) not in (ValueError,) and type(error).__name__ != "InvariantError":
        return False
    last = traceback.extract_tb(error.__traceback__)[-1].filename
    here = pathlib.Path(__file__).resolve().parent
    return (
        here in pathlib.Path(last).resolve().parents or pathlib.Path(last).parent.name == "configs"
    )


def _fail(message: str) -> None:
    print("rlvr: " + " ".join(message.split()), file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
