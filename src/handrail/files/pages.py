"""Read a page of a file of any size in bounded memory, without loading the file.

A file is scanned in blocks that never split a line ending. The number of lines before each block is cached in a
`LineIndex` for the session, so that the next page of the same file is found at once. Files up to `SMALL` are read
completely, which also gives their digest and their number of lines.
"""

from __future__ import annotations

import os
import threading
import time
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, count, repeat
from typing import NamedTuple

from handrail import system_calls
from handrail.errors import PastEnd, TimedOut
from handrail.files.versions import Version, hash_bytes, make_version, read_all
from handrail.frozen import frozen
from handrail.text import lines
from handrail.text.document import UTF8, Codec, detect_encoding
from handrail.workspace import WorkPath

SMALL = 1 << 20
_BLOCK = 1 << 18
_HEAD = 1 << 16
_COUNTED = 64 << 20
"""Up to this size the lines of a file are counted before its tail is shown, so that the rows get their numbers."""
_KEPT = 256
_ENDLESS = 64 << 20


class PageLine(NamedTuple):
    """One line, or the part of it that is shown."""

    number: int
    """1-based; negative when counted from the end of a file that is too long to count."""
    text: str
    left: int = 0
    """How many characters of the line lie behind the part shown."""
    endless: bool = False
    """The line is so long that its rest was not counted: `left` is the counted part."""


@frozen
class TextPage:
    """Some lines in a row."""

    rows: tuple[PageLine, ...]
    total: int | None
    """The number of lines of the file, where it is known."""
    more: bool
    """Whether lines lie behind the page."""
    codec: Codec
    """The encoding that the rows were read in."""


@dataclass(slots=True)
class LineIndex:
    """How many line endings lie before each block of a file."""

    starts: array[int]
    ends: array[int] = field(default_factory=lambda: array("q", [0]))
    open: bool = False
    """Whether the last block that was scanned stops inside a line."""
    total: int | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def before(self, line: int) -> tuple[int, int]:
        """A known block at or before the beginning of ``line`` (1-based): its offset, and the endings before it."""
        at = max(0, bisect_left(self.ends, line - 1) - 1)
        return self.starts[at], self.ends[at]


