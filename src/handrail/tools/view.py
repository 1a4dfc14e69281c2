"""View: a file, or a part of it, or what a directory holds: for models that know one tool for both."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import ModuleType
from typing import Annotated, Any, cast

from handrail.errors import BadArguments
from handrail.tools import ls, read
from handrail.tools.arguments import AfterValidator, Field
from handrail.tools.tool import Arguments, Context, Hints, Outcome, Reads, Tool, Words

_ALL_LINES = 1 << 40
_SAYS: dict[str, ModuleType] = {"read": read, "ls": ls}


def _ordered(found: list[int]) -> list[int]:
    if found[0] < 1 or 0 < found[1] < found[0]:
        raise ValueError("the first line is 1, and the last one does not lie before the first")
    return found


Range = Annotated[list[int], Field(min_length=2, max_length=2), AfterValidator(_ordered)]
"""First and last line; a last line of 0 or less is the end of the file."""


class Args(Arguments):
    path: Annotated[Reads, Field(description="The file or directory")]
    view_range: Annotated[
        Range | None, Field(description="First and last line of a file, from 1; [N, -1] goes to the end")
    ] = None


@dataclass(frozen=True, slots=True)
class Limits:
    """What a dialect may set."""

    max_characters: int = 60_000
    """Of a longer file, or part of one, so much is shown, in whole lines."""
    depth: int = 2
    """How many levels of a directory are shown."""
    entries: int = 1000
    """Entries of a directory at the most."""
    ignore_files: bool = True
    """Whether what `.gitignore` and its kin leave out is left out of directories."""


def run(args: Args, ctx: Context) -> Outcome:
    limits: Limits = ctx.limits
    if not ctx.tree(args.path).is_file:
        if args.view_range is not None:
            raise BadArguments(problems="- view_range: only for a file, and this is a directory")
        found = ls.Limits(entries=limits.entries, most_entries=limits.entries, ignore_files=limits.ignore_files)
        return borrowed("ls", ls.run(ls.Args(path=args.path, depth=limits.depth), lent(ctx, found)))
    first, last = args.view_range or (1, -1)
    most = last - first + 1 if last > 0 else None
    many = limits.max_characters
    whole = read.Limits(lines=_ALL_LINES, line_chars=many, page_chars=many)
    return borrowed("read", read.run(read.Args(file_path=args.path, offset=first, limit=most), lent(ctx, whole)))


class _Lent:
    """The context of a call, with the limits of the tool that does the work."""

    def __init__(self, ctx: Context, limits: Any) -> None:
        self._ctx = ctx
        self.limits = limits

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)


def lent(ctx: Context, limits: Any) -> Context:
    """The same context under other limits: for a tool that does its work with another one."""
    return cast("Context", _Lent(ctx, limits))


def borrowed(tool: str, outcome: Outcome) -> Outcome:
    """An outcome of another tool, to be said by that one."""
    return replace(outcome, kind=f"{tool}.{outcome.kind}")


def say(outcome: Outcome, words: Words) -> str:
    tool, _, kind = outcome.kind.partition(".")
    said: str = _SAYS[tool].say(replace(outcome, kind=kind), words)
    return said


TOOL = Tool(id="view", args=Args, limits=Limits, run=run, say=say, hints=Hints(read_only=True, idempotent=True))
