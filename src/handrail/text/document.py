"""A file as text that remembers its bytes and encoding, and replacements that change as few of the bytes as possible.

A file is never re-encoded. `detect_encoding` returns a `Codec`; `Codec.offsets` returns the bytes that a span of
characters covers, so that an edit replaces those bytes and no others.

Matching works on `text`; `Document.splice` replaces the bytes of the matched spans and copies every other byte as it
is. `splice` plans a replacement: what `old` and `new` have in common stays, an unchanged line keeps its ending, a
changed line takes the ending of the line it replaces, an added line that of its neighbour.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

from handrail.errors import BinaryFile, CannotEncode
from handrail.frozen import frozen
from handrail.text import lines
from handrail.text.lines import get_opcodes

SNIFFED = 8 * 1024
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16: its mark begins with that one's
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SINGLE_BYTE = {"cp1252", "cp1251", "koi8_r", "latin_1"}

# Legacy encodings. Each is described by the kinds of characters in its texts and by the cost of a character of each
# kind (a negative logarithm: the share of the kind in ordinary text over the number of its characters). The encoding
# that explains a sample at the lowest cost wins. A few characters suffice, and UTF-8 with a few other bytes is one of
# the candidates. charset-normalizer needs longer texts: it often mistakes a comment of two words in GBK, Big5 or
# Shift-JIS for something else.
_SAMPLE = 4 * 1024
_WINDOW = 64 * 1024
_HIGH = re.compile(rb"[\x80-\xff]")
_ASCII = 4.2
_IMPOSSIBLE = 20.0
_PAIR = re.compile(rb"[\x80-\xff](?=[\x80-\xff])")

_WIDE = rb"[\x40-\x7e\x80-\xfe]"
_KINDS: dict[str, Sequence[tuple[bytes, float]]] = {
    "utf-8": (
        (rb"[\xc2-\xdf][\x80-\xbf]", 6.0),
        (rb"[\xe1-\xef][\x80-\xbf]{2}|\xe0[\xa0-\xbf][\x80-\xbf]", 8.5),
        (rb"[\xf0-\xf4][\x80-\xbf]{3}", 12.0),
        (rb"[\x80-\xff]", 12.0),
    ),
    "cp1252": (
        (rb"[\xe0-\xff]", 3.7),  # small letters
        (rb"[\x80\x85\x91-\x97\x99]", 4.3),  # typographic marks
        (rb"[\xc0-\xdf]", 5.7),  # capitals
        (rb"[\xa0-\xbf]", 6.0),  # signs
        (rb"[\x82-\x8c\x8e\x98-\x9c\x9e\x9f]", 7.3),
        (rb"[\x81\x8d\x8f\x90\x9d]", 9.0),  # Latin-1 alone has these
    ),
    "gb18030": (
        (rb"\xa1[\xa2-\xbf]|\xa3[\xa1-\xbf]", 5.0),  # punctuation
        (rb"[\xb0-\xd7][\xa1-\xfe]", 7.0),  # the common characters
        (rb"[\xd8-\xf7][\xa1-\xfe]", 11.2),
        (rb"[\x81-\xfe]" + _WIDE + rb"|[\x81-\xfe][0-9][\x81-\xfe][0-9]", 14.2),
    ),
    "big5": (
        (rb"\xa1[\x40-\x7e\xa1-\xfe]", 6.0),  # punctuation
        (rb"[\xa4-\xc5][\x40-\x7e\xa1-\xfe]|\xc6[\x40-\x7e]", 7.4),  # the common characters
        (rb"[\xc9-\xf9][\x40-\x7e\xa1-\xfe]", 12.0),
        (rb"[\xa2\xa3][\x40-\x7e\xa1-\xfe]", 12.0),
    ),
    "cp932": (
        (rb"\x82[\x9f-\xf1]|\x83[\x40-\x7e\x80-\x96]", 5.0),  # kana
        (rb"\x81[\x40-\x7e\x80-\x9e]", 5.0),  # punctuation
        (rb"[\x88-\x97][\x40-\x7e\x80-\xfc]|\x98[\x40-\x72]", 8.4),  # the common kanji
        (rb"[\xa1-\xdf]", 9.0),  # kana of half width
        (rb"[\x81-\x9f\xe0-\xfc][\x40-\x7e\x80-\xfc]", 12.0),
    ),
    "euc_jp": (
        (rb"[\xa4\xa5][\xa1-\xf6]", 5.0),  # kana
        (rb"\xa1[\xa1-\xdf]", 5.5),  # punctuation
        (rb"[\xb0-\xcf][\xa1-\xfe]", 8.4),  # the common kanji
        (rb"\x8f?[\xa1-\xfe][\xa1-\xfe]|\x8e[\xa1-\xdf]", 12.0),
    ),
    "euc_kr": (
        (rb"[\xb0-\xc8][\xa1-\xfe]", 6.2),  # Hangul
        (rb"\xa1[\xa1-\xdf]", 7.0),
        (rb"[\xa1-\xfe][\xa1-\xfe]", 12.3),
    ),
    "cp1251": ((rb"[\xe0-\xff\xb8]", 3.7), (rb"[\xc0-\xdf\xa8]", 5.4), (rb"[\x80-\xff]", 7.5)),
    "koi8_r": ((rb"[\xc0-\xdf\xa3]", 3.7), (rb"[\xe0-\xff\xb3]", 5.4), (rb"[\x80-\xff]", 8.5)),
}
# What it costs that a character touches an ASCII letter: in Western texts both make one word, elsewhere hardly ever.
_MIXED = {"cp1252": 0.0, "utf-8": 0.0, "cp1251": 3.0, "koi8_r": 3.0}
_MIXED_ELSEWHERE = 1.0
# What it costs that two high bytes stand side by side: in Western texts they are mostly alone.
_CROWDED = {"cp1252": 2.3}
# What it costs to believe in an encoding at all; the others are believed sooner.
_DOUBTED = {"gb18030": 2.0, "big5": 2.0, "cp932": 2.0, "cp1251": 6.5, "koi8_r": 9.0, "euc_jp": 8.0, "euc_kr": 4.0}


@frozen
class Codec:
    """Converts between the bytes of a file and its text."""

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
        if self._can_encode(text):
            return text.encode(self.name)
        # Halve to the first character that does not come back as it went in.
        low, high = 0, len(text)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._can_encode(text[low:middle]) else (low, middle)
        raise self._cannot_encode(text, low)

    def _can_encode(self, text: str) -> bool:
        try:
            encoded = text.encode(self.name)
            # Some legacy encodings take a character and give another one back: in EUC-JP a yen sign is a backslash.
            return self.name.startswith("utf-") or encoded.decode(self.name) == text
        except UnicodeError:
            return False

    def _cannot_encode(self, text: str, at: int) -> CannotEncode:
        line = lines.count_ends(text[:at]) + 1
        return CannotEncode(encoding=self.label, char=text[at], codepoint=f"U+{ord(text[at]):04X}", line=line)

    def offsets(self, raw: bytes, text: str, positions: Sequence[int]) -> list[int]:
        """The byte offset in ``raw`` of each character position of ``text``; ``positions`` must be ascending."""
        if self.name in _SINGLE_BYTE or self.unit == 4 or text.isascii():
            return [len(self.bom) + position * self.unit for position in positions]
        if self.name.startswith("utf-"):
            return self._measure_offsets(text, positions)
        return self._walk_offsets(raw, text, positions)

    def _measure_offsets(self, text: str, positions: Sequence[int]) -> list[int]:
        # Unicode encodings give every character one spelling, so that encoding again measures exactly.
        offsets, offset, last = [], len(self.bom), 0
        for position in positions:
            offset += len(text[last:position].encode(self.name, self.errors))
            last = position
            offsets.append(offset)
        return offsets

    def _walk_offsets(self, raw: bytes, text: str, positions: Sequence[int]) -> list[int]:
        # Legacy encodings may spell a character in several ways: walk the bytes that are there.
        decoder = codecs.getincrementaldecoder(self.name)("strict")
        offsets: list[int] = []
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
                raise self._cannot_encode(text, position)
            offsets.append(offset)
        return offsets


UTF8 = Codec("utf-8")


def detect_bom(head: bytes) -> Codec | None:
    """Return the encoding that a byte order mark announces; None if there is no mark."""
    for mark, name in _BOMS:
        if head.startswith(mark):
            return Codec(name, bom=mark)
    return None


def detect_encoding(raw: bytes, legacy: str | None = None, whole: bool = True) -> Codec:
    """Detect the encoding of a file from all of its bytes or, with ``whole`` false, from its beginning.

    Raises `BinaryFile` on a NUL in the first 8 KB of a file without a UTF-16 or UTF-32 mark. ``legacy`` names the
    encoding to try first where the bytes are not UTF-8.
    """
    bom = detect_bom(raw)
    if bom and bom.unit > 1:
        if _is_valid(raw[len(bom.bom) :], bom.name, whole, "surrogatepass"):
            return bom
        raise BinaryFile(why=f"it starts with a {bom.name} mark, but is not {bom.name}", size=len(raw))
    if b"\0" in raw[:SNIFFED]:
        raise BinaryFile(why="it contains NUL bytes", size=len(raw))
    if bom:
        return bom if _is_valid(raw, "utf-8", whole) else Codec("utf-8", bom=bom.bom, stray=True)
    if raw.isascii() or _is_valid(raw, "utf-8", whole):
        return UTF8
    return _detect_legacy(raw, legacy, whole)


def _detect_legacy(raw: bytes, preferred: str | None, whole: bool) -> Codec:
    if preferred:
        name = codecs.lookup(preferred).name
        if not name.startswith("utf") and _is_valid(raw, name, whole):
            return Codec(name)
    for name in rank_legacy(raw):
        if name == "utf-8":
            return Codec(name, stray=True)  # UTF-8 and a few bytes that are not
        if name == "gb18030" and _is_valid(raw, "gbk", whole):
            return Codec("gbk")  # what only the newer standard has would be strange in this file
        if _is_valid(raw, name, whole):
            return Codec(name)
        if name == "cp1252":
            return Codec("latin_1")  # which has every byte
    raise AssertionError("one of them has every byte")


def _is_valid(raw: bytes, name: str, whole: bool, errors: str = "strict") -> bool:
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


def rank_legacy(raw: bytes) -> list[str]:
    """Return the encodings that ``raw`` may be in, the likeliest first."""
    sample = _take_sample(raw)
    return sorted(_KINDS, key=lambda name: _sum_cost(sample, name))


def _take_sample(raw: bytes) -> bytes:
    """Some lines that are not ASCII. No candidate has a line feed inside a character, so that no line parts one."""
    parts, length, last = [], 0, 0
    while length < _SAMPLE and (high := _find_high(raw, last)) >= 0:
        start = max(raw.rfind(b"\n", last, high) + 1, last, high - _SAMPLE // 4)
        last = raw.find(b"\n", high) + 1 or len(raw)
        parts.append(raw[start : min(last, start + _SAMPLE - length)])
        length += len(parts[-1])
    return b"".join(parts)


def _find_high(raw: bytes, start: int) -> int:
    for at in range(start, len(raw), _WINDOW):
        window = raw[at : at + _WINDOW]
        if not window.isascii():  # many times faster than the regular expression
            match = _HIGH.search(window)
            assert match
            return at + match.start()
    return -1


def _sum_cost(sample: bytes, name: str) -> float:
    costs = [_ASCII, *(cost for _, cost in _KINDS[name]), _IMPOSSIBLE]
    mixed = _MIXED.get(name, _MIXED_ELSEWHERE)
    total, high = _DOUBTED.get(name, 0.0), False
    for match in _compile_tokens(name).finditer(sample):
        token, kind = match[0], (match.lastindex or 1) - 1
        total += costs[kind] * (len(token) if kind == 0 else 1)
        if kind == 0:
            total += mixed * ((high and token[:1].isalpha()) + token[-1:].isalpha())
        high = kind > 0
    return total + len(_PAIR.findall(sample)) * _CROWDED.get(name, 0.0)


@cache
def _compile_tokens(name: str) -> re.Pattern[bytes]:
    kinds = [rb"[\x00-\x7f]+", *(pattern for pattern, _ in _KINDS[name]), rb"[\x80-\xff]"]
    return re.compile(b"|".join(b"(" + kind + b")" for kind in kinds))


@frozen
class Splice:
    """Replace the characters ``start:end`` of a text by ``new``."""

    start: int
    end: int
    new: str


@frozen
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
        cut = piece.start + length
        length -= piece.end - piece.start
        if length < 0:
            ahead.append(piece._replace(start=cut))
            piece = piece._replace(end=cut)
        taken.append(piece)
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
    head = _count_common_head(there, new)
    tail = _count_common_tail(there[head:], new[head:])
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
    there, before = text[begin:stop], lines.get_ending(text[max(0, begin - 2) : begin])
    if "\n" in there and "\r" not in there and before != "\r":
        return new
    head, tail = text[begin:start], text[end:stop]
    new_lines = lines.split(head + new + lines.to_feeds(tail))
    endings = _choose_endings(lines.split(there), new_lines, before)
    _separate_endings(new_lines, endings, before, tail)
    result = "".join(lines.strip_ending(line) + ending for line, ending in zip(new_lines, endings, strict=True))
    if tail:  # the last line is the file's own from here on
        result = result[: len(result) - len(endings[-1]) - len(lines.strip_ending(tail))]
    return result[len(head) :]


def _choose_endings(there: list[str], new_lines: list[str], before: str) -> list[str]:
    """An ending for each wanted line, found by aligning them with the lines that are there."""
    known = [ending for line in there if (ending := lines.get_ending(line))]
    last = before or (known[0] if known else "\n")
    if len(set(known)) <= 1:
        main = known[0] if known else last
        return [main if line.endswith("\n") else "" for line in new_lines]
    endings: list[str] = []
    for _, i1, i2, j1, j2 in get_opcodes(
        [lines.strip_ending(line) for line in there], [lines.strip_ending(line) for line in new_lines]
    ):
        for number, line in enumerate(new_lines[j1:j2]):
            own = lines.get_ending(there[i1 + number]) if i1 + number < i2 else ""
            last = own or last
            endings.append(last if line.endswith("\n") else "")
        if i2 > i1:
            last = lines.get_ending(there[i2 - 1]) or last
    return endings


def _separate_endings(new_lines: list[str], endings: list[str], before: str, tail: str) -> None:
    """Fix endings that would run together: a lone "\\r", then an empty line that ends with "\\n", read as one."""
    if tail:
        endings[-1] = lines.get_ending(tail)
    for number, line in enumerate(new_lines):
        previous = endings[number - 1] if number else before
        if previous == "\r" and endings[number] == line == "\n":
            if tail and number == len(new_lines) - 1 and number:
                endings[number - 1] = "\r\n"  # the last ending is the file's own
            else:
                endings[number] = "\r\n"


def _count_common_head(one: str, other: str) -> int:
    length = _count_common(one, other, forward=True)
    # Never part a "\r\n": a cut between its halves would leave a line ending that neither text has.
    return (
        length - 1
        if length and one[length - 1] == "\r" and "\n" in (one[length : length + 1], other[length : length + 1])
        else length
    )


def _count_common_tail(one: str, other: str) -> int:
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
