"""View: read a file or list a directory, for models that know one tool for both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, cast

from handrail.errors import BadArguments
from handrail.frozen import frozen
from handrail.tools import ls, read
from handrail.tools.arguments import AfterValidator, Field
from handrail.tools.tool import Arguments, Context, Hints, L, Outcome, Reads, Templates, Tool

_ALL_LINES = 1 << 40


def _check_order(lines: list[int]) -> list[int]:
    if lines[0] < 1 or 0 < lines[1] < lines[0]:
        raise ValueError("the first line is 1, and the last line must not be before the first")
    return lines


Range = Annotated[list[int], Field(min_length=2, max_length=2), AfterValidator(_check_order)]
"""First and last line; a last line of 0 or less is the end of the file."""


class Args(Arguments):
    path: Annotated[Reads, Field(description="The file or directory")]
    view_range: Annotated[
        Range | None, Field(description="First and last line of a file, from 1; [N, -1] shows the rest")
    ] = None


@frozen
class Limits:
    """Limits that a dialect may set."""

    max_characters: int = 60_000
    """Of a longer file, or part of one, so much is shown, in whole lines."""
    depth: int = 2
    """How many levels of a directory are shown."""
    entries: int = 1000
    """Entries of a directory at the most."""


Facts = read.Facts | ls.Facts


class Data(read.Data, total=False):
    """Data of Read for a file, or of LS for a directory."""

    entries: list[ls.EntryData]
    total: int
    aborted_reason: str | None
    receipt: Mapping[str, object]


def run(args: Args, ctx: Context[Limits]) -> Outcome[Facts]:
    limits = ctx.limits
    if not ctx.tree(args.path).is_file:
        if args.view_range is not None:
            raise BadArguments(problems="- view_range: only for a file, and this is a directory")
        listing = ls.Limits(entries=limits.entries, most_entries=limits.entries)
        return ls.run(ls.Args(path=args.path, depth=limits.depth), with_limits(ctx, listing))
    first, last = args.view_range or (1, -1)
    most = last - first + 1 if last > 0 else None
    many = limits.max_characters
    whole = read.Limits(lines=_ALL_LINES, line_chars=many, page_chars=many)
    return read.run(read.Args(file_path=args.path, offset=first, limit=most), with_limits(ctx, whole))


class _OtherLimits:
    """The context of a call, with the limits of the tool that does the work."""

    def __init__(self, ctx: Context[object], limits: object) -> None:
        self._ctx = ctx
        self.limits = limits

    def __getattr__(self, name: str) -> object:
        return getattr(self._ctx, name)


def with_limits(ctx: Context[object], limits: L) -> Context[L]:
    """The same context under other limits: for a tool that does its work with another one."""
    return cast("Context[L]", _OtherLimits(ctx, limits))


def render(outcome: Outcome[Facts], templates: Templates) -> str:
    if isinstance(outcome.facts, ls.Facts):
        return ls.render(outcome.with_facts(outcome.facts), templates)
    return read.render(outcome.with_facts(outcome.facts), templates)


TOOL = Tool(
    id="view",
    args=Args,
    limits=Limits,
    facts=Facts,
    data=Data,
    run=run,
    render=render,
    hints=Hints(read_only=True, idempotent=True),
)
