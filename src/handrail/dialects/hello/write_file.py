"""Write that writes UTF-8 exactly as it is given, whatever encoding and line endings the file had."""

from __future__ import annotations

from dataclasses import replace

from handrail.text.document import UTF8, Document
from handrail.tools import write
from handrail.tools.tool import Context, Outcome


def run(args: write.Args, ctx: Context[write.Limits]) -> Outcome[write.Facts]:
    if not ctx.exists(args.file_path):
        return write.create(args, ctx)
    loaded = ctx.load(args.file_path, whole=True)
    if loaded.document.codec is not UTF8:
        loaded = replace(loaded, document=Document(loaded.document.text.encode("utf-8", "replace"), UTF8))
    return write.replace_contents(args, ctx, loaded, args.content)


TOOL = write.TOOL.adapt(write.Limits, run, write.render)
