"""Running foreign Python: a separate process behind namespaces, limits and a system-call filter.

Read host.py and programs.py (the caller's side), then child.py and runner.py (the far side, started
as a script of its own), serving.py and referee.py (both sides of a call), isolate.py (what shuts it
in) and plain.py (the only data that pass).
"""

from rlvr_jax.rewards.sandbox.host import Limits, Sandbox, open_sandbox
from rlvr_jax.rewards.sandbox.programs import (
    Fault,
    Handle,
    Program,
    functions,
    pass_on,
    referee,
    run,
)

__all__ = [
    "Fault",
    "Handle",
    "Limits",
    "Program",
    "Sandbox",
    "functions",
    "open_sandbox",
    "pass_on",
    "referee",
    "run",
]
