"""Bash whose `apply_patch` command replaces a file that exists, as the tool of this dialect does."""

from __future__ import annotations

from handrail.tools import bash
from handrail.tools.shared import patch_call
from handrail.tools.tool import Context, Outcome


def run(args: bash.Args, ctx: Context[bash.Limits]) -> Outcome[bash.Facts]:
    if args.patch:
        return patch_call.run(args.patch, args.workdir, ctx, add_overwrites=True)
    return bash.run(args, ctx)


TOOL = bash.TOOL.adapt(bash.Limits, run, bash.render)
