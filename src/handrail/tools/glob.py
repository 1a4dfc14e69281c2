"""Glob: find files by a pattern of their paths, newest first."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import islice
from operator import attrgetter
from typing import Annotated, NamedTuple, TypedDict

from handrail.errors import BadGlobPattern
from handrail.frozen import frozen
from handrail.model import Access, FileAccess
from handrail.search.receipt import Budget, Receipt
from handrail.search.results import iterate_rows
from handrail.search.tree import SearchTree
from handrail.search.walk import VisitedDirectory, Walk, WalkOptions
from handrail.text.globs import BadGlob, Glob, compile_glob, get_fixed_part
from handrail.tools.arguments import Field
from handrail.tools.notes import CountLimit, MorePaths, NoteFacts, TimeLimit, Unreadable
from handrail.tools.shared import linked_part
from handrail.tools.shared.coverage import describe_skipped
from handrail.tools.tool import Arguments, Context, Hints, Outcome, Templates, Tool

_KEPT = 1_000
_CHUNK = 10_000


class Args(Arguments):
    pattern: Annotated[str, Field(min_length=1, max_length=4096, description="Such as **/*.py or src/*.{ts,tsx}")]
    path: Annotated[str, Field(description="Directory")] = "."
    limit: Annotated[int | None, Field(ge=1, description="Max paths")] = None
    offset: Annotated[int, Field(ge=0, description="Paths to skip")] = 0
    include_hidden: Annotated[bool, Field(description="Include dot files")] = False
    include_ignored: Annotated[bool, Field(description="Include ignored files")] = False
    ignore_case: Annotated[bool, Field(hidden=True)] = False
    """Only for dialects that have such a switch."""
    rooted: Annotated[bool, Field(hidden=True)] = False
    """Only for dialects in which a pattern without a slash matches at every depth, and a leading slash means `path`."""


@frozen
class Limits:
    """Limits that a dialect may set."""

    paths: int = 100
    """Paths without `limit`."""
    most_paths: int = 1000
    seconds: float = 10.0
    visits: int | None = None
    """How many entries may be looked at."""
    skip: list[str] = field(default_factory=list)
    """Names to leave out, like ignored ones."""
    absolute: bool = False
    """Whether paths are shown in full."""


@frozen
class Facts:
    """A page of the files that match."""

    pattern: str
    path: str
    paths: Sequence[str]
    total: int
    visited: int
    """How many entries were looked at."""
    receipt: Receipt
    deeper: str | None
    """The pattern that also matches in deeper directories, if this one does not."""


class Data(TypedDict):
    paths: Sequence[str]
    total: int
    truncated: bool
    next_offset: int | None
    aborted_reason: str | None
    receipt: Mapping[str, object]


def accesses(args: Args) -> list[Access]:
    """The directory to search: for a pattern that begins with a slash, its fixed part."""
    return [FileAccess("read", _start(args)[0]), *linked_part.accesses(*_spelled(args))]


def _spelled(args: Args) -> tuple[str, str]:
    """The pattern as it is written, and the directory that it begins in."""
    start, pattern = _start(args)
    return ("/" if args.rooted and start == "." and args.pattern.startswith("/") else start), pattern


def _start(args: Args) -> tuple[str, str]:
    if args.rooted:
        return args.path, args.pattern.lstrip("/") if "/" in args.pattern else f"**/{args.pattern}"
    if not args.pattern.startswith("/"):
        return args.path, args.pattern
    fixed = "/" + get_fixed_part(args.pattern.lstrip("/"))
    return fixed, posixpath.relpath(args.pattern, fixed) if fixed != "/" else args.pattern.lstrip("/")


def run(args: Args, ctx: Context[Limits]) -> Outcome[Facts]:
    limits = ctx.limits
    start, pattern = _start(args)
    tree = ctx.tree(start)
    if args.rooted:  # where answers have full paths, a pattern may begin with one
        pattern = pattern.removeprefix(tree.real("").strip("/") + "/")
    tree, pattern = linked_part.follow(ctx, tree, *_spelled(args)) or (tree, pattern)
    try:
        glob = compile_glob(pattern, args.include_hidden, args.ignore_case)
        if not glob.says_hidden:  # then the walk decides which names with a dot are seen
            glob = compile_glob(pattern, True, args.ignore_case)
    except BadGlob as error:
        raise BadGlobPattern(pattern=args.pattern, why=str(error)) from None
    walk = tree.walk(Budget(limits.seconds, limits.visits, ctx.cancel))
    look = tree.look(hidden=args.include_hidden, ignored=args.include_ignored, skip=limits.skip)
    most = min(args.limit or limits.paths, limits.most_paths)
    needed = args.offset + most
    newest, total = _find_newest(tree, walk, look, glob, needed)
    receipt = walk.receipt
    receipt.searched = total
    page = [tree.named(path, limits.absolute) for path in newest[args.offset :]]
    following = args.offset + len(page)
    left = total - following
    notes: list[NoteFacts] = []
    if left > 0:
        notes.append(MorePaths(next=following, remaining=left, total=total, count=len(page)))
    if receipt.stopped == "time_limit":
        notes.append(TimeLimit(seconds=limits.seconds, count=walk.visited))
    elif receipt.stopped:
        notes.append(CountLimit(visits=limits.visits, count=walk.visited))
    if receipt.unreadable:
        notes.append(Unreadable(count=receipt.unreadable))
    data = Data(
        paths=page,
        total=total,
        truncated=left > 0 or bool(receipt.stopped),
        next_offset=following if left > 0 else None,
        aborted_reason=receipt.stopped or ("count_limit" if left > 0 else None),
        receipt=receipt.data(),
    )
    facts = Facts(
        pattern=args.pattern,
        path=start,
        paths=page,
        total=total,
        visited=walk.visited,
        receipt=receipt,
        deeper="**/" + args.pattern if "/" not in args.pattern and "**" not in pattern else None,
    )
    return Outcome("page" if page else "past" if total else "empty", facts, data, tuple(notes))


class _Files(NamedTuple):
    """The files of one directory that match."""

    prefix: str
    names: Sequence[str]
    mtimes: Sequence[int]
    newest: int


def _find_newest(tree: SearchTree, walk: Walk, look: WalkOptions, glob: Glob, needed: int) -> tuple[Sequence[str], int]:
    """So many of the newest files, and how many there are."""

    def see(here: VisitedDirectory) -> _Files:
        names = _list_files(here, tree)
        mtimes = here.mtimes(names)
        return _Files(here.prefix, names, mtimes, max(mtimes, default=0))

    newest: list[tuple[int, str]] = []
    total = oldest = 0
    key = "glob", glob.pattern, glob.ignore_case, look
    rows = iterate_rows(tree, walk, key, look, see, glob)
    while chunk := sorted(islice(rows, _CHUNK), key=attrgetter("newest"), reverse=True):
        total += sum(len(row.names) for row in chunk)
        for prefix, names, mtimes, latest in chunk:
            if latest < oldest:
                break
            newest += [(-mtime, prefix + name) for mtime, name in zip(mtimes, names, strict=True)]
            if len(newest) > _KEPT + needed:  # only those that may be shown are kept
                newest.sort()
                del newest[needed:]
                oldest = -newest[-1][0]
    return [path for _, path in sorted(newest)[:needed]], total


def _list_files(here: VisitedDirectory, tree: SearchTree) -> Sequence[str]:
    """The files that match, and the links to a file."""
    if not here.links:
        return here.files
    return [*here.files, *(name for name in here.links if tree.behind(here.prefix + name) == "file")]


def render(outcome: Outcome[Facts], templates: Templates) -> str:
    facts = outcome.facts
    return templates.fill(
        f"glob.{outcome.kind}",
        facts,
        paths="\n".join(facts.paths),
        skipped=describe_skipped(facts.receipt, templates),
        stopped=facts.receipt.stopped or facts.receipt.withheld or None,  # not all entries were looked at
    )


TOOL = Tool(
    id="glob",
    args=Args,
    limits=Limits,
    facts=Facts,
    data=Data,
    run=run,
    render=render,
    hints=Hints(read_only=True, idempotent=True),
    accesses=accesses,
    rendered=("skipped", "stopped"),
)
