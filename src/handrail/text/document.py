"""A file as text that remembers its bytes, and replacements that change as few of them as possible.

Matching works on `text`; `Document.splice` replaces the bytes of the matched spans and copies every other byte as it
is. `splice` plans a replacement: what `old` and `new` have in common stays, an unchanged line keeps its ending, a
changed line takes the ending of the line it replaces, an added line that of its neighbour.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from handrail.text import lines
from handrail.text.codec import SNIFFED, UTF8, Codec, detect_bom, detect_encoding
from handrail.text.lines import get_opcodes


@dataclass(frozen=True, slots=True)
class Splice:
    """Replace the characters ``start:end`` of a text by ``new``."""

    start: int
    end: int
    new: str


@dataclass(frozen=True, slots=True)
class EditPlan:
    """An edit that applies: its splices, and how it was matched."""

    level: str
    variants: tuple[str, ...]
    splices: tuple[Splice, ...]
    places: int = 1


@dataclass(frozen=True)
class Document:
    """The raw bytes of a file, its encoding, and the text they make."""

    raw: bytes
    codec: Codec

    @cached_property
    def text(self) -> str:
        return self.codec.decode(self.raw)

    def splice(self, splices: Sequence[Splice]) -> bytes:
        """Return the bytes of the file with these spans replaced; splices must be in order and must not overlap."""
        if not splices:
            return self.raw
        positions = [position for splice in splices for position in (splice.start, splice.end)]
        offsets = self.codec.offsets(self.raw, self.text, positions)
        whole = memoryview(self.raw)  # whose parts are copied once, when they are joined
        parts: list[bytes | memoryview] = []
        last = 0
        for number, splice in enumerate(splices):
            start, end = offsets[2 * number], offsets[2 * number + 1]
            parts += [whole[last:start], self.codec.encode(splice.new)]
            last = end
        return b"".join([*parts, whole[last:]])


def decode_document(raw: bytes, legacy: str | None = None) -> Document:
    """Detect the encoding of ``raw`` and decode it; raises `BinaryFile`."""
    if not detect_bom(raw) and b"\0" not in raw[:SNIFFED]:
        document = Document(raw, UTF8)
        try:
            document.text  # noqa: B018 - nearly every file is UTF-8: it is checked and read in one pass
        except UnicodeDecodeError:
            pass
        else:
            return document
    return Document(raw, detect_encoding(raw, legacy))


NEW = Document(b"", UTF8)
"""A file that does not exist yet."""


def apply_splices(text: str, splices: Sequence[Splice]) -> str:
    """``text`` with these spans replaced."""
    parts, last = [], 0
    for splice in splices:
        parts += [text[last : splice.start], splice.new]
        last = splice.end
    return "".join([*parts, text[last:]])


class _Piece(NamedTuple):
    """A stretch of the original text, or of a text that came in later."""

    text: str
    start: int
    end: int
    kept: bool
    """Whether it is the original's."""


