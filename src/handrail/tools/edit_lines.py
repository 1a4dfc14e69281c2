"""EditLines: replace, delete and insert whole lines by the tags with which Read and Grep show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, NamedTuple, TypedDict

from handrail.errors import BadAnchor, ChangedSince, NotSeen, Placeholder
from handrail.frozen import frozen
from handrail.text import lines
from handrail.text.diff import Hunk, compare_lines
from handrail.text.document import Splice, keep_endings, minimize
from handrail.text.line_tags import (
    Move,
    ShownTags,
    compute_tag,
    follow,
    label_line,
    parse_tag,
    strip_echoes,
)
from handrail.text.matching.find import refuse_garbled
from handrail.text.matching.omission import is_prose_file, refuse_omissions
from handrail.tools.arguments import BeforeValidator, Field, decode_json_text
from handrail.tools.edit import LeftOutLines, render_snippet
from handrail.tools.notes import ChangedElsewhere
from handrail.tools.tool import Arguments, Context, Hints, Loaded, Outcome, RecalledTags, Templates, Tool, Writes

_TOP = ("0", "top", "start")
_AROUND = 3
_MOST_SHOWN = 30
_MOST_CHARS = 500


def _read_edits(value: object) -> object:
    """The edits with the names of our arguments; also a single one, or a list that was written as a string of JSON."""
    value = decode_json_text(value)
    value = [value] if isinstance(value, Mapping) else value
    return [_read_edit(one) for one in value] if isinstance(value, list) else value


def _read_edit(one: object) -> object:
    if not isinstance(one, Mapping):
        return one
    edit = {{"from": "first", "to": "last"}.get(str(name), str(name)): value for name, value in one.items()}
    edit = {name: value for name, value in edit.items() if value is not None}
    rows = edit.get("text")
    if isinstance(rows, list) and all(isinstance(row, str) for row in rows):
        edit["text"] = "".join(row + "\n" for row in rows)
    for name in ("first", "last", "after"):
        if isinstance(edit.get(name), int) and not isinstance(edit[name], bool):
            edit[name] = str(edit[name])
    return edit


class LineEdit(Arguments):
    first: Annotated[str | None, Field(description="Tag of the first line to replace")] = None
    last: Annotated[str | None, Field(description="Tag of the last one; without it, one line")] = None
    after: Annotated[str | None, Field(description="Instead: tag of the line to insert after; 0 for the top")] = None
    text: Annotated[str, Field(description="The new lines; empty deletes")]

    def check(self) -> None:
        if (self.first is None) == (self.after is None) or (self.last is not None and self.first is None):
            raise ValueError("give from (and to), or after")


class Args(Arguments):
    file_path: Annotated[Writes, Field(description="The file to change")]
    edits: Annotated[
        list[LineEdit],
        BeforeValidator(_read_edits),
        Field(min_length=1, description="Edits of different lines, all with the tags of the file as it was shown"),
    ]


@frozen
class Limits:
    """Limits that a dialect may set."""

    snippet_lines: int = 60


@frozen
class Facts:
    path: str
    count: int
    """How many edits were made."""
    snippet: Sequence[tuple[str, str]] = ()
    """The changed lines with some around them, behind their tags."""
    most: int = 0
    """How many lines of the snippet are shown."""
    stripped: int = 0
    """How many new lines had a tag, which was removed."""


class Data(TypedDict):
    edits: int
    stripped: int


class _Target(NamedTuple):
    """An edit at its place in the file as it is: ``removed`` lines from ``first`` on."""

    first: int
    removed: int
    new: tuple[str, ...]
    number: int


def run(args: Args, ctx: Context[Limits]) -> Outcome[Facts]:
    editor = _Editor(args.file_path, ctx)
    targets = [editor.locate(number, edit) for number, edit in enumerate(args.edits, start=1)]
    targets.sort(key=lambda one: (one.first, one.removed > 0, one.number))
    editor.refuse_overlaps(targets)
    splices = editor.plan(targets)
    facts = Facts(args.file_path, len(args.edits), stripped=editor.stripped)
    data = Data(edits=len(args.edits), stripped=editor.stripped)
    staged = ctx.stage(args.file_path, editor.loaded, splices)
    if not splices:
        return Outcome("unchanged", facts, data)
    rows = _label_new_lines(staged.hunks)
    most = ctx.limits.snippet_lines
    shown = rows if len(rows) <= most else [*rows[: most // 2], *rows[len(rows) - most // 2 :]]
    ctx.tags.keep(editor.loaded, editor.follow_tags(targets, [row.number for row in shown if row.complete]))
    facts = Facts(args.file_path, len(args.edits), [(row.label, row.text) for row in rows], most, editor.stripped)
    return Outcome("done", facts, data, editor.list_changes())


class _Editor:
    """Finds the lines of a call's edits in the file as it is."""

    def __init__(self, path: str, ctx: Context[Limits]) -> None:
        self._path = path
        self._ctx = ctx
        self.loaded: Loaded = ctx.load(path, unseen=True)
        recalled = ctx.tags.recall(self.loaded)
        if recalled is None:
            raise NotSeen(path=path)
        self._recalled: RecalledTags = recalled
        self._text = self.loaded.document.text
        self._rows = lines.split(self._text)
        self._bodies = [lines.strip_ending(row) for row in self._rows]
        if recalled.changed and recalled.before is None:
            raise ChangedSince(path=path, moved="")
        self._before = (
            [lines.strip_ending(row) for row in lines.split(recalled.before)]
            if recalled.before is not None
            else self._bodies
        )
        self.stripped = 0

    def locate(self, number: int, edit: LineEdit) -> _Target:
        """The place of one edit; raises `BadAnchor` if it is not certain."""
        new = self._read_lines(edit.text)
        if edit.after is not None and edit.after.strip().lower() in _TOP:
            return _Target(1, 0, new, number)
        if edit.after is not None:
            at, _ = self._find(number, edit.after, edit.after)
            if self._is_inserted(edit.after, at, new):  # sent twice
                new = ()
            return _Target(at + 1, 0, new, number)
        first = edit.first or ""
        start, end = self._find(number, first, edit.last or first)
        old = "\n".join(self._bodies[start - 1 : end])
        try:
            refuse_omissions(self._text, old, "\n".join(new))
        except Placeholder:
            if not is_prose_file(self._path) and not self._ctx.is_sent_again():
                raise
        return _Target(start, end - start + 1, new, number)

    def _is_inserted(self, after: str, at: int, new: Sequence[str]) -> bool:
        """Whether the model has inserted these lines behind this one before."""
        anchor = parse_tag(after)
        if self._recalled.changed or anchor is None or tuple(self._bodies[at : at + len(new)]) != tuple(new):
            return False
        return self._recalled.tags.has_grown_after(anchor.number, at)

    def _read_lines(self, text: str) -> tuple[str, ...]:
        """The new lines without tags that were copied with them; one line ending at the end counts for nothing."""
        refuse_garbled(self._text, "", text)
        feeds = lines.to_feeds(text)
        rows = feeds.removesuffix("\n").split("\n") if feeds else []
        rows, stripped = strip_echoes(rows, self._bodies)
        self.stripped += stripped
        return tuple(rows)

    def _find(self, number: int, first: str, last: str) -> tuple[int, int]:
        """The lines between two anchors, as they are numbered now."""
        anchors = parse_tag(first), parse_tag(last)
        for anchor, given in zip(anchors, (first, last), strict=True):
            if anchor is None:
                raise self._refuse(number, given, "unreadable", _read_leading_number(given))
        start, end = (anchor for anchor in anchors if anchor)
        if end.number < start.number:
            raise BadAnchor(path=self._path, number=number, anchor=str(start), backwards=str(end))
        located = self._recalled.tags.locate(start, end, self._find_tag)
        if located.problem:
            anchor = located.anchor or start
            raise self._refuse(number, str(anchor), located.problem, start.number, end.number)
        if not self._recalled.changed:
            return located.first, located.last
        at = follow(self._before, self._bodies, located.first, located.last)
        if at is None:
            raise self._refuse(number, str(start), "moved", start.number, end.number)
        return at, at + located.last - located.first

    def _find_tag(self, line: int) -> str | None:
        return compute_tag(self._before[line - 1]) if 0 < line <= len(self._before) else None

    def _refuse(self, number: int, anchor: str, problem: str, near: int, last: int = 0) -> BadAnchor:
        """A failure with the current lines around a number, whose tags can be used from now on."""
        start = max(1, min(near, len(self._bodies)) - _AROUND)
        end = min(len(self._bodies), max(near, last) + _AROUND, start + _MOST_SHOWN - 1)
        rows = self._bodies[start - 1 : end]
        current = "\n".join(
            f"{label_line(at, row) if len(row) <= _MOST_CHARS else at}|{row[:_MOST_CHARS]}"
            for at, row in enumerate(rows, start)
        )
        for at, row in enumerate(rows, start):
            if len(row) <= _MOST_CHARS:
                self._ctx.tags.show(self.loaded.stored, at, at)
        error = BadAnchor(path=self._path, number=number, anchor=anchor, current=current)
        error.facts[problem] = True
        return error

    def refuse_overlaps(self, targets: Sequence[_Target]) -> None:
        """Raise `BadAnchor` if two edits replace one line, or one inserts into lines that another replaces."""
        for one, other in pairwise(targets):
            if other.first < one.first + one.removed:
                anchor = label_line(other.first, self._bodies[other.first - 1])
                raise BadAnchor(path=self._path, number=other.number, anchor=anchor, overlaps=one.number)

    def plan(self, targets: Sequence[_Target]) -> list[Splice]:
        """The edits as replacements of text; those that change nothing are left out."""
        starts = [0]
        for row in self._rows:
            starts.append(starts[-1] + len(row))
        splices: list[Splice] = []
        for target in _merge_insertions(targets):
            start, end = starts[target.first - 1], starts[target.first - 1 + target.removed]
            planned = minimize(self._text, start, end, self._join_new_lines(target, start, end))
            if planned:
                splices.append(planned)
        return splices

    def _join_new_lines(self, target: _Target, start: int, end: int) -> str:
        """The new lines with the line endings of the file, also if its last line has none."""
        new = "".join(row + "\n" for row in target.new)
        if end == len(self._text) and self._text and not self._text.endswith(("\n", "\r")) and new:
            new = new[:-1] if target.removed else "\n" + new[:-1]
        return keep_endings(self._text, start, end, new)

    def follow_tags(self, targets: Sequence[_Target], shown: Sequence[int]) -> ShownTags:
        """The tags that are valid after the change; those of a file that others have changed are read anew."""
        moves = [Move(target.first, target.removed, len(target.new)) for target in targets]
        tags = ShownTags() if self._recalled.changed else self._recalled.tags
        return tags.change(moves, [(number, number) for number in shown])

    def list_changes(self) -> tuple[ChangedElsewhere, ...]:
        """A note if the file changed since its lines were shown."""
        if not self._recalled.changed:
            return ()
        return (ChangedElsewhere(path=self._path, moved=compare_lines(self._before, self._bodies).describe()),)


