"""Glob that fails if it runs out of time, where the tool itself gives the files that it has found so far."""

from __future__ import annotations

from handrail.errors import SearchTimedOut
from handrail.tools import glob
from handrail.tools.tool import Context, Outcome


def run(args: glob.Args, ctx: Context[glob.Limits]) -> Outcome[glob.Facts]:
    outcome = glob.run(args, ctx)
    if outcome.facts.receipt.stopped == "time_limit":
        raise SearchTimedOut(seconds=ctx.limits.seconds, pattern=args.pattern)
    return outcome


TOOL = glob.TOOL.adapt(glob.Limits, run, glob.render)