class Edited:
    """A text under several edits in a row, which remembers what is still the original's."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._pieces = [_Piece(text, 0, len(text), kept=True)]
        self._length = len(text)

    def apply(self, splices: Sequence[Splice]) -> None:
        """Make these edits in the text as it is now."""
        ahead = self._pieces[::-1]
        done: list[_Piece] = []
        position = 0
        for splice in splices:
            done += _take(ahead, splice.start - position)
            _take(ahead, splice.end - splice.start)
            done.append(_Piece(splice.new, 0, len(splice.new), kept=False))
            position = splice.end
        self._pieces = done + ahead[::-1]
        self.text = apply_splices(self.text, splices)

    def splices(self) -> list[Splice]:
        """All edits so far, as splices of the original text."""
        splices: list[Splice] = []
        last, new = 0, []
        for piece in [*self._pieces, _Piece("", self._length, self._length, kept=True)]:
            if not piece.kept:
                new.append(piece.text[piece.start : piece.end])
                continue
            text = "".join(new)
            if text or piece.start > last:
                splices.append(Splice(last, piece.start, text))
            last, new = piece.end, []
        return splices


def _take(ahead: list[_Piece], length: int) -> list[_Piece]:
    """Take pieces of this length from the end of ``ahead``, where the next one lies; one is cut in two if need be."""
    taken = []
    while length > 0:
        piece = ahead.pop()
        cut = min(piece.end, piece.start + length)
        taken.append(piece._replace(end=cut))
        if cut < piece.end:
            ahead.append(piece._replace(start=cut))
        length -= cut - piece.start
    return taken


def splice(text: str, start: int, end: int, old: str, new: str) -> Splice | None:
    """Replace ``start:end``, matched by ``old``, with what ``new`` means there; None if nothing would change."""
    if text[start:end] != old or not _means_endings(old, new):
        new = keep_endings(text, start, end, new)
    return minimize(text, start, end, new)


def _means_endings(old: str, new: str) -> bool:
    """Whether an edit means line endings literally: both texts spell out "\\r", or nothing else is changed."""
    return "\r" in old and ("\r" in new or lines.to_feeds(old) == lines.to_feeds(new))


def minimize(text: str, start: int, end: int, new: str) -> Splice | None:
    """Replace ``start:end`` with ``new``, leaving alone what both have in common; None if that is everything."""
    there = text[start:end]
    head = _common_head(there, new)
    tail = _common_tail(there[head:], new[head:])
    if head + tail == len(there) == len(new):
        return None
    return Splice(start + head, end - tail, new[head : len(new) - tail])


def keep_endings(text: str, start: int, end: int, new: str) -> str:
    """``new`` with the line endings of the part of the file that it replaces."""
    new = lines.to_feeds(new)
    if "\n" not in new:
        return new
    # Whole lines are compared: the span may begin and end inside one, and that line has an ending too.
    begin, stop = lines.start_of_line(text, start), lines.end_of_line(text, end)
    there, before = text[begin:stop], lines.ending(text[max(0, begin - 2) : begin])
    if "\n" in there and "\r" not in there and before != "\r":
        return new
    head, tail = text[begin:start], text[end:stop]
    new_lines = lines.split(head + new + lines.to_feeds(tail))
    endings = _choose_endings(lines.split(there), new_lines, before)
    _separate_endings(new_lines, endings, before, tail)
    result = "".join(lines.body(line) + ending for line, ending in zip(new_lines, endings, strict=True))
    if tail:  # the last line is the file's own from here on
        result = result[: len(result) - len(endings[-1]) - len(lines.body(tail))]
    return result[len(head) :]


def _choose_endings(there: list[str], new_lines: list[str], before: str) -> list[str]:
    """An ending for each wanted line, found by aligning them with the lines that are there."""
    known = [ending for line in there if (ending := lines.ending(line))]
    last = before or (known[0] if known else "\n")
    if len(set(known)) <= 1:
        main = known[0] if known else last
        return [main if line.endswith("\n") else "" for line in new_lines]
    endings: list[str] = []
    for _, i1, i2, j1, j2 in get_opcodes(
        [lines.body(line) for line in there], [lines.body(line) for line in new_lines]
    ):
        for number, line in enumerate(new_lines[j1:j2]):
            own = lines.ending(there[i1 + number]) if i1 + number < i2 else ""
            last = own or last
            endings.append(last if line.endswith("\n") else "")
        if i2 > i1:
            last = lines.ending(there[i2 - 1]) or last
    return endings


def _separate_endings(new_lines: list[str], endings: list[str], before: str, tail: str) -> None:
    """Fix endings that would run together: a lone "\\r", then an empty line that ends with "\\n", read as one."""
    if tail:
        endings[-1] = lines.ending(tail)
    for number, line in enumerate(new_lines):
        previous = endings[number - 1] if number else before
        if previous == "\r" and endings[number] == line == "\n":
            if tail and number == len(new_lines) - 1 and number:
                endings[number - 1] = "\r\n"  # the last ending is the file's own
            else:
                endings[number] = "\r\n"


def _common_head(one: str, other: str) -> int:
    length = _count_common(one, other, forward=True)
    # Never part a "\r\n": a cut between its halves would leave a line ending that neither text has.
    return (
        length - 1
        if length and one[length - 1] == "\r" and "\n" in (one[length : length + 1], other[length : length + 1])
        else length
    )


def _common_tail(one: str, other: str) -> int:
    length = _count_common(one, other, forward=False)
    if length and one[len(one) - length] == "\n":
        before = (one[len(one) - length - 1 : len(one) - length], other[len(other) - length - 1 : len(other) - length])
        return length - 1 if "\r" in before else length
    return length


def _count_common(one: str, other: str, forward: bool) -> int:
    """The length of the longest common prefix, or suffix, by halving: compares slices, not characters."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        same = (
            one[low:middle] == other[low:middle]
            if forward
            else one[len(one) - middle : len(one) - low] == other[len(other) - middle : len(other) - low]
        )
        if same:
            low = middle
        else:
            high = middle - 1
    return low
