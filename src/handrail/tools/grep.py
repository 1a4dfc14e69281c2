"""Grep: search the contents of files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from handrail.search.excerpt import Excerpts
from handrail.search.grep import search
from handrail.search.query import Query, ResultPage
from handrail.search.receipt import Budget, Receipt
from handrail.search.tree import SearchTree
from handrail.tools.arguments import Field
from handrail.tools.shared.coverage import passed_over
from handrail.tools.tool import Arguments, Context, Hints, Outcome, Reads, Remark, Tool, Words

_MOST_CONTEXT = 100


class Args(Arguments):
    pattern: Annotated[str, Field(min_length=1, description="Regular expression")]
    path: Annotated[Reads, Field(description="File or directory")] = "."
    literal: Annotated[bool, Field(description="Take it as plain text")] = False
    glob: Annotated[str | None, Field(min_length=1, description="Such as *.py or !*.min.js")] = None
    type: Annotated[str | None, Field(min_length=1, description="Such as py or ts")] = None
    output_mode: Annotated[
        Literal["files_with_matches", "content", "count"], Field(description="Paths, path:line:text, or lines per file")
    ] = "files_with_matches"
    ignore_case: Annotated[bool, Field(description="A is a")] = False
    multiline: Annotated[bool, Field(description="Across lines; . matches line breaks")] = False
    context: Annotated[int | None, Field(ge=0, description="Lines around it")] = None
    before: Annotated[int | None, Field(ge=0, description="Lines before")] = None
    after: Annotated[int | None, Field(ge=0, description="Lines after")] = None
    head_limit: Annotated[int | None, Field(ge=1, description="Most results")] = None
    offset: Annotated[int, Field(ge=0, description="Results to skip")] = 0
    sort: Annotated[Literal["newest", "path"] | None, Field(description="File order")] = None
    include_hidden: Annotated[bool, Field(description="Dot files too")] = False
    include_ignored: Annotated[bool, Field(description="Ignored ones too")] = False
    line_numbers: Annotated[bool, Field(hidden=True)] = True
    """Only for dialects that have such a switch."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a dialect may set."""

    results: int = 100
    """Results without `head_limit`."""
    most_results: int = 2000
    seconds: float = 10.0
    line_chars: int = 300
    """Of a longer line the part around the match is shown."""
    page_chars: int = 60_000
    sort: str = "newest"
    absolute: bool = False
    """Whether paths are given in full."""
    literal_only: bool = False
    """Whether a pattern is always plain text."""
    file_bytes: int | None = None
    """Larger files are not searched."""
    skip: list[str] = field(default_factory=list)
    """Names that are left out like ignored ones."""
    cut_is_partial: bool = False
    """Whether a match of which only a part is shown makes the answer partial."""
    fallback_is_partial: bool = False
    """Whether it is told if the search was made without ripgrep."""


def run(args: Args, ctx: Context) -> Outcome:
    limits: Limits = ctx.limits
    tree = ctx.tree(args.path)
    query = _query(args, limits)
    page = search(query, tree, Budget(limits.seconds))
    rows, all_of_it = _rows(page, args, tree, limits)
    more = page.more or not all_of_it
    results = sum(row.counts for row in rows)
    following = args.offset + results if more else None
    receipt = page.receipt
    facts: dict[str, Any] = {
        "pattern": args.pattern,
        "path": args.path,
        "rows": rows,
        "numbered": args.line_numbers,
        "receipt": receipt,
        "next": following,
        "searched": receipt.searched,
        "complete": receipt.complete,
        "past": args.offset or None,
        "glob": args.glob,
        "type": args.type,
    }
    remarks = _remarks(receipt, limits)
    if more and args.head_limit != results:
        remarks.append(Remark("more_results", {"next": following, "count": results}))
        facts["next"] = None
    cut = [row for row in rows if row.cut] if limits.cut_is_partial else []
    if cut:
        where = {"count": len(cut), "chars": limits.line_chars, "file": cut[0].path, "line": cut[0].line}
        remarks.append(Remark("cut_matches", where))
    data = {**_data(args.output_mode, rows), "truncated": more or bool(cut), "next_offset": following}
    data |= {"receipt": receipt.data(), "fallback_used": bool(receipt.fallback)}
    data["fallback_reason"] = receipt.fallback or None
    data["aborted_reason"] = receipt.stopped or ("count_limit" if more else None)
    return Outcome("found" if rows else "nothing", facts, data, tuple(remarks))


