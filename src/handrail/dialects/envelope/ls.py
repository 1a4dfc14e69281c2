"""LS that lists the files that `.gitignore` names too."""

from __future__ import annotations

from handrail.tools import ls
from handrail.tools.tool import Context, Outcome


def run(args: ls.Args, ctx: Context[ls.Limits]) -> Outcome[ls.Facts]:
    return ls.list_directory(args, ctx, obey_ignore_files=False)


TOOL = ls.TOOL.adapt(ls.Limits, run, ls.render)
