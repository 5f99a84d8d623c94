"""rlvr doctor: run the invariants on your own config, in under two minutes.

  rlvr doctor --config=configs/quickstart.py
  rlvr doctor --config=my.py --config.model.compute_dtype=bfloat16

Prints a table of what was checked, what was found and what is allowed; exit code 1 if a check
fails.
"""

from __future__ import annotations

from collections.abc import Sequence

from rlvr_jax.commands import flags


def main(args: Sequence[str]) -> int:
    values = flags.make_flags()
    flags.config_flag(values)
    flags.parse(values, args, __doc__, ("config",))
    flags.prepare_process()
    from rich.console import Console
    from rich.table import Table

    from rlvr_jax.config import build
    from rlvr_jax.doctor import examine

    table = Table(title="rlvr doctor")
    for column in ("check", "found", "allowed", ""):
        table.add_column(column)
    failed = 0
    for row in examine(build(values.config)):
        failed += not row.ok
        table.add_row(row.name, row.found, row.allowed, "ok" if row.ok else "[red]FAILED[/red]")
    console = Console()
    with console.capture() as drawn:  # rich itself would end the program where nobody reads on
        console.print(table)
    print(drawn.get(), end="")
    return 1 if failed else 0
