"""Read that shows each line behind its number and tag, for Edit. A line that is not shown completely has no tag."""

from __future__ import annotations

from handrail.text.line_tags import label_line
from handrail.tools import read
from handrail.tools.tool import Context, Outcome


def run(args: read.Args, ctx: Context[read.Limits]) -> Outcome[read.Facts]:
    file, about = read.open_file(args, ctx)
    medium = read.read_medium(file, ctx, about, args, ctx.limits.lines)
    if medium:
        return medium
    read.open_text(file, ctx, about)
    if read.is_empty(file):
        ctx.tags.show(file, 0, 0)
        return read.describe_empty(file, ctx, about, args.first)
    page = read.read_page(file, args, ctx.limits)
    read.require_column(page, args, about)
    rows = [_label(row) for row in read.show_rows(page.rows, args.column)]
    if args.column > 1:
        rows[0] = rows[0]._replace(label=rows[0].row.number)
    outcome = read.describe_page(file, ctx, about, page, rows, args.most)
    first = rows[0].row.number
    for row in rows:
        if isinstance(row.label, int):  # no tag: a gap
            ctx.tags.show(file, first, row.row.number - 1)
            first = row.row.number + 1
    ctx.tags.show(file, first, rows[-1].row.number)
    return outcome


def _label(row: read.ShownRow) -> read.ShownRow:
    number = row.row.number
    return row if row.cut or number < 0 else row._replace(label=label_line(number, row.text))


TOOL = read.TOOL.adapt(read.Limits, run, read.render)
