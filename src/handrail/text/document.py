"""A file as text that remembers its bytes.

Matching happens in `text`; `spliced` replaces the bytes of the matched spans and copies every other byte as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from handrail.text.codec import UTF8, Codec, sniff


@dataclass(frozen=True, slots=True)
class Splice:
    """Replace the characters ``start:end`` of a text by ``new``."""

    start: int
    end: int
    new: str


@dataclass(frozen=True)
class Document:
    """The raw bytes of a file, its encoding, and the text they make."""

    raw: bytes
    codec: Codec

    @cached_property
    def text(self) -> str:
        return self.codec.decode(self.raw)

    def spliced(self, splices: Sequence[Splice]) -> bytes:
        """The bytes of the file with these spans replaced; splices must be in order and apart."""
        if not splices:
            return self.raw
        positions = [position for splice in splices for position in (splice.start, splice.end)]
        offsets = self.codec.offsets(self.raw, self.text, positions)
        parts, last = [], 0
        for number, splice in enumerate(splices):
            start, end = offsets[2 * number], offsets[2 * number + 1]
            parts += [self.raw[last:start], self.codec.encode(splice.new)]
            last = end
        return b"".join([*parts, self.raw[last:]])


def document(raw: bytes, legacy: str | None = None) -> Document:
    """Read ``raw`` in the encoding it is in; raises `BinaryFile`."""
    return Document(raw, sniff(raw, legacy))


NEW = Document(b"", UTF8)
"""A file that does not exist yet."""


def applied(text: str, splices: Sequence[Splice]) -> str:
    """``text`` with these spans replaced."""
    parts, last = [], 0
    for splice in splices:
        parts += [text[last : splice.start], splice.new]
        last = splice.end
    return "".join([*parts, text[last:]])


class Edited:
    """A text under several edits in a row, which remembers what is still the original's."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._pieces: list[tuple[int, int] | str] = [(0, len(text))]
        self._length = len(text)

    def apply(self, splices: Sequence[Splice]) -> None:
        """Make these edits in the text as it is now."""
        for splice in reversed(splices):
            head, rest = _parted(self._pieces, splice.start)
            self._pieces = [*head, splice.new, *_parted(rest, splice.end - splice.start)[1]]
        self.text = applied(self.text, splices)

    def splices(self) -> list[Splice]:
        """All edits so far, as splices of the original text."""
        found: list[Splice] = []
        last, new = 0, ""
        for piece in [*self._pieces, (self._length, self._length)]:
            if isinstance(piece, str):
                new += piece
                continue
            start, end = piece
            if new or start > last:
                found.append(Splice(last, start, new))
                new = ""
            last = end
        return found


def _parted(
    pieces: list[tuple[int, int] | str], position: int
) -> tuple[list[tuple[int, int] | str], list[tuple[int, int] | str]]:
    """The pieces before and behind a position, one of them cut in two if need be."""
    for number, piece in enumerate(pieces):
        length = len(piece) if isinstance(piece, str) else piece[1] - piece[0]
        if position < length:
            if isinstance(piece, str):
                return [*pieces[:number], piece[:position]], [piece[position:], *pieces[number + 1 :]]
            middle = piece[0] + position
            return [*pieces[:number], (piece[0], middle)], [(middle, piece[1]), *pieces[number + 1 :]]
        position -= length
    return pieces, []