class Indexes:
    """The line indexes of a session, by file version."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[int, ...], LineIndex] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, version: Version, start: int) -> LineIndex:
        with self._lock:
            index = self._known.pop(version.stamp, None) or LineIndex(array("q", [start]))
            # A file that was changed just now can be changed again without a trace in its times: nothing is kept of it.
            if time.time_ns() - version.ctime_ns > system_calls.TICK:
                self._known[version.stamp] = index
            if len(self._known) > _KEPT:
                self._known.popitem(last=False)
            return index


class TextFile:
    """An open text file, to be read in pages."""

    def __init__(
        self,
        path: WorkPath,
        fd: int,
        indexes: Indexes,
        legacy: str | None,
        seconds: float,
        compute_hash: Callable[[bytes], str] = hash_bytes,
    ) -> None:
        self.path = path
        self.fd = fd
        self._deadline = time.monotonic() + seconds
        self._seconds = seconds
        self._legacy = legacy
        status = os.fstat(fd)
        self.raw = read_all(fd, SMALL, status.st_size)
        self.version = make_version(status, compute_hash(self.raw) if self.raw is not None else None)
        self.size = status.st_size if self.raw is None else len(self.raw)
        self._indexes = indexes
        self._only_utf8 = False
        self.replaced = False
        """Whether something was shown as U+FFFD because only UTF-8 is wanted."""

    def head(self, length: int) -> bytes:
        """The first bytes."""
        return self.raw[:length] if self.raw is not None else os.pread(self.fd, length, 0)

    def whole(self, most: int) -> bytes | None:
        """All of it, if that is no more than ``most`` bytes."""
        return self.raw if self.raw is not None else read_all(self.fd, most)

    def open(self, only_utf8: bool = False) -> None:
        """Detect the encoding; raises `BinaryFile`. ``only_utf8``: invalid bytes are shown as U+FFFD."""
        self._only_utf8 = only_utf8
        if self.raw is not None:
            self.codec = self._as_wanted(detect_encoding(self.raw, self._legacy))
            self._index = LineIndex(
                array("q", [len(self.codec.bom)])
            )  # of the bytes in hand, whatever the file is by now
            _, block = self._block(len(self.codec.bom))
            self._index.total = lines.count_ends(block) + (block[-1:] not in (b"", b"\n", b"\r"))
        else:
            self.codec = self._as_wanted(self._sniff(os.pread(self.fd, _HEAD, 0), 0))
            self._index = self._indexes.of(self.version, len(self.codec.bom))

    def _as_wanted(self, codec: Codec) -> Codec:
        if self._only_utf8 and codec.name != UTF8.name:
            self.replaced = True
            return UTF8
        return codec

    @property
    def ended(self) -> bool:
        """Whether the last line has a line ending."""
        unit = self.codec.unit
        last = self.raw[-unit:] if self.raw is not None else os.pread(self.fd, unit, self.size - unit)
        return self._read_unit(last) in (10, 13)

    def page(self, first: int, most: int, width: int, budget: int, column: int = 1, patient: bool = False) -> TextPage:
        """Lines from ``first`` on (negative: counted from the end), at most ``most``, each cut at ``width`` characters.

        ``budget`` bounds the characters of the page; ``column`` is where the first line begins to be shown;
        ``patient``: read even an endless line to its end.
        """
        offset, number = self._find_tail(-first) if first < 0 else (self._seek(first), first)
        codec = self._page_codec(offset)
        rows: list[PageLine] = []
        more = False
        shown_as = UTF8 if codec.unit > 1 else codec
        for batch, behind in self._read_rows(offset, number, most, width, column, shown_as, patient):
            fitting = len(batch)
            if self.size >= budget:  # else all of it fits: no encoding has more characters than bytes
                lengths = list(accumulate([len(row.text) + 1 for row in batch]))
                fitting = max(bisect_right(lengths, budget), 0 if rows else 1)  # a page has at least one line
                budget -= lengths[-1]
            rows += batch[:fitting]
            more = behind or fitting < len(batch)
            if fitting < len(batch) or len(rows) == most:
                break
        if not rows:  # there was such a line a moment ago: the file was cut short
            raise PastEnd(path=self.path.named, offset=first, total=max(0, number - 1))
        return TextPage(tuple(rows), self._index.total, more, codec)

    def count(self) -> int | None:
        """The number of lines of the whole file; None if counting them takes too long."""
        try:
            return self._count_lines()
        except TimedOut:
            return None

    def _count_lines(self) -> int:
        self._scan(None)
        assert self._index.total is not None
        return self._index.total

    def _seek(self, line: int) -> int:
        """The byte offset at which ``line`` begins; raises `PastEnd`."""
        self._scan(line)
        total = self._index.total
        if total is not None and line > max(total, 1):
            raise PastEnd(path=self.path.named, offset=line, total=total)
        offset, before = self._index.before(line)
        while line - 1 > before:
            raw, block = self._block(offset)
            if not raw:  # cut short since it was indexed
                raise PastEnd(path=self.path.named, offset=line, total=before)
            here = lines.count_ends(block)
            if before + here >= line - 1:
                at = lines.find_after_ending(block, line - 1 - before)
                return offset + self._measure_width(block[:at])
            offset, before = offset + raw, before + here
        return offset

    def _find_tail(self, count: int) -> tuple[int, int]:
        """Where the last ``count`` lines begin, and the number of the first of them (negative if not known)."""
        if self.size <= _COUNTED or self._index.total is not None or self.codec.unit > 1:
            first = max(1, self._count_lines() - count + 1)
            return self._seek(first), first
        top, end = len(self.codec.bom), self.size
        left = count + (1 if os.pread(self.fd, 1, end - 1) in (b"\n", b"\r") else 0)
        while end > top:
            self._check()
            start = max(top, end - _BLOCK)
            if start > top and os.pread(self.fd, 2, start - 1) == b"\r\n":
                start -= 1
            block = os.pread(self.fd, end - start, start)
            here = lines.count_ends(block)
            if here >= left:
                return start + lines.find_after_ending(block, here - left + 1), -count
            left -= here
            end = start
        return top, 1

    def _scan(self, line: int | None) -> None:
        """Extend the index until it reaches ``line``, or to the end."""
        index = self._index
        with index.lock:
            while index.total is None and (line is None or index.ends[-1] < line - 1):
                self._check()
                offset = index.starts[-1]
                raw, block = self._block(offset)
                if not raw:  # the end; or the file was cut short, and this is its end now
                    index.total = index.ends[-1] + index.open
                    break
                index.starts.append(offset + raw)
                index.ends.append(index.ends[-1] + lines.count_ends(block))
                index.open = not block.endswith((b"\n", b"\r"))

    def _check(self) -> None:
        if time.monotonic() > self._deadline:
            reached = self._index.ends[-1]
            raise TimedOut(path=self.path.named, seconds=self._seconds, lines=reached, bytes=self._index.starts[-1])

    def _block(self, offset: int) -> tuple[int, bytes]:
        """A block that parts no line ending and no character: its length, and its bytes (as UTF-8 if they are wide)."""
        if self.raw is not None:
            block = self.raw[offset:]
            return len(block), block if self.codec.unit == 1 else self._as_utf8(block)
        block = os.pread(self.fd, max(0, min(_BLOCK, self.size - offset)), offset)
        if self.codec.unit == 1:
            if block.endswith(b"\r") and os.pread(self.fd, 1, offset + len(block)) == b"\n":
                block += b"\n"
            return len(block), block
        unit = self.codec.unit
        following = os.pread(self.fd, unit, offset + len(block))
        if _belong_together(self._read_unit(block[-unit:]), self._read_unit(following)):
            block += following
        return len(block), self._as_utf8(block)

    def _read_unit(self, raw: bytes) -> int:
        return int.from_bytes(raw, "big" if self.codec.name.endswith("be") else "little")

    def _as_utf8(self, block: bytes) -> bytes:
        # What is no character becomes one U+FFFD a unit, so that `_measure_width` finds the way back.
        return block.decode(self.codec.name, "replace").encode("utf-8")

    def _measure_width(self, block: bytes) -> int:
        """How many bytes of the file the beginning of a block stands for."""
        return len(block) if self.codec.unit == 1 else len(block.decode("utf-8").encode(self.codec.name))

    def _read_rows(
        self, offset: int, number: int, most: int, width: int, column: int, codec: Codec, patient: bool
    ) -> Iterator[tuple[list[PageLine], bool]]:
        """The lines from a byte offset on, a block at a time, and whether more follows.

        Only what is shown of a line is kept.
        """
        line = _Line(codec, column - 1, width) if column > 1 else None
        last = number + most
        while offset < self.size:
            self._check()
            if line and line.left > _ENDLESS and not patient:
                yield [line.row(number)._replace(endless=True)], number != -1
                return
            raw, block = self._block(offset)
            if not raw:
                break
            offset += raw
            pieces = _split_block(block, last - number)
            rest = pieces.pop()
            if pieces:
                rows: list[PageLine] = []
                if line:
                    line.feed(pieces.pop(0))
                    rows.append(line.row(number))
                    line = None
                rows += _cut_rows(number + len(rows), _decode_lines(pieces, codec), width)
                number += len(rows)
                yield rows, bool(rest) or offset < self.size
            if rest:
                line = line or _Line(codec, 0, width)
                line.feed(rest)
        if line and line.fed:
            yield [line.row(number)], False

    def _page_codec(self, offset: int) -> Codec:
        """The encoding of this page: of a big file only a part was looked at, and this may be the part that differs."""
        if self.raw is not None or self.codec is not UTF8:
            return self.codec
        # The space in front: what looks like a byte order mark is none in the middle of a file.
        codec = self._sniff(b" " + os.pread(self.fd, _HEAD, offset).replace(b"\0", b" "), offset - 1)
        return self._as_wanted(codec)

    def _sniff(self, part: bytes, offset: int) -> Codec:
        return detect_encoding(part, self._legacy, whole=offset + len(part) >= self.size)


def _belong_together(unit: int, following: int) -> bool:
    """Whether two wide units make one line ending, or one character."""
    if unit == 13:
        return following == 10
    return 0xD800 <= unit < 0xDC00 <= following < 0xE000


def _split_block(block: bytes, most: int) -> list[bytes]:
    """The first lines of a block without their endings, and as the last piece what lies behind them."""
    most = min(most, len(block))  # a model may ask for more lines than the machine can count to
    if b"\r" not in block:
        return block.split(b"\n", most)
    return lines.BYTE_END.split(block, most)


def _decode_lines(pieces: list[bytes], codec: Codec) -> list[str]:
    whole = b"\n".join(pieces)
    if whole.isascii() and codec.name == UTF8.name:  # nearly always, and then there is one text to decode
        return whole.decode("ascii").split("\n")[: len(pieces)]
    return [piece.decode(codec.name, "replace") for piece in pieces]


_make_line: Callable[[Iterable[object]], PageLine] = partial(tuple.__new__, PageLine)
"""Makes a line of its four values: pages have thousands, and this takes half the time of calling the class."""


def _cut_rows(number: int, texts: list[str], width: int) -> Iterable[PageLine]:
    """The rows from ``number`` on, each cut at ``width`` characters."""
    if max(map(len, texts), default=0) <= width:  # nearly always
        return map(_make_line, zip(count(number), texts, repeat(0), repeat(False)))
    return (PageLine(at, text[:width], max(0, len(text) - width)) for at, text in enumerate(texts, start=number))


class _Line:
    """A line that arrives in pieces: skips the part before the window, keeps the window, counts the rest."""

    def __init__(self, codec: Codec, skip: int, width: int) -> None:
        self._decoder = codec.decoder()
        self._skip = skip
        self._width = width
        self._kept: list[str] = []
        self._length = 0
        self.left = 0
        self.fed = False

    def feed(self, piece: bytes, final: bool = False) -> None:
        self.fed = True
        text = self._decoder.decode(piece, final)
        if self._skip:
            dropped = min(self._skip, len(text))
            self._skip -= dropped
            text = text[dropped:]
        room = self._width - self._length
        if room > 0:
            self._kept.append(text[:room])
            self._length += min(room, len(text))
        self.left += max(0, len(text) - room)

    def row(self, number: int) -> PageLine:
        self.feed(b"", final=True)
        return PageLine(number, "".join(self._kept), self.left)
