"""A file as text that remembers its bytes.

Matching works on `text`; `splice` replaces the bytes of the matched spans and copies every other byte as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from handrail.text.codec import SNIFFED, UTF8, Codec, detect_bom, detect_encoding


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
        found = Document(raw, UTF8)
        try:
            found.text  # noqa: B018 - nearly every file is UTF-8: it is checked and read in one pass
        except UnicodeDecodeError:
            pass
        else:
            return found
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
        found: list[Splice] = []
        last, new = 0, []
        for piece in [*self._pieces, _Piece("", self._length, self._length, kept=True)]:
            if not piece.kept:
                new.append(piece.text[piece.start : piece.end])
                continue
            text = "".join(new)
            if text or piece.start > last:
                found.append(Splice(last, piece.start, text))
            last, new = piece.end, []
        return found


def _take(ahead: list[_Piece], length: int) -> list[_Piece]:
    """Take pieces of this length from the end of ``ahead``, where the next one lies; one is cut in two if need be."""
    found = []
    while length > 0:
        piece = ahead.pop()
        cut = min(piece.end, piece.start + length)
        found.append(piece._replace(end=cut))
        if cut < piece.end:
            ahead.append(piece._replace(start=cut))
        length -= cut - piece.start
    return found
