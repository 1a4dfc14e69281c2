"""Read of UTF-8 text alone, with an answer that is partial whenever more lines follow."""

from __future__ import annotations

from dataclasses import asdict, replace

from handrail.errors import BinaryFile
from handrail.frozen import frozen
from handrail.tools import read
from handrail.tools.notes import FallbackEncoding, LongLines
from handrail.tools.tool import Context, Outcome


@frozen
class Limits(read.Limits):
    """Limits that a dialect may set."""

    lines: int = 500
    most_lines: int | None = 2000
    line_chars: int = 1_000_000
    page_chars: int = 200_000
    nul_bytes: int = 8192
    """A NUL in so many bytes at the beginning makes a file binary."""


def run(args: read.Args, ctx: Context[Limits]) -> Outcome[read.Facts]:
    limits = ctx.limits
    file, about = read.open_file(args, ctx)
    if b"\0" in file.head(limits.nul_bytes):
        ctx.mark_seen(file)  # there is no more to see of it, so that it may be overwritten knowingly
        raise BinaryFile(**asdict(about), why="it holds a NUL byte")
    read.open_text(file, ctx, about, only_utf8=True)
    if read.is_empty(file):
        return read.describe_empty(file, ctx, about, args.first)
    page = read.read_page(file, args, limits)
    outcome = read.describe_page(file, ctx, about, page, read.show_rows(page.rows), None, count_all=True)
    if not file.replaced:
        return outcome
    # Notes about long lines come last.
    notes = sorted((*outcome.notes, FallbackEncoding()), key=lambda note: isinstance(note, LongLines))
    return replace(outcome, notes=tuple(notes))


TOOL = read.TOOL.adapt(Limits, run, read.render)