def _read_leading_number(given: str) -> int:
    digits = given.strip().split("#")[0].strip()
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 10 else 1


def _merge_insertions(targets: Sequence[_Target]) -> list[_Target]:
    """Insertions at one place, in the order in which they were given, as one."""
    merged: list[_Target] = []
    for target in targets:
        if merged and not target.removed and not merged[-1].removed and merged[-1].first == target.first:
            merged[-1] = merged[-1]._replace(new=(*merged[-1].new, *target.new))
        else:
            merged.append(target)
    return merged


class _NewRow(NamedTuple):
    """A line of the result."""

    number: int
    label: str
    text: str
    complete: bool


def _label_new_lines(hunks: Sequence[Hunk]) -> list[_NewRow]:
    """The new text of the hunks behind its tags; a very long line is cut and has none."""
    rows = []
    for hunk in hunks:
        number = hunk.new_first
        for sign, row in hunk.rows:
            if sign == "-":
                continue
            body = lines.strip_ending(row)
            complete = len(body) <= _MOST_CHARS
            label = label_line(number, body) if complete else str(number)
            rows.append(_NewRow(number, label, body if complete else f"{body[:_MOST_CHARS]} [cut]", complete))
            number += 1
    return rows


def render(outcome: Outcome[Facts], templates: Templates) -> str:
    facts = outcome.facts
    return templates.fill(
        f"edit_lines.{outcome.kind}", facts, snippet=render_snippet(facts.snippet, facts.most, templates)
    )


TOOL = Tool(
    id="edit_lines",
    args=Args,
    limits=Limits,
    facts=Facts,
    data=Data,
    run=run,
    render=render,
    hints=Hints(destructive=True),
    rows={"left_out": LeftOutLines},
)