def _query(args: Args, limits: Limits) -> Query:
    around = args.context or 0
    return Query(
        args.pattern,
        literal=args.literal or limits.literal_only,
        ignore_case=args.ignore_case,
        multiline=args.multiline,
        mode=args.output_mode,
        before=min(around if args.before is None else args.before, _MOST_CONTEXT),
        after=min(around if args.after is None else args.after, _MOST_CONTEXT),
        glob=args.glob or "",
        type=args.type or "",
        hidden=args.include_hidden,
        ignored=args.include_ignored,
        order="path" if (args.sort or limits.sort) == "path" else "newest",
        offset=args.offset,
        limit=min(args.head_limit or limits.results, limits.most_results),
        file_bytes=limits.file_bytes,
        skip=tuple(limits.skip),
    )


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the answer."""

    kind: str
    """Names its template: `match`, `context`, `gap`, `file` or `count`."""
    path: str = ""
    line: int = 0
    text: str = ""
    number: int = 0
    cut: bool = False
    """Whether the line is longer than its text here."""

    @property
    def counts(self) -> bool:
        """Whether it is a result, not only something around one."""
        return self.kind not in ("context", "gap")


def _rows(page: ResultPage, args: Args, tree: SearchTree, limits: Limits) -> tuple[list[Row], bool]:
    """The rows of the answer as far as there is room, and whether these are all."""
    rows: list[Row] = []
    room = limits.page_chars
    for row in _all_rows(page, args, tree, limits):
        room -= len(row.path) + len(row.text) + 10
        if room < 0 and rows and row.counts:
            while rows and not rows[-1].counts and rows[-1].kind != "context":
                rows.pop()
            return rows, False
        rows.append(row)
    return rows, True


def _all_rows(page: ResultPage, args: Args, tree: SearchTree, limits: Limits) -> Iterator[Row]:
    excerpts = Excerpts(tree, limits.line_chars)
    grouped = bool(args.context or args.before or args.after)
    for number, one in enumerate(page.found):
        path = tree.named(one.path, limits.absolute)
        if args.output_mode != "content":
            yield Row("count" if args.output_mode == "count" else "file", path, number=one.number)
            continue
        last = None
        for hit in one.hits:
            if grouped and (bool(number) if last is None else hit.line > last + 1):
                yield Row("gap")
            last = hit.line
            text, cut = excerpts.excerpt(one, hit)
            yield Row("match" if hit.matched else "context", path, hit.line, text, cut=cut)


def _data(mode: str, rows: list[Row]) -> dict[str, Any]:
    if mode == "content":
        matches = [row for row in rows if row.counts]
        return {"matches": [{"file": row.path, "line": row.line, "text": row.text} for row in matches]}
    if mode == "count":
        return {"counts": [{"file": row.path, "count": row.number} for row in rows]}
    return {"files": [row.path for row in rows]}


def _remarks(receipt: Receipt, limits: Limits) -> list[Remark]:
    remarks = []
    if receipt.stopped == "time_limit":
        remarks.append(Remark("time_limit", {"seconds": limits.seconds}))
    if receipt.unreadable or receipt.large:
        remarks.append(Remark("not_all_searched", {"told": list(receipt.complaints)}))
    if receipt.fallback and limits.fallback_is_partial:
        remarks.append(Remark("fallback", {"why": receipt.fallback}))
    return remarks


def say(outcome: Outcome, words: Words) -> str:
    facts = outcome.facts
    passed = passed_over(facts["receipt"], words)
    rows = "\n".join(_said(row, facts["numbered"], words) for row in facts["rows"])
    return words.say(f"grep.{outcome.kind}", **{**facts, "rows": rows, "passed": passed})


def _said(row: Row, numbered: bool, words: Words) -> str:
    line = row.line if numbered else None
    return words.say(f"grep.{row.kind}", file=row.path, line=line, text=row.text, number=row.number)


TOOL = Tool(id="grep", args=Args, limits=Limits, run=run, say=say, hints=Hints(read_only=True, idempotent=True))
