"""Grep: search the contents of files with a regular expression."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Annotated, Literal, TypedDict

from handrail.frozen import frozen
from handrail.model import Access, FileAccess
from handrail.search.excerpt import Excerpts
from handrail.search.grep import search
from handrail.search.query import Query, ResultPage
from handrail.search.receipt import Budget, Receipt
from handrail.search.results import iterate_rows
from handrail.search.tree import SearchTree
from handrail.search.walk import VisitedDirectory
from handrail.tools.arguments import Field
from handrail.tools.notes import MoreResults, NotAllSearched, NoteFacts, TimeLimit
from handrail.tools.shared import linked_part
from handrail.tools.shared.coverage import describe_skipped
from handrail.tools.tool import Arguments, Context, Hints, Outcome, Reads, Templates, Tool

_MOST_CONTEXT = 100


class Args(Arguments):
    pattern: Annotated[str, Field(min_length=1, description="Regular expression")]
    path: Annotated[Reads, Field(description="File or directory")] = "."
    literal: Annotated[bool, Field(description="Plain text pattern")] = False
    glob: Annotated[str | None, Field(min_length=1, description="Such as *.py or !*.min.js")] = None
    type: Annotated[str | None, Field(min_length=1, description="Such as py or ts")] = None
    output_mode: Annotated[
        Literal["files_with_matches", "content", "count"], Field(description="Paths, lines, or lines per file")
    ] = "files_with_matches"
    ignore_case: Annotated[bool, Field(description="Ignore case")] = False
    multiline: Annotated[bool, Field(description=". matches line breaks too")] = False
    context: Annotated[int | None, Field(ge=0, description="Context lines")] = None
    before: Annotated[int | None, Field(ge=0, description="Lines before")] = None
    after: Annotated[int | None, Field(ge=0, description="Lines after")] = None
    head_limit: Annotated[int | None, Field(ge=1, description="Max results")] = None
    offset: Annotated[int, Field(ge=0, description="Results to skip")] = 0
    sort: Annotated[Literal["newest", "path"] | None, Field(description="File order")] = None
    include_hidden: Annotated[bool, Field(description="Include dot files")] = False
    include_ignored: Annotated[bool, Field(description="Include ignored files")] = False
    line_numbers: Annotated[bool, Field(hidden=True)] = True
    """Only for dialects that have such a switch."""


@frozen
class Limits:
    """Limits that a dialect may set."""

    results: int = 100
    """Results without `head_limit`."""
    most_results: int = 2000
    seconds: float = 10.0
    line_chars: int = 300
    """Of a longer line the part around the match is shown."""
    page_chars: int = 25_000
    absolute: bool = False
    """Whether paths are given in full."""
    skip: list[str] = field(default_factory=list)
    """Names that are left out like ignored ones."""


@frozen
class Row:
    """A line of the answer. Its kind names its template."""

    kind: Literal["heading", "match", "context", "gap", "file", "count"]
    file: str = ""
    line: int | None = None
    """None if lines are not numbered."""
    text: str = ""
    number: int = 0
    """How many lines match, for a count."""
    cut: bool = False
    """Whether the line is longer than its text here."""
    inner: str = ""
    """The path of the file below the directory that was searched."""

    @property
    def is_result(self) -> bool:
        """Whether it is a result, and not only something around one."""
        return self.kind not in ("heading", "context", "gap")


@frozen
class Facts:
    pattern: str
    path: str
    rows: Sequence[Row]
    receipt: Receipt
    next: int | None
    """The offset to continue with, if exactly the results that were asked for are shown and more follow."""
    searched: int
    complete: bool
    past: int | None
    """How many results were skipped."""
    glob: str | None
    type: str | None


class Match(TypedDict):
    file: str
    line: int
    text: str


class Count(TypedDict):
    file: str
    count: int


class Data(TypedDict, total=False):
    matches: list[Match]
    counts: list[Count]
    files: list[str]
    truncated: bool
    next_offset: int | None
    receipt: Mapping[str, object]
    fallback_used: bool
    fallback_reason: str | None
    aborted_reason: str | None


def run(args: Args, ctx: Context[Limits]) -> Outcome[Facts]:
    limits = ctx.limits
    tree = ctx.tree(args.path)
    tree, glob = linked_part.follow(ctx, tree, args.path, args.glob or "") or (tree, args.glob or "")
    query, budget = replace(_query(args, limits), glob=glob), Budget(limits.seconds, cancel=ctx.cancel)
    page = search(query, tree, budget)
    if not (page.files or tree.is_file or tree.is_large):
        linked = page.receipt.linked_directories
        page.receipt.links += _count_linked_directories(query, tree, budget) if linked is None else linked
    rows, complete = _fit_rows(page, args, tree, limits)
    more = page.more or not complete
    results = sum(row.is_result for row in rows)
    following = args.offset + results if more else None
    stopped = more and args.head_limit != results
    receipt = page.receipt
    facts = Facts(
        pattern=args.pattern,
        path=args.path,
        rows=rows if args.line_numbers else [replace(row, line=None) for row in rows],
        receipt=receipt,
        next=None if stopped else following,
        searched=receipt.searched,
        complete=receipt.complete,
        past=args.offset or None,
        glob=args.glob,
        type=args.type,
    )
    data = _build_data(args.output_mode, rows) | Data(
        truncated=more,
        next_offset=following,
        receipt=receipt.data(),
        fallback_used=bool(receipt.fallback),
        fallback_reason=receipt.fallback or None,
        aborted_reason=receipt.stopped or ("count_limit" if more else None),
    )
    notes = _list_notes(receipt, limits)
    if stopped:
        notes.append(MoreResults(next=following, count=results))
    return Outcome("found" if rows else "nothing", facts, data, tuple(notes))


def accesses(args: Args) -> list[Access]:
    return [FileAccess("read", args.path), *linked_part.accesses(args.path, args.glob or "")]


def _count_linked_directories(query: Query, tree: SearchTree, budget: Budget) -> int:
    """The links to directories that a search without a result has passed over."""
    look = tree.look(hidden=query.hidden, ignored=query.ignored, skip=query.skip)

    def count(here: VisitedDirectory) -> int:
        return sum(here.listing.is_directory(here.path, name) for name in here.links)

    return sum(iterate_rows(tree, tree.walk(budget), ("linked directories", look), look, count))


def _query(args: Args, limits: Limits) -> Query:
    around = args.context or 0
    return Query(
        args.pattern,
        literal=args.literal,
        ignore_case=args.ignore_case,
        multiline=args.multiline,
        mode=args.output_mode,
        before=min(around if args.before is None else args.before, _MOST_CONTEXT),
        after=min(around if args.after is None else args.after, _MOST_CONTEXT),
        glob=args.glob or "",
        type=args.type or "",
        hidden=args.include_hidden,
        ignored=args.include_ignored,
        order=args.sort or "newest",
        offset=args.offset,
        limit=min(args.head_limit or limits.results, limits.most_results),
        skip=tuple(limits.skip),
    )


def _fit_rows(page: ResultPage, args: Args, tree: SearchTree, limits: Limits) -> tuple[list[Row], bool]:
    """The rows of the answer as far as there is room, and whether these are all."""
    rows: list[Row] = []
    room = limits.page_chars
    for row in _list_rows(page, args, tree, limits):
        room -= len(row.file) + len(row.text) + 10
        if room < 0 and rows and row.is_result:
            while rows and not rows[-1].is_result and rows[-1].kind != "context":
                rows.pop()
            return rows, False
        rows.append(row)
    return rows, True


def _list_rows(page: ResultPage, args: Args, tree: SearchTree, limits: Limits) -> Iterator[Row]:
    excerpts = Excerpts(tree, limits.line_chars)
    grouped = bool(args.context or args.before or args.after)
    for number, one in enumerate(page.files):
        path = tree.named(one.path, limits.absolute)
        if args.output_mode != "content":
            yield Row("count" if args.output_mode == "count" else "file", path, number=one.number)
            continue
        last = None
        for hit in one.hits:
            if grouped and (bool(number) if last is None else hit.line > last + 1):
                yield Row("gap")
            if last is None:
                yield Row("heading", path)
            last = hit.line
            text, shortened = excerpts.excerpt(one, hit)
            yield Row("match" if hit.matched else "context", path, hit.line, text, cut=shortened, inner=one.path)


def _build_data(mode: str, rows: list[Row]) -> Data:
    if mode == "content":
        matches = [Match(file=row.file, line=row.line or 0, text=row.text) for row in rows if row.is_result]
        return Data(matches=matches)
    if mode == "count":
        return Data(counts=[Count(file=row.file, count=row.number) for row in rows])
    return Data(files=[row.file for row in rows])


def _list_notes(receipt: Receipt, limits: Limits) -> list[NoteFacts]:
    notes: list[NoteFacts] = []
    if receipt.stopped == "time_limit":
        notes.append(TimeLimit(seconds=limits.seconds))
    if receipt.unreadable or receipt.large:
        notes.append(NotAllSearched(reasons=receipt.complaints))
    return notes


def render(outcome: Outcome[Facts], templates: Templates) -> str:
    facts = outcome.facts
    filled = [(row.kind, templates.fill(f"grep.{row.kind}", row)) for row in facts.rows]
    rows = "\n".join(text for kind, text in filled if text or kind != "heading")
    passed = describe_skipped(facts.receipt, templates)
    return templates.fill(f"grep.{outcome.kind}", facts, rows=rows, passed=passed)


TOOL = Tool(
    id="grep",
    args=Args,
    limits=Limits,
    facts=Facts,
    data=Data,
    run=run,
    render=render,
    accesses=accesses,
    hints=Hints(read_only=True, idempotent=True),
    rendered=("passed",),
    rows=dict.fromkeys(("heading", "match", "context", "gap", "file", "count"), Row),
)
