"""Programs as answers: the completion's last Python block is run in a sandbox and tested.

The solution never sees a test or an expectation: it gets inputs, and what it returns or prints is
compared on this side (code_tests.py).  What the sandbox keeps out is in docs/code_sandbox.md.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import time
from collections.abc import Iterator

from rlvr_jax.rewards.base import REWARDS, Example, Reward, check_finite
from rlvr_jax.rewards.code_fences import last_code
from rlvr_jax.rewards.code_tests import Call, Plan, Script, parse_plan, same_output, same_value
from rlvr_jax.rewards.extract import final_text
from rlvr_jax.rewards.sandbox import (
    Fault,
    Limits,
    Program,
    Sandbox,
    functions,
    open_sandbox,
    pass_on,
    referee,
    run,
)
from rlvr_jax.types import Completion, Problem, Verdict

log = logging.getLogger(__name__)

MAX_CHARS = 100_000  # longer programs are wrong unread


@functools.lru_cache(maxsize=8)
def _shelf(limits: Limits) -> list[Sandbox]:
    """Where this process keeps its sandbox between solutions."""
    return []


@functools.lru_cache(maxsize=1)
def _warn(lacks: tuple[str, ...]) -> None:
    log.warning("code reward: this system does not give the sandbox: %s", "; ".join(lacks))


def _box(limits: Limits, isolation: str) -> Sandbox:
    shelf = _shelf(limits)
    if not shelf or not shelf[0].usable:
        shelf[:] = [open_sandbox(limits)]
        if shelf[0].lacks and isolation == "required":
            raise ValueError(f"reward code: the sandbox lacks {'; '.join(shelf[0].lacks)}")
        if shelf[0].lacks:
            _warn(shelf[0].lacks)
    return shelf[0]


@REWARDS.register("code")
@dataclasses.dataclass(frozen=True)
class Code(Reward):
    """Pays for a Python program that passes all tests of the problem (see code_tests.parse_plan).

    timeout_s: wall seconds of one test, where the problem does not say.  deadline_s: of all tests.
    partial: pay the share of tests passed instead (a program that always says YES earns a half).
    tolerance: absolute or relative difference allowed between floats; 0: none.
    sandbox_mb: memory of one process.  site_packages: let programs import installed packages.
    isolation: "auto", the best this system has; "required": without namespaces nothing is graded.
    right, wrong: what a right and a wrong program earn.
    """

    timeout_s: float = 2.0
    deadline_s: float = 20.0
    partial: bool = False
    tolerance: float = 0.0
    sandbox_mb: int = 512
    site_packages: bool = False
    isolation: str = "auto"
    right: float = 1.0
    wrong: float = 0.0

    in_worker = True
    memory_mb = 0  # of the worker, which only reads bounded messages; programs have `sandbox_mb`

    def __post_init__(self):
        check_finite(right=self.right, wrong=self.wrong, tolerance=self.tolerance)
        if self.isolation not in ("auto", "required"):
            raise ValueError(f'code: isolation is "auto" or "required", got "{self.isolation}"')
        if not 0 < self.timeout_s <= self.deadline_s or self.tolerance < 0:
            raise ValueError(
                "code: 0 < timeout_s <= deadline_s and tolerance >= 0 must hold, got "
                f"{self.timeout_s}, {self.deadline_s}, {self.tolerance}"
            )
        self.limits  # noqa: B018  (raises for a bad value)

    @property
    def limits(self) -> Limits:
        """What one program may use."""
        return Limits(
            cpu_s=self.deadline_s, memory_mb=self.sandbox_mb, site_packages=self.site_packages
        )

    def warm_up(self) -> None:
        _box(self.limits, self.isolation)

    def gold_fault(self, problem: Problem) -> str:
        """The tests are parsed; nothing is run."""
        try:
            parse_plan(problem)
        except Exception as error:  # a fault of the data, whatever it raises
            return str(error)
        return ""

    def quick(self, completion: Completion, problem: Problem) -> Verdict | None:
        """Without code there is nothing to run."""
        code = last_code(final_text(completion.text))
        if code is None or len(code) > MAX_CHARS:
            reason = "no_code" if code is None else "too_long"
            return Verdict(status="wrong", score=self.wrong, reason=reason, stage="extract")
        return None

    def __call__(self, completion: Completion, problem: Problem) -> Verdict:
        verdict = self.quick(completion, problem)
        if verdict is not None:
            return verdict
        try:
            plan = parse_plan(problem)
        except ValueError as error:  # a fault of the data, not of the answer
            return Verdict(status="unknown", reason="bad_gold", stage="gold", gold=str(error))
        code = last_code(final_text(completion.text))
        try:
            reasons = self._test(plan, code)
        except BadTest as error:
            return Verdict(
                status="unknown", reason="bad_test", stage="tests", extracted=code, gold=str(error)
            )
        passed = reasons.count("") / len(plan.cases)
        share = passed if self.partial else float(passed == 1)
        first = next((reason for reason in reasons if reason), "")
        return Verdict(
            status="scored" if share > 0 else "wrong",
            score=self.wrong + (self.right - self.wrong) * share,
            reason=first,
            parts={"correct": float(passed == 1), "passed": passed},
            stage="tests",
            extracted=code,
            gold=f"{len(plan.cases)} tests",
        )

    def _test(self, plan: Plan, code: str) -> list[str]:
        """A reason for each test that was run, "" where it passed."""
        spare = min(1.0, self.deadline_s / 4)  # to end by ourselves, not by the pool's deadline
        session = _Session(self, plan, code, time.monotonic() + self.deadline_s - spare)
        reasons: list[str] = []
        while len(reasons) < len(plan.cases):
            for reason in session.results(len(reasons)):
                reasons.append(reason)
                if reason and not self.partial:
                    return reasons
        return reasons

    @classmethod
    def example(cls) -> Example:
        tests = ["assert double(2) == 4", "assert double(-3) == -6"]
        problem = Problem(
            prompt="Write double(x).",
            answer="",
            index=0,
            meta={"mode": "assert", "tests": tests, "entry": "double"},
        )
        right = "```python\ndef double(x):\n    return 2 * x\n```"
        return Example(cls(), problem, right, wrong="```python\ndef double(x):\n    return 4\n```")


class BadTest(Exception):
    """A test that cannot be carried out, whatever the solution is."""


class _Session:
    """The tests of one solution, one after the other."""

    def __init__(self, reward: Code, plan: Plan, code: str, until: float):
        self.reward, self.plan, self.code, self.until = reward, plan, code, until
        self.timeout_s = plan.timeout_s or reward.timeout_s

    def results(self, first: int) -> Iterator[str]:
        """Reasons of the tests from `first` on, until one of them ended the program."""
        cases = self.plan.cases[first:]
        if isinstance(cases[0], Script):
            for case in cases:
                yield self._script(case)
            return
        try:
            with functions(self._sandbox(), self.code, self._left()) as solution:
                if self.plan.names:
                    yield from self._refereed(solution, cases)
                    return
                for case in cases:
                    yield self._call(solution, case)
        except Fault as fault:  # this test's; the next one gets a fresh program
            yield fault.reason

    def _sandbox(self) -> Sandbox:
        return _box(self.reward.limits, self.reward.isolation)

    def _left(self) -> float:
        left = self.until - time.monotonic()
        if left <= 0:
            raise Fault("timeout")
        return min(self.timeout_s, left)

    def _script(self, case: Script) -> str:
        try:
            output, status = run(self._sandbox(), self.code, case.stdin, self._left())
        except Fault as fault:
            return fault.reason
        if status:
            return "crash" if status < 0 else "exit_code"
        text = output.decode("utf-8", "replace")
        return "" if same_output(text, case.expected, self.reward.tolerance) else "mismatch"

    def _call(self, solution: Program, case: Call) -> str:
        reply = solution.call(case.name, case.arguments, self._left(), case.keywords)
        if reply[0] == "error":
            return "error"
        loose = self.plan.mode == "call"
        same = same_value(reply[1], case.expected, self.reward.tolerance, loose)
        return "" if same else "mismatch"

    def _refereed(self, solution: Program, cases: tuple[str, ...]) -> Iterator[str]:
        """Tests in a second sandbox, whose calls are passed on to the solution's."""
        limits = dataclasses.replace(self.reward.limits, site_packages=True)  # the tests are ours
        with (
            open_sandbox(limits) as box,
            referee(box, list(self.plan.names), self._left()) as tests,
        ):
            self._import(tests)
            if self.plan.setup and _one_test(tests, solution, self.plan.setup, self._left())[0]:
                yield from ["error"] * len(cases)
                return
            for place, source in enumerate(cases):
                reason, met = _one_test(tests, solution, source, self._left())
                if not met and place == len(cases) - 1:
                    raise BadTest("the tests never ask the solution for anything")
                yield reason

    def _import(self, tests: Program) -> None:
        """The modules that the tests need; the solution is not charged for their time."""
        left = self.until - time.monotonic()
        try:
            tests.send(["import", self.plan.imports], left)
            done = tests.receive(left)
        except Fault as fault:
            raise BadTest(f"the imports of the tests: {fault}") from None
        if done[0] != "imported":
            raise BadTest("the imports of the tests: " + ": ".join(map(str, done[1:])))


def _one_test(tests: Program, solution: Program, source: str, timeout_s: float) -> tuple[str, bool]:
    """(The reason why the test fails or "", whether the tests have met the solution so far)."""
    until = time.monotonic() + timeout_s
    tests.send(["test", source], timeout_s)
    while True:
        message = tests.receive(until - time.monotonic())
        if message[0] == "passed":
            return "", message[1]
        if message[0] == "failed":
            return "mismatch", True
        if message[0] == "unable":
            raise BadTest(": ".join(map(str, message[1:])))
        reply = solution.forward(message, until - time.monotonic())
        pass_on(tests, reply, until - time.monotonic())
