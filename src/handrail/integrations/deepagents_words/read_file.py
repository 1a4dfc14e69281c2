"""Read that takes every file as text: the framework shows images and pages itself."""

from __future__ import annotations

from handrail.tools import read
from handrail.tools.read import Facts, Limits
from handrail.tools.tool import Context, Outcome


def run(args: read.Args, ctx: Context[Limits]) -> Outcome[Facts]:
    file, about = read.open_file(args, ctx)
    read.open_text(file, ctx, about)
    if read.is_empty(file):
        return read.describe_empty(file, ctx, about, args.first)
    page = read.read_page(file, args, ctx.limits)
    return read.describe_page(file, ctx, about, page, read.show_rows(page.rows, args.column), args.most)


TOOL = read.TOOL.adapt(Limits, run, read.render, Facts)
