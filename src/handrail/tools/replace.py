"""Replace: replace a text or pattern in many files, all or none, after a dry run that lists the occurrences."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from hashlib import sha256
from itertools import groupby
from typing import Annotated, NamedTuple, TypedDict

from handrail.errors import (
    BadGlobPattern,
    BadPath,
    BinaryFile,
    CannotEncode,
    EmptyMatch,
    NotFound,
    NothingToChange,
    NotRegular,
    OtherCount,
    PermissionDenied,
    SearchTimedOut,
    TooLargeToChange,
    TooManyOccurrences,
    UnknownOccurrence,
)
from handrail.files.versions import Stored, load
from handrail.frozen import frozen
from handrail.model import Access, FileAccess
from handrail.search.receipt import Budget, Receipt
from handrail.search.tree import SearchTree
from handrail.text import occurrences
from handrail.text.display import escape, replace_surrogates
from handrail.text.document import decode_document, minimize
from handrail.text.globs import BadGlob, compile_filter
from handrail.text.lines import strip_ending
from handrail.text.occurrences import Occurrence
from handrail.tools.arguments import BeforeValidator, Field, decode_json_text
from handrail.tools.notes import MoreOccurrences, NoteFacts, Unreadable
from handrail.tools.shared.coverage import describe_skipped
from handrail.tools.tool import Arguments, Context, Hints, Loaded, Outcome, Reads, Templates, Tool
from handrail.workspace import WorkPath

_SHORT, _LONG = 8, 16
"""Hex digits of an id; the long ones only where two short ones are the same."""


def _list(value: object) -> object:
    """A list that a model wrote as a string of JSON, or a single id."""
    return decode_json_text(value) if isinstance(value, str) and value.startswith("[") else value


class _Sought(NamedTuple):
    """Results of `seek`, which `run` checks again."""

    paths: dict[str, str]
    """The files to change, by name, with their real paths."""
    receipt: Receipt


class Args(Arguments):
    pattern: Annotated[str, Field(min_length=1, max_length=10_000, description="The text to replace")]
    replacement: Annotated[str, Field(description="The new text")]
    path: Annotated[Reads, Field(description="Directory or file to search")] = "."
    glob: Annotated[str | None, Field(max_length=4096, description="Only these files, such as *.py or src/**")] = None
    regex: Annotated[bool, Field(description="pattern is a regular expression")] = False
    ignore_case: Annotated[bool, Field(description="Match regardless of case")] = False
    whole_words: Annotated[bool, Field(description="Not inside longer words")] = False
    dry_run: Annotated[bool, Field(description="Only show what would change")] = False
    expected: Annotated[
        int | None, Field(ge=0, description="Number of occurrences to replace; any other number is refused")
    ] = None
    only: Annotated[
        list[str] | None,
        BeforeValidator(_list),
        Field(description="Ids from a dry run: replace only these"),
    ] = None
    offset: Annotated[int, Field(ge=0, description="Occurrences to skip in the list of a dry run")] = 0
    include_hidden: Annotated[bool, Field(description="Include dot files")] = False
    include_ignored: Annotated[bool, Field(description="Include ignored files")] = False
    _sought: _Sought | None = None

    @property
    def only_looks(self) -> bool:
        """Whether nothing is to be changed: a dry run, which a call without `expected` and `only` is, too."""
        return self.dry_run or (self.expected is None and self.only is None)

    def check(self) -> None:
        if self.offset and not self.only_looks:
            raise ValueError("offset is only for a dry run; to replace some occurrences, list their ids in only")
        if self.only is not None and not self.only:
            raise ValueError("only is empty: give ids, or leave it out")


@frozen
class Limits:
    """Limits that a dialect may set."""

    files: int = 200
    occurrences: int = 10_000
    file_bytes: int = 10 << 20
    """Larger files are passed over."""
    total_bytes: int = 64 << 20
    """Limit of the bytes in all changed files, and of the bytes that are inserted."""
    seconds: float = 10.0
    page_chars: int = 20_000
    window: int = 60
    """Characters shown on each side of an occurrence."""
    snippet_lines: int = 40


class Place(NamedTuple):
    """An occurrence in a file."""

    path: str
    key: str
    occurrence: Occurrence
    old: str
    before: str
    after: str


@frozen
class Facts:
    path: str
    glob: str | None
    count: int
    """How many occurrences are meant."""
    files: int
    counts: Mapping[str, int]
    """Occurrences by file."""
    page: Sequence[tuple[str, Place]]
    """The occurrences that are listed, with their ids."""
    all: bool
    """Whether every occurrence is meant, and not only chosen ones."""
    receipt: Receipt
    searched: int
    rows: Mapping[str, Sequence[tuple[int, str]]] = field(default_factory=dict)
    """The new lines by file, with their numbers; empty if there are too many."""


class ReplacedFileData(TypedDict):
    path: str
    count: int


class OccurrenceData(TypedDict):
    id: str
    path: str
    line: int
    old: str
    new: str


class Data(TypedDict):
    files: list[ReplacedFileData]
    occurrences: list[OccurrenceData]
    total: int
    replaced: int
    dry_run: bool
    next_offset: int | None
    receipt: Mapping[str, object]


class _Hunt:
    """One search through files, within bounds. What goes over them is an error: never half of what was asked."""

    def __init__(self, args: Args, limits: Limits, cancel: threading.Event | None) -> None:
        if args.pattern == args.replacement and not args.regex and not args.ignore_case:
            raise NothingToChange()
        self.receipt = Receipt()
        self.places: list[Place] = []
        self.real: dict[str, str] = {}
        """The files with occurrences, by name."""
        self.budget = Budget(limits.seconds, cancel=cancel)
        self._args = args
        self._limits = limits
        self._search = occurrences.compile_search(
            args.pattern,
            args.replacement,
            regex=args.regex,
            ignore_case=args.ignore_case,
            whole_words=args.whole_words,
        )
        self._bytes = 0

    def look(self, path: str, stored: Stored, text: str) -> bool:
        """Whether there are occurrences in this file; they are added to the others."""
        limits, before = self._limits, len(self.places)
        self.receipt.searched += 1
        try:
            for occurrence in self._search.find(text, self.budget.left):
                if len(self.places) == limits.occurrences:
                    raise TooManyOccurrences(most=limits.occurrences, what="occurrences")
                self._weigh(len(occurrence.new))
                self.places.append(self._place(path, stored, text, occurrence))
        except TimeoutError:
            raise self.slow() from None
        except EmptyMatch as error:
            error.path = path
            raise
        if len(self.places) == before:
            return False
        self.real[path] = stored.path.real
        if len(self.real) > limits.files:
            raise TooManyOccurrences(most=limits.files, what="files")
        self._weigh(len(stored.raw))
        return True

    def _weigh(self, more: int) -> None:
        self._bytes += more
        if self._bytes > self._limits.total_bytes:
            raise TooManyOccurrences(most=self._limits.total_bytes, what="bytes of text")

    def _place(self, path: str, stored: Stored, text: str, occurrence: Occurrence) -> Place:
        what = f"{stored.version.digest} {occurrence.start} {occurrence.end} {path}"
        key = sha256(what.encode("utf-8", "surrogateescape")).hexdigest()[:_LONG]
        old = text[occurrence.start : occurrence.end]
        return Place(path, key, occurrence, old, *occurrences.show_window(text, occurrence, self._limits.window))

    def slow(self) -> SearchTimedOut:
        return SearchTimedOut(seconds=self._limits.seconds, pattern=occurrences.shorten(self._args.pattern, 80))

    def choose(self) -> list[Place]:
        """The places that are meant; raises if they are not those that were announced."""
        args, places = self._args, self.places
        if args.only is not None:
            places = self._pick_ids(args.only)
        if args.expected is not None and len(places) != args.expected:
            receipt, files = self.receipt, len({place.path for place in places})
            facts = {**receipt.facts(), "searched": receipt.searched}
            raise OtherCount(count=len(places), files=files, expected=args.expected, **facts)
        return places

    def _pick_ids(self, ids: Sequence[str]) -> list[Place]:
        known: dict[str, list[Place]] = {}
        for place in self.places:
            known.setdefault(place.key[:_SHORT], []).append(place)
        picked: set[str] = set()
        unknown: list[str] = []
        for one in dict.fromkeys(ids):
            fits = [place for place in known.get(one[:_SHORT], ()) if place.key.startswith(one)]
            if len(fits) == 1:
                picked.add(fits[0].key)
            else:
                unknown.append(escape(occurrences.shorten(one, _LONG)))
        if unknown:
            raise UnknownOccurrence(ids=unknown[:10], more=len(unknown) - 10 if len(unknown) > 10 else None)
        return [place for place in self.places if place.key in picked]

    def ids(self) -> Callable[[Place], str]:
        """Return the id of a place: short, unless another one would have the same."""
        times = Counter(place.key[:_SHORT] for place in self.places)
        return lambda place: place.key[: _SHORT if times[place.key[:_SHORT]] == 1 else _LONG]


def seek(args: Args, ctx: Context[Limits]) -> list[Access]:
    """The files that will be changed. A dry run changes none."""
    if args.only_looks:
        return []
    hunt = _search_files(args, ctx)
    paths = {place.path: hunt.real[place.path] for place in hunt.choose()}
    args.__dict__["_sought"] = _Sought(paths, hunt.receipt)
    return [FileAccess("write", path) for path in paths]


def _search_files(args: Args, ctx: Context[Limits]) -> _Hunt:
    """A search through all files that are asked for."""
    limits: Limits = ctx.limits
    hunt, tree = _Hunt(args, limits, ctx.cancel), ctx.tree(args.path)
    home = os.path.realpath(tree.workspace.home).rstrip("/") + "/"
    for inner in _list_files(args, tree, hunt):
        receipt, real = hunt.receipt, tree.real(inner)
        named = real.removeprefix(home)
        below = inner if tree.path.inner == "." else f"{tree.path.inner}/{inner}".rstrip("/")
        try:
            stored = load(tree.workspace, WorkPath(named, real, below, tree.path.root), limits.file_bytes)
            text = decode_document(stored.raw).text
        except TooLargeToChange:
            receipt.large += 1
        except BinaryFile:
            receipt.binary += 1
        except PermissionDenied:
            receipt.unreadable += 1
        except (NotFound, NotRegular, BadPath):  # not what was listed any more
            continue
        else:
            hunt.look(named, stored, text)
    return hunt


def _list_files(args: Args, tree: SearchTree, hunt: _Hunt) -> Iterator[str]:
    """The files to look into, below the path that was given."""
    try:
        glob, out = compile_filter(args.glob) if args.glob else (None, False)
    except BadGlob as error:
        raise BadGlobPattern(pattern=args.glob or "", why=str(error)) from None
    if tree.is_file:
        if glob is None or glob.match(os.path.basename(tree.path.real)) != out:
            yield ""
        return
    walk = tree.walk(hunt.budget)
    hunt.receipt = walk.receipt
    look = tree.look(hidden=args.include_hidden, ignored=args.include_ignored)
    for here in walk.directories(look, None if out else glob):
        walk.receipt.links += len(here.links)
        for name in here.files:
            if hunt.budget.spent(0):
                raise hunt.slow()
            if not (out and glob and glob.match(here.prefix + name)):
                yield here.prefix + name
    if walk.receipt.stopped:
        raise hunt.slow()


def run(args: Args, ctx: Context[Limits]) -> Outcome[Facts]:
    if args.only_looks:
        hunt = _search_files(args, ctx)
        return _build_outcome("found", args, hunt, hunt.choose(), ctx.limits)
    assert args._sought is not None, "seek comes first"
    paths, receipt = args._sought
    hunt = _Hunt(args, ctx.limits, ctx.cancel)
    loaded: dict[str, Loaded] = {}
    for path, real in paths.items():
        try:  # what is there now counts, whatever it was a moment ago
            one = ctx.load(path, unseen=True)
        except (NotFound, NotRegular, BadPath, BinaryFile, TooLargeToChange):
            continue
        if one.stored.path.real == real and hunt.look(path, one.stored, one.document.text):
            loaded[path] = one
    hunt.receipt = receipt
    chosen = hunt.choose()
    rows = {
        path: _stage_file(ctx, path, loaded[path], [place.occurrence for place in places])
        for path, places in groupby(chosen, key=lambda place: place.path)
    }
    outcome = _build_outcome("done" if any(rows.values()) else "same", args, hunt, chosen, ctx.limits)
    if sum(map(len, rows.values())) > ctx.limits.snippet_lines:
        return outcome
    return outcome.with_facts(replace(outcome.facts, rows=rows))


def _stage_file(ctx: Context[Limits], path: str, loaded: Loaded, places: Sequence[Occurrence]) -> list[tuple[int, str]]:
    """The new lines of one file."""
    text = loaded.document.text
    splices = [splice for one in places if (splice := minimize(text, one.start, one.end, one.new))]
    try:
        hunks = ctx.stage(path, loaded, splices).hunks
    except CannotEncode as error:
        error.path = path
        raise
    rows: list[tuple[int, str]] = []
    for hunk in hunks:
        number = hunk.new_first
        for sign, row in hunk.rows:
            if sign == "+":
                rows.append((number, occurrences.shorten(strip_ending(row), 4 * ctx.limits.window)))
            number += sign != "-"
    return rows


def _build_outcome(kind: str, args: Args, hunt: _Hunt, chosen: Sequence[Place], limits: Limits) -> Outcome[Facts]:
    page = _page(chosen[args.offset :], limits.page_chars)
    following = args.offset + len(page)
    more = following < len(chosen)
    counts = Counter(place.path for place in chosen)
    receipt, called = hunt.receipt, hunt.ids()
    notes: list[NoteFacts] = []
    if more and args.only_looks:
        left = len(chosen) - following
        notes.append(MoreOccurrences(next=following, remaining=left, total=len(chosen)))
    if receipt.unreadable:
        notes.append(Unreadable(count=receipt.unreadable))
    listed = [
        OccurrenceData(
            id=called(place),
            path=escape(place.path),
            line=place.occurrence.line,
            old=replace_surrogates(occurrences.shorten(place.old, limits.page_chars)),
            new=replace_surrogates(occurrences.shorten(place.occurrence.new, limits.page_chars)),
        )
        for place in page
    ]
    data = Data(
        files=[ReplacedFileData(path=escape(path), count=count) for path, count in counts.items()],
        occurrences=listed,
        total=len(chosen),
        replaced=len(chosen) if kind == "done" else 0,
        dry_run=args.only_looks,
        next_offset=following if more else None,
        receipt=receipt.data(),
    )
    facts = Facts(
        path=args.path,
        glob=args.glob,
        count=len(chosen),
        files=len(counts),
        counts=counts,
        page=list(zip([one["id"] for one in listed], page, strict=True)),
        all=args.only is None,
        receipt=receipt,
        searched=receipt.searched,
    )
    return Outcome("none" if not chosen else kind if page else "past", facts, data, tuple(notes))


def _page(places: Sequence[Place], room: int) -> list[Place]:
    """As many as there is room for, but one at least."""
    page: list[Place] = []
    for place in places:
        room -= len(place.before) + len(place.after) + len(place.old) + len(place.occurrence.new) + 40
        if page and room < 0:
            break
        page.append(place)
    return page


@frozen
class ReplacedFile:
    """The values of the templates for one file."""

    path: str
    count: int
    snippet: str = ""


class PlaceRow(NamedTuple):
    """The values of the template for one occurrence."""

    id: str
    line: int
    before: str
    after: str


def render(outcome: Outcome[Facts], templates: Templates) -> str:
    facts = outcome.facts
    items: list[str] = []
    if outcome.kind == "found":
        for path, group in groupby(facts.page, key=lambda one: one[1].path):
            items.append(templates.fill("replace.file", ReplacedFile(path, facts.counts[path])))
            for name, place in group:
                row = PlaceRow(name, place.occurrence.line, place.before, place.after)
                items.append(templates.fill("replace.place", row))
    elif outcome.kind == "done":
        for path, count in facts.counts.items():
            snippet = templates.number_lines(facts.rows.get(path, ()))
            items.append(templates.fill("replace.changed", ReplacedFile(path, count, snippet)))
    skipped = describe_skipped(facts.receipt, templates)
    return templates.fill(f"replace.{outcome.kind}", facts, items="\n".join(items), skipped=skipped)


TOOL = Tool(
    id="replace",
    args=Args,
    limits=Limits,
    facts=Facts,
    data=Data,
    run=run,
    render=render,
    hints=Hints(destructive=True),
    seek=seek,
    rendered=("items", "skipped"),
    rows={"file": ReplacedFile, "changed": ReplacedFile, "place": PlaceRow},
)
