"""Which encoding a file is in, and how its characters map to its bytes.

A file is never re-encoded. `sniff` says how to read it; `Codec.offsets` says which bytes a span of characters covers,
so that an edit replaces those bytes and no others.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass

from handrail.errors import BinaryFile, CannotEncode
from handrail.text import lines
from handrail.text.legacy import likely

SNIFFED = 8 * 1024
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16: its mark begins with that one's
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SINGLE_BYTE = {"cp1252", "cp1251", "koi8_r", "latin_1"}


@dataclass(frozen=True, slots=True)
class Codec:
    """How a file's bytes and its text belong together."""

    name: str
    bom: bytes = b""
    stray: bool = False
    """UTF-8 with some bytes that are not: they are carried as lone surrogates and come back as they were."""

    @property
    def label(self) -> str:
        """The encoding's name for people."""
        return self.name + (" with BOM" if self.bom else "") + (" with stray bytes" if self.stray else "")

    @property
    def unit(self) -> int:
        """The width of a code unit in bytes."""
        return 2 if self.name.startswith("utf-16") else 4 if self.name.startswith("utf-32") else 1

    @property
    def errors(self) -> str:
        return "surrogateescape" if self.stray else "surrogatepass" if self.unit > 1 else "strict"

    def decode(self, raw: bytes) -> str:
        """The text of a whole file."""
        return raw[len(self.bom) :].decode(self.name, self.errors)

    def decoder(self) -> codecs.IncrementalDecoder:
        """A decoder for a part of a file: what is not text in this encoding becomes U+FFFD."""
        return codecs.getincrementaldecoder(self.name)("replace")

    def encode(self, text: str) -> bytes:
        """New text as bytes of this file; refuses what the encoding cannot hold."""
        if self._holds(text):
            return text.encode(self.name)
        # Halve to the first character that does not come back as it went in.
        low, high = 0, len(text)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._holds(text[low:middle]) else (low, middle)
        raise self._refusal(text, low)

    def _holds(self, text: str) -> bool:
        try:
            encoded = text.encode(self.name)
            # Some legacy encodings take a character and give another one back: in EUC-JP a yen sign is a backslash.
            return self.name.startswith("utf-") or encoded.decode(self.name) == text
        except UnicodeError:
            return False

    def _refusal(self, text: str, at: int) -> CannotEncode:
        line = lines.count_ends(text[:at]) + 1
        return CannotEncode(encoding=self.label, char=text[at], code=f"U+{ord(text[at]):04X}", line=line)

    def offsets(self, raw: bytes, text: str, positions: Sequence[int]) -> list[int]:
        """The byte offset in ``raw`` of each character position of ``text``; ``positions`` must be ascending."""
        if self.name in _SINGLE_BYTE or self.unit == 4 or text.isascii():
            return [len(self.bom) + position * self.unit for position in positions]
        if self.name.startswith("utf-"):
            return self._measured(text, positions)
        return self._walked(raw, text, positions)

    def _measured(self, text: str, positions: Sequence[int]) -> list[int]:
        # Unicode encodings give every character one spelling, so that encoding again measures exactly.
        found, offset, last = [], len(self.bom), 0
        for position in positions:
            offset += len(text[last:position].encode(self.name, self.errors))
            last = position
            found.append(offset)
        return found

    def _walked(self, raw: bytes, text: str, positions: Sequence[int]) -> list[int]:
        # Legacy encodings may spell a character in several ways: walk the bytes that are there.
        decoder = codecs.getincrementaldecoder(self.name)("strict")
        found: list[int] = []
        offset = characters = 0
        for position in positions:
            while characters < position:
                step = position - characters  # no byte makes more than one character
                characters += len(decoder.decode(raw[offset : offset + step]))
                offset += step
                while decoder.getstate()[0]:  # stopped inside a character
                    characters += len(decoder.decode(raw[offset : offset + 1]))
                    offset += 1
            if characters > position:  # the bytes stand for a letter and its accent, and the span parts them
                raise self._refusal(text, position)
            found.append(offset)
        return found


UTF8 = Codec("utf-8")


def marked(head: bytes) -> Codec | None:
    """The encoding that a byte order mark announces."""
    for mark, name in _BOMS:
        if head.startswith(mark):
            return Codec(name, bom=mark)
    return None


def detect_encoding(raw: bytes, legacy: str | None = None, whole: bool = True) -> Codec:
    """The encoding of a file, from all of its bytes or, with ``whole`` false, from a part that stands for it.

    Raises `BinaryFile` on a NUL in the first 8 KB of a file without a UTF-16 or UTF-32 mark. ``legacy`` names the
    encoding to try first where the bytes are not UTF-8.
    """
    found = marked(raw)
    if found and found.unit > 1:
        if _is(raw[len(found.bom) :], found.name, whole, "surrogatepass"):
            return found
        raise BinaryFile(why=f"it starts with a {found.name} mark, but is not {found.name}")
    if b"\0" in raw[:SNIFFED]:
        raise BinaryFile(why="it holds NUL bytes")
    if found:
        return found if _is(raw, "utf-8", whole) else Codec("utf-8", bom=found.bom, stray=True)
    if raw.isascii() or _is(raw, "utf-8", whole):
        return UTF8
    return _legacy(raw, legacy, whole)


def _legacy(raw: bytes, preferred: str | None, whole: bool) -> Codec:
    if preferred:
        name = codecs.lookup(preferred).name
        if not name.startswith("utf") and _is(raw, name, whole):
            return Codec(name)
    for name in likely(raw):
        if name == "utf-8":
            return Codec(name, stray=True)  # UTF-8 and a few bytes that are not
        if name == "gb18030" and _is(raw, "gbk", whole):
            return Codec("gbk")  # what only the newer standard has would be strange in this file
        if _is(raw, name, whole):
            return Codec(name)
        if name == "cp1252":
            return Codec("latin_1")  # which has every byte
    raise AssertionError("one of them has every byte")


def _is(raw: bytes, name: str, whole: bool, errors: str = "strict") -> bool:
    """Whether ``raw`` is text in this encoding; checked piece by piece, so that a big file is not copied."""
    decoder = codecs.getincrementaldecoder(name)(errors)
    size = 1 << 20
    try:
        for start in range(0, len(raw), size):
            decoder.decode(raw[start : start + size])
        decoder.decode(b"", final=whole)
    except UnicodeDecodeError:
        return False
    return True
