"""LS: list the entries of a directory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Annotated, NamedTuple, TypedDict

from handrail.errors import BadGlobPattern
from handrail.frozen import frozen
from handrail.search.receipt import Budget, Receipt
from handrail.search.results import RememberedResult
from handrail.search.tree import Kind, SearchTree
from handrail.search.walk import VisitedDirectory, folded
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
    walk = tree.walk(Budget(limits.seconds, cancel=ctx.cancel))
    look = tree.look(hidden=args.include_hidden, ignored=args.include_ignored, obey=obey_ignore_files, skip=limits.skip)
    most = min(args.limit or limits.entries, limits.most_entries)
    wanted, ignored = range(args.offset, args.offset + most), _filter(args.ignore)
    result: RememberedResult[_EntryPage] = RememberedResult(
        tree, walk, ("ls", look, args.depth, tuple(args.ignore), wanted)
    )
    listing = result.recall()
    if listing is None:
        listing = _EntryPage(tree, walk.directories(look, depth=args.depth, fold=True), ignored, wanted)
        if not walk.has_links:
            result.keep(listing, walk.paths)
    page, total = listing.page, listing.total
    following = args.offset + len(page)
    left = total - following
    receipt = walk.receipt
    receipt.searched = total
    notes: list[NoteFacts] = []
    if left > 0:
        notes.append(MoreEntries(next=following, remaining=left, total=total, count=len(page)))
    if receipt.stopped:
        notes.append(TimeLimit(seconds=limits.seconds, count=total))
    if receipt.unreadable:
        notes.append(Unreadable(count=receipt.unreadable))
    paths = [tree.named(entry.path, limits.absolute) for entry in page]
    data = Data(
        entries=[EntryData(path=path, type=_type(entry.kind)) for path, entry in zip(paths, page, strict=True)],
        total=total,
        truncated=left > 0 or bool(receipt.stopped),
        next_offset=following if left > 0 else None,
        aborted_reason="count_limit" if left > 0 else receipt.stopped or None,
        receipt=receipt.data(),
    )
    facts = Facts(
        path=args.path,
        entries=page,
        paths=paths,
        first=args.offset + 1,
        last=following,
        total=total,
        dirs=listing.dirs,
        files=total - listing.dirs,
        receipt=receipt,
    )
    return Outcome("page" if page else "past" if total else "empty", facts, data, tuple(notes))


def _filter(patterns: Sequence[str]) -> Callable[[str], bool] | None:
    """A test for paths that the caller does not want to see; None: there are none."""
    try:
        globs = [compile_filter(pattern)[0] for pattern in patterns if pattern]
    except BadGlob as error:
        raise BadGlobPattern(pattern=", ".join(patterns), why=str(error)) from None
    return (lambda path: any(glob.match(path) for glob in globs)) if globs else None


class _EntryPage:
    """Goes through a walk in the order of the answer: directories first, each followed by its own entries.

    Only one page of the entries is kept, so that a tree of a million files takes no more memory than a small one.
    """

    def __init__(
        self,
        tree: SearchTree,
        directories: Iterator[VisitedDirectory],
        ignored: Callable[[str], bool] | None,
        wanted: range,
    ) -> None:
        self.page: list[ListedEntry] = []
        self.total = 0
        self.dirs = 0
        self._tree = tree
        self._directories = directories
        self._ignored = ignored
        self._wanted = wanted
        self._next = next(directories, None)
        if top := self._take(""):
            self._add_below(top)

    def _take(self, prefix: str) -> VisitedDirectory | None:
        """The directory at a path, if the walk has come to it."""
        here = self._next
        if here is None or here.prefix != prefix:
            return None
        self._next = next(self._directories, None)
        return here

    def _add_below(self, here: VisitedDirectory) -> None:
        kinds = [(name, kind) for kind, names in _group_entries(here) for name in names]
        if here.links:
            kinds = [(name, self._tree.behind(here.prefix + name) if kind == "link" else kind) for name, kind in kinds]
        for name in sorted([name for name, kind in kinds if kind == "dir"], key=folded):
            path = f"{here.prefix}{name}"
            if self._ignored and self._ignored(path):
                while self._next and self._next.prefix.startswith(path + "/"):
                    self._take(self._next.prefix)
                continue
            self.dirs += 1
            self._add(here, [(name, "dir")])
            if inside := self._take(path + "/"):
                self._add_below(inside)
        others = [one for one in kinds if one[1] != "dir"]
        if self._ignored:
            others = [one for one in others if not self._ignored(here.prefix + one[0])]
        self._add(here, others)

    def _add(self, here: VisitedDirectory, entries: list[tuple[str, Kind]]) -> None:
        """Count entries, and keep those that belong to the page."""
        first, self.total = self.total, self.total + len(entries)
        if first >= self._wanted.stop or self.total <= self._wanted.start:
            return
        level = here.prefix.count("/")
        entries = sorted(entries, key=lambda one: folded(one[0]))
        for name, kind in entries[max(0, self._wanted.start - first) : self._wanted.stop - first]:
            self.page.append(ListedEntry(here.prefix + name, kind, level))


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
