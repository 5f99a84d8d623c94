"""Sources of problems with a checkable answer, on the host.  Nothing here imports jax.

Read `base` (what a task is), `arithmetic` (the shortest generator), `jsonl` (files), and
`pipeline` (the order of training).  A new file that registers a task is found by itself.
"""

from rlvr_jax.registry import discover
from rlvr_jax.tasks.base import TASKS as TASKS
from rlvr_jax.tasks.base import ReadsFiles as ReadsFiles
from rlvr_jax.tasks.base import Split as Split
from rlvr_jax.tasks.base import SplitName as SplitName
from rlvr_jax.tasks.base import Task as Task
from rlvr_jax.tasks.pipeline import stream as stream

discover(__name__, __path__)
