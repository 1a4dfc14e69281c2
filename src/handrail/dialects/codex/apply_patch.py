"""ApplyPatch whose Add replaces a file that exists."""

from __future__ import annotations

from handrail.tools import apply_patch
from handrail.tools.tool import Context, Outcome


def run(args: apply_patch.Args, ctx: Context[apply_patch.Limits]) -> Outcome[apply_patch.Facts]:
    return apply_patch.apply_patch(args, ctx, add_overwrites=True)


TOOL = apply_patch.TOOL.adapt(apply_patch.Limits, run, apply_patch.render)
