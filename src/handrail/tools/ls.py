"""LS: what a directory holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

from handrail.errors import BadGlobPattern
from handrail.search.receipt import Budget
from handrail.search.tree import Kind, SearchTree
from handrail.search.walk import Directory
from handrail.text.globs import BadGlob, compile_filter
from handrail.tools.arguments import Field
from handrail.tools.shared.coverage import passed_over
from handrail.tools.tool import Arguments, Context, Hints, Outcome, Reads, Remark, Tool, Words


class Args(Arguments):
    path: Annotated[Reads, Field(description="The directory")] = "."
    depth: Annotated[int, Field(ge=1, le=10, description="Levels to show")] = 1
    offset: Annotated[int, Field(ge=0, description="Entries to skip")] = 0
    limit: Annotated[int | None, Field(ge=1, description="Most entries")] = None
    include_hidden: Annotated[bool, Field(description="Dot files too")] = False
    include_ignored: Annotated[bool, Field(description="Ignored ones too")] = False
    ignore: Annotated[Sequence[str], Field(description="Globs to leave out")] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """What a dialect may set."""

    entries: int = 200
    """Entries without `limit`."""
    most_entries: int = 1000
    seconds: float = 10.0
    ignore_files: bool = True
    """Whether `.gitignore` and its kin count."""
    skip: list[str] = field(default_factory=list)
    """Names that are left out like ignored ones."""
    absolute: bool = False
    """Whether paths are shown in full."""


class Row(NamedTuple):
    """One entry of the answer."""

    path: str
    """Below the directory that is listed."""
    kind: Kind
    level: int = 0


def run(args: Args, ctx: Context) -> Outcome:
    limits: Limits = ctx.limits
    tree = ctx.tree(args.path)
    walk = tree.walk(Budget(limits.seconds))
    look = tree.look(
        hidden=args.include_hidden, ignored=args.include_ignored, obey=limits.ignore_files, skip=limits.skip
    )
    directories = {here.prefix: here for here in walk.directories(look, depth=args.depth)}
    rows = _rows(tree, directories, _left_out(args.ignore))
    most = min(args.limit or limits.entries, limits.most_entries)
    page = rows[args.offset : args.offset + most]
    left = len(rows) - args.offset - len(page)
    receipt = walk.receipt
    receipt.searched = len(rows)
    remarks = []
    if left > 0:
        following = args.offset + len(page)
        remarks.append(
            Remark("more_entries", {"next": following, "remaining": left, "total": len(rows), "count": len(page)})
        )
    if receipt.stopped:
        remarks.append(Remark("time_limit", {"seconds": limits.seconds, "count": len(rows)}))
    if receipt.unreadable:
        remarks.append(Remark("unreadable", {"count": receipt.unreadable}))
    data: dict[str, Any] = {
        "entries": [{"path": tree.named(row.path, limits.absolute), "type": _type(row.kind)} for row in page],
        "total": len(rows),
        "truncated": left > 0 or bool(receipt.stopped),
        "next_offset": args.offset + len(page) if left > 0 else None,
        "aborted_reason": "count_limit" if left > 0 else receipt.stopped or None,
        "receipt": receipt.data(),
    }
    kinds = [row.kind for row in rows]
    facts: dict[str, Any] = {
        "path": args.path,
        "rows": page,
        "first": args.offset + 1,
        "last": args.offset + len(page),
        "total": len(rows),
        "dirs": kinds.count("dir"),
        "files": len(rows) - kinds.count("dir"),
        "receipt": receipt,
        "paths": [entry["path"] for entry in data["entries"]],
    }
    return Outcome("page" if page else "past" if rows else "empty", facts, data, tuple(remarks))


def _left_out(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Whether the caller does not want to see a path."""
    try:
        globs = [compile_filter(pattern)[0] for pattern in patterns if pattern]
    except BadGlob as error:
        raise BadGlobPattern(pattern=", ".join(patterns), why=str(error)) from None
    return lambda path: any(glob.match(path) for glob in globs)


def _rows(tree: SearchTree, directories: dict[str, Directory], left_out: Callable[[str], bool]) -> list[Row]:
    """The entries in the order they are shown: directories first, each followed by what it holds."""
    rows: list[Row] = []
    waiting = [Row("", "dir")]
    while waiting:
        row = waiting.pop()
        if row.path:
            rows.append(row)
        here = directories.get(row.path + "/" if row.path else "") if row.kind == "dir" else None
        if here is None:
            continue
        level = here.prefix.count("/")
        found = [(name, kind) for kind, names in _kinds(here) for name in names]
        found = [(name, tree.behind(here.prefix + name) if kind == "link" else kind) for name, kind in found]
        found.sort(key=lambda entry: (entry[1] != "dir", entry[0].casefold(), entry[0]), reverse=True)
        below = [Row(here.prefix + name, kind, level) for name, kind in found]
        waiting += [row for row in below if not left_out(row.path)]
    return rows


def _kinds(here: Directory) -> list[tuple[Kind, Any]]:
    return [("dir", here.dirs), ("file", here.files), ("link", here.links), ("other", here.others)]


def _type(kind: Kind) -> str:
    return "file" if kind == "other" else kind


def say(outcome: Outcome, words: Words) -> str:
    facts = outcome.facts
    lines = []
    for row, named in zip(facts["rows"], facts["paths"], strict=True):
        name = named.rsplit("/", 1)[-1] if row.level or "/" not in row.path else named
        lines.append(words.say("ls.row", indent="  " * row.level, name=name, full=named, **{row.kind: True}))
    skipped = passed_over(facts["receipt"], words)
    return words.say(f"ls.{outcome.kind}", **{**facts, "rows": "\n".join(lines), "skipped": skipped})


TOOL = Tool(id="ls", args=Args, limits=Limits, run=run, say=say, hints=Hints(read_only=True, idempotent=True))
