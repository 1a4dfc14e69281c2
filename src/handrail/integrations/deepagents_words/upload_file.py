"""Write that stores bytes, given in base64: files that the host program uploads."""

from __future__ import annotations

import base64
import binascii

from handrail.errors import BadArguments
from handrail.tools import write
from handrail.tools.tool import Context, Outcome
from handrail.tools.write import Facts, Limits


def run(args: write.Args, ctx: Context[Limits]) -> Outcome[Facts]:
    try:
        raw = base64.b64decode(args.content, validate=True)
    except binascii.Error:
        raise BadArguments(problems="content: not base64") from None
    # The program that uploads a file has made its contents: nothing of the old ones is kept.
    loaded = ctx.load(args.file_path, whole=True, unseen=True) if ctx.exists(args.file_path) else None
    staged = ctx.stage_bytes(args.file_path, loaded, raw)
    data = write.Data(created=loaded is None, lines=raw.count(b"\n"), bytes=len(raw))
    kind = "created" if loaded is None else "replaced" if staged.changes else "unchanged"
    return Outcome(kind, Facts(args.file_path, data["lines"]), data)


TOOL = write.TOOL.adapt(Limits, run, write.render, Facts)
