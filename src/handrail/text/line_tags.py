"""Line tags: `12#k3` names line 12 by its number and by two characters that are computed from its text.

A model changes lines by the tags that it was shown. `Numbering` remembers which lines were shown under which number
and where the model's own changes have moved them since, so that an older number still means the same line. `follow`
finds lines that another program has moved. Both return a line only if it is certain; a tag alone never decides.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from handrail.frozen import frozen

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_NOT_TEXT = re.compile("[\ud800-\udfff\ufffd]+")
_TAG = re.compile(r"\s*(\d{1,9})\s*#\s*([0-9a-z]{2})\s*(?:\|.*)?", re.DOTALL | re.IGNORECASE)
_ECHO = re.compile(r"[ \t]*\d{1,9}#[0-9a-z]{2}\|")
_MOST_NUMBERINGS = 100
_MOST_SPANS = 500
_MOST_CONTEXT = 16


def compute_tag(body: str) -> str:
    """The tag of a line without its ending. Bytes that are not text count as one U+FFFD, as Read shows them."""
    checksum = zlib.crc32(_NOT_TEXT.sub("\ufffd", body).encode("utf-8"))
    checksum ^= checksum >> 16
    return _ALPHABET[checksum >> 5 & 31] + _ALPHABET[checksum & 31]


def label_line(number: int, body: str) -> str:
    """The number and the tag of a line, as they are shown: `12#k3`."""
    return f"{number}#{compute_tag(body)}"


class LineTag(NamedTuple):
    """A line as a model names it."""

    number: int
    tag: str

    def __str__(self) -> str:
        return f"{self.number}#{self.tag}"


def parse_tag(text: str) -> LineTag | None:
    """The number and tag in a text such as `12#k3` or a whole row `12#k3|return x`; None if it is none."""
    match = _TAG.fullmatch(text)
    return LineTag(int(match[1]), match[2].lower()) if match else None


def strip_echoes(new: Sequence[str], there: Iterable[str]) -> tuple[list[str], int]:
    """New lines without tags that a model copied from an answer, and how many had one.

    In a file that has such lines itself (``there``), they are text.
    """
    if not any(_ECHO.match(line) for line in new) or any(_ECHO.match(line) for line in there):
        return list(new), 0
    stripped = [_ECHO.sub("", line, count=1) for line in new]
    return stripped, sum(one != other for one, other in zip(stripped, new, strict=True))


class Move(NamedTuple):
    """A change of whole lines: ``removed`` lines from ``first`` on became ``added`` lines."""

    first: int
    removed: int
    added: int


class NumberedSpan(NamedTuple):
    """Lines that were shown as ``first`` to ``last``; the first of them is at line ``now``."""

    first: int
    last: int
    now: int


@frozen
class Numbering:
    """The lines that were shown between two changes of a file, under the numbers that they had then."""

    spans: tuple[NumberedSpan, ...] = ()
    """Ascending, and without overlaps."""

    def add(self, first: int, last: int) -> Numbering:
        """With lines that are shown now, where they are."""
        others = self.remove(first, last).spans
        return Numbering(_join([*others, NumberedSpan(first, last, first)]))

    def remove(self, first: int, last: int) -> Numbering:
        """Without these numbers."""
        kept = []
        for span in self.spans:
            if span.first < first:
                kept.append(span._replace(last=min(span.last, first - 1)))
            if span.last > last:
                start = max(span.first, last + 1)
                kept.append(NumberedSpan(start, span.last, span.now + start - span.first))
        return Numbering(tuple(kept))

    def follow(self, moves: Sequence[Move]) -> Numbering:
        """After a change of the file: lines that it replaced are gone, the others are where it moved them."""
        kept: list[NumberedSpan] = []
        for span in self.spans:
            position, shift = span.now, 0
            end = span.now + span.last - span.first
            for move in moves:
                if move.first > end:
                    break
                if position < move.first:
                    kept.append(_cut(span, position, move.first - 1, shift))
                position = max(position, move.first + move.removed)
                shift += move.added - move.removed
            if position <= end:
                kept.append(_cut(span, position, end, shift))
        return Numbering(_join(kept)) if len(kept) <= _MOST_SPANS else Numbering()

    def find(self, number: int) -> int | None:
        """Where the line is that was shown under a number; None if it was not shown or is gone."""
        for span in self.spans:
            if span.first <= number <= span.last:
                return span.now + number - span.first
        return None

    def covers(self, first: int, last: int) -> bool:
        """Whether all these lines were shown, and still follow each other."""
        return any(span.first <= first and last <= span.last for span in self.spans)


def _cut(span: NumberedSpan, start: int, end: int, shift: int) -> NumberedSpan:
    """The part of a span that is at lines ``start`` to ``end``, which are now ``shift`` lines further down."""
    offset = span.first - span.now
    return NumberedSpan(start + offset, end + offset, start + shift)


def _join(spans: Iterable[NumberedSpan]) -> tuple[NumberedSpan, ...]:
    """Spans in order; neighbours that follow each other now as they did then are one."""
    joined: list[NumberedSpan] = []
    for span in sorted(spans):
        last = joined[-1] if joined else None
        if last and last.last + 1 == span.first and last.now + span.first - last.first == span.now:
            joined[-1] = last._replace(last=span.last)
        else:
            joined.append(span)
    return tuple(joined)


@frozen
class ShownTags:
    """The lines of one version of a file that a model knows by their tags, under all numbers that they had."""

    numberings: tuple[Numbering, ...] = (Numbering(),)
    """The last one is of the file as it is."""

    def show(self, first: int, last: int) -> ShownTags:
        """These lines were read: from now on their numbers mean what they mean in this version."""
        *older, current = self.numberings
        kept = [numbering.remove(first, last) for numbering in older]
        return ShownTags((*(one for one in kept if one.spans), current.add(first, last)))

    def change(self, moves: Sequence[Move], shown: Sequence[tuple[int, int]]) -> ShownTags:
        """The model changed the file and was shown lines of the result; calls under way may still use older numbers."""
        moved = [numbering.follow(moves) for numbering in self.numberings]
        current = Numbering()
        for first, last in shown:
            current = current.add(first, last)
        kept = [one for one in moved if one.spans][-(_MOST_NUMBERINGS - 1) :]
        return ShownTags((*kept, current))

    def has_grown_after(self, number: int, at: int) -> bool:
        """Whether the model put lines behind the line ``at`` since it was shown under ``number``."""
        return any(one.find(number) == at and one.find(number + 1) != at + 1 for one in self.numberings[:-1])

    def locate(self, first: LineTag, last: LineTag, tag_of: Callable[[int], str | None]) -> Located:
        """Find the lines from ``first`` to ``last``; ``tag_of`` returns the tag of a line of this version."""
        places: set[tuple[int, int]] = set()
        broken = False
        wrong: LineTag | None = None
        for numbering in self.numberings:
            start, end = numbering.find(first.number), numbering.find(last.number)
            if start is None or end is None:
                continue
            mistaken = next((one for one, at in ((first, start), (last, end)) if tag_of(at) != one.tag), None)
            if mistaken:
                wrong = mistaken
            elif numbering.covers(first.number, last.number):
                places.add((start, end))
            else:
                broken = True
        if len(places) == 1 and not broken:
            return Located(*next(iter(places)))
        if places:
            return Located(problem="ambiguous")
        return Located(problem="inside" if broken else "tag" if wrong else "unknown", anchor=wrong)


@frozen
class Located:
    """Lines that were found, or why they were not."""

    first: int = 0
    last: int = 0
    problem: str = ""
    """`tag`: a number was shown with another tag; `unknown`: not shown; `inside`: lines between have changed or were
    not shown; `ambiguous`: before and after a change the same tag."""
    anchor: LineTag | None = None
    """The one that was shown with another tag."""


def follow(before: Sequence[str], now: Sequence[str], first: int, last: int) -> int | None:
    """The line at which the lines ``first`` to ``last`` of ``before`` stand in ``now``; None if that is not certain.

    They must be unchanged, and be the only ones in both texts: by themselves, or together with lines around them.
    """
    block = before[first - 1 : last]
    there, here = _find_occurrences(before, block), _find_occurrences(now, block)
    if len(there) == len(here) == 1:
        return here[0] + 1
    places = set()
    for above, below in ((1, 1), (1, 0), (0, 1)):
        place = _follow_context(before, now, (first - 1, last), there, here, above=bool(above), below=bool(below))
        if place is not None:
            places.add(place)
    return places.pop() + 1 if len(places) == 1 else None


def _find_occurrences(rows: Sequence[str], block: Sequence[str]) -> list[int]:
    size = len(block)
    return [at for at, row in enumerate(rows) if row == block[0] and rows[at : at + size] == block]


def _follow_context(
    before: Sequence[str],
    now: Sequence[str],
    block: tuple[int, int],
    there: list[int],
    here: list[int],
    *,
    above: bool,
    below: bool,
) -> int | None:
    """Compare one more line around the block at a time, until it is the only one in both texts."""
    start, end = block
    size = end - start
    for step in range(1, _MOST_CONTEXT + 1):
        wanted = (
            _get_row(before, start - step) if above else None,
            _get_row(before, end + step - 1) if below else None,
        )

        def agrees(rows: Sequence[str], at: int, step: int = step, wanted: tuple[str | None, ...] = wanted) -> bool:
            return (not above or _get_row(rows, at - step) == wanted[0]) and (
                not below or _get_row(rows, at + size + step - 1) == wanted[1]
            )

        there = [at for at in there if agrees(before, at)]
        here = [at for at in here if agrees(now, at)]
        if not here:
            return None
        if there == [start] and len(here) == 1:
            return here[0]
    return None


def _get_row(rows: Sequence[str], at: int) -> str | None:
    """A line; None outside of the text."""
    return rows[at] if 0 <= at < len(rows) else None
