"""LS: list the entries of a directory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Annotated, NamedTuple, TypedDict

from handrail.errors import BadGlobPattern
from handrail.frozen import frozen
from handrail.search.receipt import Budget, Receipt
from handrail.search.tree import Kind, SearchTree
from handrail.search.walk import VisitedDirectory
from handrail.text.globs import BadGlob, compile_filter
from handrail.tools.arguments import Field
from handrail.tools.notes import MoreEntries, NoteFacts, TimeLimit, Unreadable
from handrail.tools.shared.coverage import describe_skipped
from handrail.tools.tool import Arguments, Context, Hints, Outcome, Reads, Templates, Tool


class Args(Arguments):
    path: Annotated[Reads, Field(description="The directory")] = "."
    depth: Annotated[int, Field(ge=1, le=10, description="Levels to show")] = 1
    offset: Annotated[int, Field(ge=0, description="Entries to skip")] = 0
    limit: Annotated[int | None, Field(ge=1, description="Max entries")] = None
    include_hidden: Annotated[bool, Field(description="Include dot files")] = False
    include_ignored: Annotated[bool, Field(description="Include ignored files")] = False
    ignore: Annotated[Sequence[str], Field(description="Globs to skip")] = ()


@frozen
class Limits:
    """Limits that a dialect may set."""

    entries: int = 200
    """Entries without `limit`."""
    most_entries: int = 1000
    seconds: float = 10.0
    skip: list[str] = field(default_factory=list)
    """Names to leave out, like ignored ones."""
    absolute: bool = False
    """Whether paths are shown in full."""


@frozen
class ListedEntry:
    """One entry of the listing."""

    path: str
    """Below the directory that is listed."""
    kind: Kind
    level: int = 0


@frozen
class Facts:
    """A page of a listing."""

    path: str
    entries: Sequence[ListedEntry]
    paths: Sequence[str]
    """The entries as the model may name them in a call."""
    first: int
    last: int
    total: int
    dirs: int
    files: int
    receipt: Receipt


class EntryData(TypedDict):
    path: str
    type: str


class Data(TypedDict):
    entries: list[EntryData]
    total: int
    truncated: bool
    next_offset: int | None
    aborted_reason: str | None
    receipt: Mapping[str, object]


def run(args: Args, ctx: Context[Limits]) -> Outcome[Facts]:
    return list_directory(args, ctx)


def list_directory(args: Args, ctx: Context[Limits], *, obey_ignore_files: bool = True) -> Outcome[Facts]:
    """List a directory, with or without the files that `.gitignore` and similar files name."""
    limits = ctx.limits
    tree = ctx.tree(args.path)
    walk = tree.walk(Budget(limits.seconds))
    look = tree.look(hidden=args.include_hidden, ignored=args.include_ignored, obey=obey_ignore_files, skip=limits.skip)
    directories = {here.prefix: here for here in walk.directories(look, depth=args.depth)}
    entries = _list_entries(tree, directories, _filter(args.ignore))
    most = min(args.limit or limits.entries, limits.most_entries)
    page = entries[args.offset : args.offset + most]
    following = args.offset + len(page)
    left = len(entries) - following
    receipt = walk.receipt
    receipt.searched = len(entries)
    notes: list[NoteFacts] = []
    if left > 0:
        notes.append(MoreEntries(next=following, remaining=left, total=len(entries), count=len(page)))
    if receipt.stopped:
        notes.append(TimeLimit(seconds=limits.seconds, count=len(entries)))
    if receipt.unreadable:
        notes.append(Unreadable(count=receipt.unreadable))
    paths = [tree.named(entry.path, limits.absolute) for entry in page]
    data = Data(
        entries=[EntryData(path=path, type=_type(entry.kind)) for path, entry in zip(paths, page, strict=True)],
        total=len(entries),
        truncated=left > 0 or bool(receipt.stopped),
        next_offset=following if left > 0 else None,
        aborted_reason="count_limit" if left > 0 else receipt.stopped or None,
        receipt=receipt.data(),
    )
    dirs = sum(entry.kind == "dir" for entry in entries)
    facts = Facts(
        path=args.path,
        entries=page,
        paths=paths,
        first=args.offset + 1,
        last=following,
        total=len(entries),
        dirs=dirs,
        files=len(entries) - dirs,
        receipt=receipt,
    )
    return Outcome("page" if page else "past" if entries else "empty", facts, data, tuple(notes))


def _filter(patterns: Sequence[str]) -> Callable[[str], bool]:
    """A test for paths that the caller does not want to see."""
    try:
        globs = [compile_filter(pattern)[0] for pattern in patterns if pattern]
    except BadGlob as error:
        raise BadGlobPattern(pattern=", ".join(patterns), why=str(error)) from None
    return lambda path: any(glob.match(path) for glob in globs)


def _list_entries(
    tree: SearchTree, directories: dict[str, VisitedDirectory], ignored: Callable[[str], bool]
) -> list[ListedEntry]:
    """The entries in the order of the answer: directories first, each followed by its own entries."""
    entries: list[ListedEntry] = []
    waiting = [ListedEntry("", "dir")]
    while waiting:
        entry = waiting.pop()
        if entry.path:
            entries.append(entry)
        here = directories.get(entry.path + "/" if entry.path else "") if entry.kind == "dir" else None
        if here is None:
            continue
        level = here.prefix.count("/")
        listed = [(name, kind) for kind, names in _group_entries(here) for name in names]
        listed = [(name, tree.behind(here.prefix + name) if kind == "link" else kind) for name, kind in listed]
        listed.sort(key=lambda one: (one[1] != "dir", one[0].casefold(), one[0]), reverse=True)
        below = [ListedEntry(here.prefix + name, kind, level) for name, kind in listed]
        waiting += [one for one in below if not ignored(one.path)]
    return entries


def _group_entries(here: VisitedDirectory) -> list[tuple[Kind, Iterable[str]]]:
    return [("dir", here.dirs), ("file", here.files), ("link", here.links), ("other", here.others)]


def _type(kind: Kind) -> str:
    return "file" if kind == "other" else kind


class EntryRow(NamedTuple):
    """The values of the template for one entry; of the last four, the one for its kind is true."""

    indent: str
    name: str
    full: str
    dir: bool
    file: bool
    link: bool
    other: bool


def render(outcome: Outcome[Facts], templates: Templates) -> str:
    facts, lines = outcome.facts, []
    for entry, path in zip(facts.entries, facts.paths, strict=True):
        name = path.rsplit("/", 1)[-1] if entry.level or "/" not in entry.path else path
        kinds = (entry.kind == kind for kind in ("dir", "file", "link", "other"))
        lines.append(templates.fill("ls.row", EntryRow("  " * entry.level, name, path, *kinds)))
    skipped = describe_skipped(facts.receipt, templates)
    return templates.fill(f"ls.{outcome.kind}", facts, rows="\n".join(lines), skipped=skipped)


TOOL = Tool(
    id="ls",
    args=Args,
    limits=Limits,
    facts=Facts,
    data=Data,
    run=run,
    render=render,
    hints=Hints(read_only=True, idempotent=True),
    rendered=("rows", "skipped"),
    rows={"row": EntryRow},
)
