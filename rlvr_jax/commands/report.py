"""rlvr report: write report.html and the plots of a run folder, finished or not.

rlvr report --workdir=runs/quickstart
"""

from __future__ import annotations

from collections.abc import Sequence

from rlvr_jax.commands import flags


def main(args: Sequence[str]) -> int:
    values = flags.make_flags()
    flags.workdir_flag(values)
    flags.parse(values, args, __doc__, ("workdir",))
    from rlvr_jax.report import final_lines, write_report

    flags.run_folder(values.workdir, "metrics.jsonl")
    write_report(values.workdir)
    print("\n".join(final_lines(values.workdir)))
    return 0
