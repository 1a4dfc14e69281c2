"""Diffs around splices, without comparing whole files.

Only the changed lines and three lines around them are compared, so a change costs the same in a file of 50 lines as in
one of 50,000. The output is bounded: after `MOST_ROWS` rows one last hunk counts the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from handrail.frozen import frozen
from handrail.text import lines
from handrail.text.document import Splice
from handrail.text.lines import SLIDE, Opcode, count_equal_edges, get_opcodes, group_opcodes, join_opcodes, settle

CONTEXT = 3
_AROUND = CONTEXT + SLIDE
"""So many lines around a change are looked at, so that three are left wherever it settles."""
MOST_ROWS = 2_000
MOST_CHARS = 2_000
"""A longer line is cut where it is shown."""

Row = tuple[str, str]
"""A sign (space, `-`, `+`) and a line with its ending."""


@frozen
class LeftOut:
    """The rest of a long diff."""

    places: int
    old_count: int
    new_count: int


@frozen
class Hunk:
    """Neighbouring lines of both texts. Only the last of a list may have `left_out`, and no rows then."""

    old_first: int
    new_first: int
    rows: tuple[Row, ...]
    left_out: LeftOut | None = None

    @property
    def old_count(self) -> int:
        return self.left_out.old_count if self.left_out else sum(sign != "+" for sign, _ in self.rows)

    @property
    def new_count(self) -> int:
        return self.left_out.new_count if self.left_out else sum(sign != "-" for sign, _ in self.rows)


def compute_hunks(text: str, splices: Sequence[Splice], most_rows: int = MOST_ROWS) -> list[Hunk]:
    """Compute the changed places of ``text``, each with three lines of context; places that are near share a hunk."""
    hunks: list[Hunk] = []
    line, position, grown, room, done = 1, 0, 0, most_rows, 0
    for group in _group_changed(text, splices, most_rows):
        start = _go_back(text, group[0].start)
        line += lines.count_ends(text, position, start)
        position = start
        before, after, codes = _compare(text, start, group, line - 1)
        for part in group_opcodes(codes, CONTEXT):
            rows, old, new = _collect_rows(part, before, after, room)
            room -= len(rows)
            if rows:
                hunks.append(Hunk(line + part[0][1], line + grown + part[0][3], tuple(rows)))
            if old < part[-1][2] or new < part[-1][4]:
                reached = start + sum(map(len, before[:old]))
                done += sum(splice.start < reached for place in group for splice in place.splices)
                return [*hunks, _summarize_rest(text, splices, done, line + old, line + grown + new)]
        grown += len(after) - len(before)
        done += sum(len(place.splices) for place in group)
    return hunks


@dataclass(slots=True)
class _ChangedLines:
    """Whole lines that some splices touch."""

    start: int
    end: int
    splices: list[Splice]


def _find_changed(text: str, splices: Sequence[Splice]) -> Iterator[_ChangedLines]:
    place: _ChangedLines | None = None
    for splice in splices:
        if place is None or place.end <= splice.start < len(text):
            start = lines.start_of_line(text, splice.start)
            if text[max(0, start - 1) : start] == "\r":
                start = lines.start_of_line(text, start - 1)  # the change may make that ending a "\r\n"
            if place is None or start >= place.end:
                if place:
                    yield place
                place = _ChangedLines(start, start, [])
        if splice.end >= place.end:
            place.end = lines.end_of_line(text, splice.end)
        place.splices.append(splice)
    if place:
        yield place


def _group_changed(text: str, splices: Sequence[Splice], most: int) -> Iterator[list[_ChangedLines]]:
    """Places with context in common. A group that has more places than there can be rows is not gone on with."""
    group: list[_ChangedLines] = []
    for place in _find_changed(text, splices):
        if group and not _are_near(text, group[-1].end, place.start):
            yield group
            group = []
        group.append(place)
        if len(group) > most:
            break
    if group:
        yield group


def _are_near(text: str, position: int, other: int) -> bool:
    for _ in range(2 * _AROUND):
        if position < other:
            position = lines.end_of_line(text, position)
    return position >= other


def _compare(
    text: str, start: int, group: Sequence[_ChangedLines], above: int
) -> tuple[list[str], list[str], list[Opcode]]:
    """The lines of both texts around some places, and how they differ; between the places nothing does."""
    before: list[str] = []
    after: list[str] = []
    codes: list[Opcode] = []

    def same(rows: list[str]) -> None:
        codes.append(("equal", len(before), len(before) + len(rows), len(after), len(after) + len(rows)))
        before.extend(rows)
        after.extend(rows)

    last = start
    for place in group:
        same(lines.split(text[last : place.start]))
        old, new = lines.split(text[place.start : place.end]), lines.split(_apply(text, place))
        i, j = len(before), len(after)
        codes += [(code, i + i1, i + i2, j + j1, j + j2) for code, i1, i2, j1, j2 in get_opcodes(old, new)]
        before += old
        after += new
        last = place.end
    end = _go_forward(text, last)
    same(lines.split(text[last:end]))
    return before, after, settle(join_opcodes(codes), before, after, above, lambda: lines.count(text[end:]))


def _apply(text: str, place: _ChangedLines) -> str:
    parts, last = [], place.start
    for splice in place.splices:
        parts += [text[last : splice.start], splice.new]
        last = splice.end
    return "".join([*parts, text[last : place.end]])


def _go_back(text: str, start: int) -> int:
    for _ in range(_AROUND):
        start = lines.start_of_line(text, start - 1) if start else 0
    return start


def _go_forward(text: str, end: int) -> int:
    for _ in range(_AROUND):
        end = lines.end_of_line(text, end)
    return end


def _collect_rows(
    codes: Sequence[Opcode], before: list[str], after: list[str], room: int
) -> tuple[list[Row], int, int]:
    """The rows of a hunk, as many as there is room for, and up to which line of both texts they reach."""
    rows: list[Row] = []
    i = j = 0
    for code, i1, i2, j1, j2 in codes:
        left, old, new = room - len(rows), i2 - i1, j2 - j1
        if code == "equal":
            old = new = min(old, left)
            rows += [(" ", row) for row in before[i1 : i1 + old]]
        else:
            new = min(new, max(left // 2, left - old))  # what does not fit is cut on both sides
            old = min(old, left - new)
            rows += [("-", row) for row in before[i1 : i1 + old]] + [("+", row) for row in after[j1 : j1 + new]]
        i, j = i1 + old, j1 + new
        if i < i2 or j < j2:
            break
    return rows, i, j


def _summarize_rest(text: str, splices: Sequence[Splice], done: int, old_line: int, new_line: int) -> Hunk:
    """The rest behind the rows that are shown, from these lines on to the last change, as one hunk."""
    end = lines.end_of_line(text, splices[-1].end)
    old_last = lines.count(text[:end])
    grown = sum(lines.count_ends(one.new) - lines.count_ends(text[one.start : one.end]) for one in splices)
    old, new = max(0, old_last - old_line + 1), max(0, old_last + grown - new_line + 1)
    return Hunk(old_line, new_line, (), LeftOut(max(1, len(splices) - done), old, new))


def format_unified(name: str, hunks: Sequence[Hunk], created: bool = False, deleted: bool = False) -> str:
    """Format hunks as a unified diff, like `difflib.unified_diff`; very long lines are cut."""
    return format_header(name, created, deleted) + "".join(map(format_hunk, hunks)) if hunks else ""


def format_header(name: str, created: bool = False, deleted: bool = False) -> str:
    """The first two lines of a unified diff."""
    return f"--- {'/dev/null' if created else name}\n+++ {'/dev/null' if deleted else name}\n"


def format_hunk(hunk: Hunk) -> str:
    """One hunk of a unified diff."""
    if hunk.left_out:
        return f"\\ {_describe_rest(hunk, hunk.left_out)}\n"
    old, new = _format_range(hunk.old_first, hunk.old_count), _format_range(hunk.new_first, hunk.new_count)
    parts = [f"@@ -{old} +{new} @@\n"]
    for sign, row in hunk.rows:
        parts.append(sign + _shorten(lines.strip_ending(row)) + lines.get_ending(row))
        if not row.endswith("\n"):
            parts.append("\n" if row.endswith("\r") else "\n\\ No newline at end of file\n")
    return "".join(parts)


def _describe_rest(hunk: Hunk, rest: LeftOut) -> str:
    places = "1 more place" if rest.places == 1 else f"{rest.places} more places"
    return f"{places} not shown, up to line {hunk.new_first + max(rest.new_count, 1) - 1}"


def _format_range(first: int, count: int) -> str:
    return f"{first}" if count == 1 else f"{first - (count == 0)},{count}"


def _shorten(line: str) -> str:
    left = len(line) - MOST_CHARS
    return line if left <= 0 else f"{line[:MOST_CHARS]} [{left} characters more]"


def number_new_lines(hunks: Sequence[Hunk]) -> list[tuple[int, str]]:
    """The new text of the hunks as numbered lines without endings; very long lines are cut."""
    rows = []
    for hunk in hunks:
        number = hunk.new_first
        for sign, row in hunk.rows:
            if sign != "-":
                rows.append((number, _shorten(lines.strip_ending(row))))
                number += 1
    return rows


@frozen
class ChangedLines:
    """The lines of a file that differ from the version that was seen."""

    places: tuple[tuple[int, int], ...] = ()
    """First and last line of each place, also where lines are gone; empty if the places are not known."""
    new: tuple[tuple[int, int], ...] = ()
    """First and last line of what was not there when the file was seen."""

    def describe(self, most: int = 5) -> str:
        """List the places; empty if they are not known."""
        shown = [f"{first}" if first == last else f"{first}-{last}" for first, last in self.places[:most]]
        more = len(self.places) - most
        return ", ".join(shown) + (f" and {more} more places" if more > 0 else "")

    def reach(self, first: int, last: int) -> bool:
        """Whether one of these lines was not there when the file was seen."""
        return any(start <= last and first <= end for start, end in self.new)


def compare_lines(old: Sequence[str], new: Sequence[str]) -> ChangedLines:
    """The lines of ``new`` that differ from ``old``."""
    head, tail = count_equal_edges(old, new)
    codes = get_opcodes(old[head : len(old) - tail], new[head : len(new) - tail])
    changed = [(head + start, head + end) for code, _, _, start, end in codes if code != "equal"]
    return ChangedLines(
        tuple((start + 1, max(end, start + 1)) for start, end in changed),
        tuple((start + 1, end) for start, end in changed if end > start),
    )
