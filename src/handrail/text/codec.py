"""Which encoding a file is in, and how its characters map to its bytes.

A file is never re-encoded. `sniff` says how to read it; `Codec.offsets` says which bytes a span of characters covers,
so that an edit replaces those bytes and no others.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from dataclasses import dataclass

from handrail.errors import BinaryFile, CannotEncode

SNIFFED = 8 * 1024
_SAMPLE = 64 * 1024
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16: its mark begins with that one's
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# charset-normalizer is asked about these alone: with its whole list a short Western file comes out as Central European.
_LEGACY = ["gb18030", "big5", "cp932", "euc_jp", "euc_kr", "cp1252", "cp1251", "koi8_r", "latin_1"]
_SINGLE_BYTE = {"cp1252", "cp1251", "koi8_r", "latin_1"}
_MULTIBYTE_UTF8 = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_HIGH = re.compile(rb"[\x80-\xff]")


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
        try:
            return text.encode(self.name)
        except UnicodeEncodeError as error:
            bad = text[error.start]
            line = text.count("\n", 0, error.start) + 1
            raise CannotEncode(encoding=self.label, char=bad, code=f"U+{ord(bad):04X}", line=line) from None

    def offsets(self, raw: bytes, text: str, positions: Sequence[int]) -> list[int]:
        """The byte offset in ``raw`` of each character position of ``text``; ``positions`` must be ascending."""
        if self.name in _SINGLE_BYTE or self.name == "utf-32-le" or self.name == "utf-32-be" or text.isascii():
            return [len(self.bom) + position * self.unit for position in positions]
        if self.name.startswith("utf-"):
            return self._measured(text, positions)
        return self._walked(raw, positions)

    def _measured(self, text: str, positions: Sequence[int]) -> list[int]:
        # Unicode encodings give every character one spelling, so that encoding again measures exactly.
        found, offset, last = [], len(self.bom), 0
        for position in positions:
            offset += len(text[last:position].encode(self.name, self.errors))
            last = position
            found.append(offset)
        return found

    def _walked(self, raw: bytes, positions: Sequence[int]) -> list[int]:
        # Legacy encodings may spell a character in several ways: walk the bytes that are there.
        decoder = codecs.getincrementaldecoder(self.name)("strict")
        found: list[int] = []
        offset = characters = 0
        for position in positions:
            while characters < position:
                step = max(1, min((position - characters) // 2, len(raw) - offset))
                characters += len(decoder.decode(raw[offset : offset + step]))
                offset += step
                while decoder.getstate()[0]:  # stopped inside a character
                    characters += len(decoder.decode(raw[offset : offset + 1]))
                    offset += 1
            found.append(offset)
        return found


UTF8 = Codec("utf-8")


def marked(head: bytes) -> Codec | None:
    """The encoding that a byte order mark announces."""
    for mark, name in _BOMS:
        if head.startswith(mark):
            return Codec(name, bom=mark)
    return None


def sniff(raw: bytes, legacy: str | None = None, whole: bool = True) -> Codec:
    """The encoding of a file, from all of its bytes or, with ``whole`` false, from a part that stands for it.

    Raises `BinaryFile` on a NUL in the first 8 KB of a file without a byte order mark. ``legacy`` names the encoding
    to try first where the bytes are not UTF-8.
    """
    found = marked(raw)
    if found and found.unit == 1:
        return found if _is(raw, "utf-8", whole) else Codec("utf-8", bom=found.bom, stray=True)
    if found:
        if _is(raw[len(found.bom) :], found.name, whole, "surrogatepass"):
            return found
        raise BinaryFile(why=f"it starts with a {found.name} mark, but is not {found.name}")
    if b"\0" in raw[:SNIFFED]:
        raise BinaryFile(why="it holds NUL bytes")
    if raw.isascii() or _is(raw, "utf-8", whole):
        return UTF8
    return _legacy(raw, legacy, whole)


def _legacy(raw: bytes, preferred: str | None, whole: bool) -> Codec:
    if preferred and _is(raw, preferred, whole):
        return Codec(codecs.lookup(preferred).name)
    sample = _around_high_bytes(raw)
    good = sum(len(part) for part in _MULTIBYTE_UTF8.findall(sample))
    if good * 2 > len(_HIGH.findall(sample)):
        return Codec("utf-8", stray=True)  # mostly UTF-8 and a few bytes that are not
    if _lone_high_bytes(sample):
        names = ["cp1252", "latin_1"]  # a CJK text has its high bytes in pairs
    else:
        # The slowest import of this module, and needed for legacy files alone.
        from charset_normalizer import from_bytes

        best = from_bytes(sample, cp_isolation=_LEGACY).best()
        names = [best.encoding] if best else []
    for name in [*names, "cp1252", "latin_1"]:
        name = "gbk" if name == "gb18030" and _is(raw, "gbk", whole) else name
        if _is(raw, name, whole):
            return Codec(name)
    raise AssertionError("latin_1 decodes everything")


def _lone_high_bytes(sample: bytes) -> bool:
    runs = re.findall(rb"[\x80-\xff]+", sample)
    return sum(len(run) == 1 for run in runs) * 10 >= len(runs) * 9


def _around_high_bytes(raw: bytes) -> bytes:
    """A sample in whole lines from the first byte that is not ASCII on."""
    if len(raw) <= _SAMPLE:
        return raw
    first = _HIGH.search(raw)
    start = raw.rfind(b"\n", 0, first.start()) + 1 if first else 0
    start = max(start, (first.start() if first else 0) - _SAMPLE // 2)
    end = raw.rfind(b"\n", start, start + _SAMPLE)
    return raw[start : end + 1 if end > (first.start() if first else start) else start + _SAMPLE]


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
