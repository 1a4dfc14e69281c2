"""Read that refuses an answer over its limits, where the tool itself would shorten it."""

from __future__ import annotations

from dataclasses import asdict

from handrail.errors import FileTooLarge, PageTooLarge, PastEnd
from handrail.frozen import frozen
from handrail.tools import read
from handrail.tools.tool import Context, Outcome


@frozen
class Limits(read.Limits):
    """Limits that a dialect may set."""

    most_lines: int | None = 2000
    page_chars: int = 60_000
    whole_bytes: int = 256 << 10
    """Above this size a part must be asked for."""


def run(args: read.Args, ctx: Context[Limits]) -> Outcome[read.Facts]:
    limits = ctx.limits
    file, about = read.open_file(args, ctx)
    medium = read.read_medium(file, ctx, about, args, limits.lines)
    if medium:
        return medium
    read.open_text(file, ctx, about)
    if file.size > limits.whole_bytes and args.offset is None and args.most is None:
        raise FileTooLarge(**asdict(about), kilobytes=file.size / 1024, most=limits.whole_bytes // 1024)
    if read.is_empty(file):
        ctx.mark_seen(file)
        raise PastEnd(**asdict(about), offset=args.first, total=1)
    most = read.count_lines(args, limits)
    # Even an endless line is read to its end, because the answer names its length.
    page = file.page(args.first, most, limits.line_chars, most * (limits.line_chars + 1), patient=True)
    chars = sum(len(row.text) + 1 for row in page.rows) - (0 if page.more or file.ended else 1)
    if chars > limits.page_chars:
        raise PageTooLarge(**asdict(about), chars=chars, most=limits.page_chars)
    return read.describe_page(file, ctx, about, page, read.show_rows(page.rows), args.most, count_all=True)


TOOL = read.TOOL.adapt(Limits, run, read.render)
