"""Reading in pages: any part of a file of any size, in bounded memory, without loading it.

A file is scanned in blocks that never part a line ending. What the scan learns (how many lines lie before each block)
is kept in a `LineIndex` for the session, so that the next page of the same file is found at once. Files up to
`SMALL` are taken whole, which also gives their digest and their number of lines.
"""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from handrail.errors import PastEnd, TimedOut
from handrail.files.stored import Version, digest_of, read_all, version_of
from handrail.text import lines
from handrail.text.codec import UTF8, Codec, sniff
from handrail.workspace import WorkPath

SMALL = 1 << 20
_BLOCK = 1 << 18
_HEAD = 1 << 16
_COUNTED = 64 << 20
"""Up to this size the lines of a file are counted before its tail is shown, so that the rows get their numbers."""
_KEPT = 256
_ENDLESS = 64 << 20


@dataclass(frozen=True, slots=True)
class Row:
    """One line, or the part of it that is shown."""

    number: int
    """1-based; negative when counted from the end of a file that is too long to count."""
    text: str
    left: int = 0
    """How many characters of the line lie behind the part shown."""
    endless: bool = False
    """The line is so long that its rest was not counted: `left` is what was."""


@dataclass(frozen=True, slots=True)
class Page:
    rows: tuple[Row, ...]
    total: int | None
    """The number of lines of the file, where it is known."""
    more: bool
    """Whether lines lie behind the page."""
    full: bool
    """Whether the character budget ended the page."""
    codec: Codec


@dataclass(slots=True)
class LineIndex:
    """How many line endings lie before each block of a file."""

    starts: list[int]
    ends: list[int]
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
            index = self._known.pop(version.stamp, None) or LineIndex([start], [0])
            self._known[version.stamp] = index
            if len(self._known) > _KEPT:
                self._known.popitem(last=False)
            return index


class TextFile:
    """An open text file, to be read in pages."""

    def __init__(self, path: WorkPath, fd: int, indexes: Indexes, legacy: str | None, seconds: float) -> None:
        self.path = path
        self._fd = fd
        self._deadline = time.monotonic() + seconds
        self._seconds = seconds
        self._legacy = legacy
        found = os.fstat(fd)
        self.raw = read_all(fd, SMALL) if found.st_size <= SMALL else None
        self.version = version_of(found, digest_of(self.raw) if self.raw is not None else None)
        self._indexes = indexes

    @property
    def size(self) -> int:
        return self.version.size if self.raw is None else len(self.raw)

    def open(self) -> None:
        """Find out the encoding; raises `BinaryFile`."""
        if self.raw is not None:
            self.codec = sniff(self.raw, self._legacy)
        else:
            self.codec = sniff(os.pread(self._fd, _HEAD, 0), self._legacy, whole=False)
        self._index = self._indexes.of(self.version, len(self.codec.bom))

    def page(self, first: int, most: int, width: int, budget: int, column: int = 1) -> Page:
        """Lines from ``first`` on (negative: counted from the end), at most ``most``, each cut at ``width`` characters.

        ``budget`` bounds the characters of the page; ``column`` is where the first line begins to be shown.
        """
        if self.raw is not None:
            self.count()
        number = first
        if first < 0:
            offset, number = self._tail(-first)
        else:
            offset = self._seek(first)
        rows: list[Row] = []
        spent = 0
        more = full = False
        for row in self._rows(offset, number, width, column):
            if len(rows) == most or (rows and spent + len(row.text) + 1 > budget):
                more, full = True, len(rows) < most
                break
            rows.append(row)
            spent += len(row.text) + 1
            more = more or row.endless
        return Page(tuple(rows), self._index.total, more, full, self.codec)

    def count(self) -> int:
        """The number of lines of the whole file."""
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
                at = lines.after_end(block, line - 1 - before)
                return offset + self._width(block[:at])
            offset, before = offset + raw, before + here
        return offset

    def _tail(self, wanted: int) -> tuple[int, int]:
        """Where the last ``wanted`` lines begin, and the number of the first of them (negative if not known)."""
        if self.size <= _COUNTED or self._index.total is not None or self.codec.unit > 1:
            first = max(1, self.count() - wanted + 1)
            return self._seek(first), first
        end = self.size
        left = wanted + (1 if os.pread(self._fd, 1, end - 1) in (b"\n", b"\r") else 0)
        while end > len(self.codec.bom):
            self._check()
            start = max(len(self.codec.bom), end - _BLOCK)
            if os.pread(self._fd, 2, start - 1) == b"\r\n":
                start -= 1
            block = os.pread(self._fd, end - start, start)
            here = lines.count_ends(block)
            if here >= left:
                return start + lines.after_end(block, here - left + 1), -wanted
            left -= here
            end = start
        return end, 1

    def _scan(self, line: int | None) -> None:
        """Extend the index until it reaches ``line``, or to the end."""
        index = self._index
        with index.lock:
            if self.size <= index.starts[0]:
                index.total = 0
            while index.total is None and (line is None or index.ends[-1] < line):
                self._check()
                offset = index.starts[-1]
                raw, block = self._block(offset)
                ends = index.ends[-1] + lines.count_ends(block)
                if offset + raw >= self.size or not raw:
                    index.total = ends + (1 if block and block[-1:] not in (b"\n", b"\r") else 0)
                    break
                index.starts.append(offset + raw)
                index.ends.append(ends)

    def _check(self) -> None:
        if time.monotonic() > self._deadline:
            reached = self._index.ends[-1]
            raise TimedOut(path=self.path.named, seconds=self._seconds, lines=reached, bytes=self._index.starts[-1])

    def _block(self, offset: int) -> tuple[int, bytes]:
        """A block that parts no line ending and no character: its length, and its bytes (as UTF-8 if they are wide)."""
        if self.raw is not None:
            block = self.raw[offset:]
            return len(block), block if self.codec.unit == 1 else self._as_utf8(block)
        block = os.pread(self._fd, min(_BLOCK, self.size - offset), offset)
        if self.codec.unit == 1:
            if block.endswith(b"\r") and os.pread(self._fd, 1, offset + len(block)) == b"\n":
                block += b"\n"
            return len(block), block
        for _ in range(2):  # a surrogate pair, then a "\r\n"
            text = self._as_utf8(block)
            if not text.endswith(b"\r") and not 0xD800 <= _last_unit(text) < 0xDC00:
                break
            block += os.pread(self._fd, self.codec.unit, offset + len(block))
        return len(block), self._as_utf8(block)

    def _as_utf8(self, block: bytes) -> bytes:
        return block.decode(self.codec.name, "surrogatepass").encode("utf-8", "surrogatepass")

    def _width(self, block: bytes) -> int:
        """How many bytes of the file the beginning of a block stands for."""
        if self.codec.unit == 1:
            return len(block)
        return len(block.decode("utf-8", "surrogatepass").encode(self.codec.name, "surrogatepass"))

    def _rows(self, offset: int, number: int, width: int, column: int) -> Iterator[Row]:
        """The lines from a byte offset on, one by one; only what is shown of a line is kept."""
        line = _Line(self._page_codec(offset), column - 1, width)
        open_line = False
        while offset < self.size:
            self._check()
            if line.left > _ENDLESS:
                yield replace(line.row(number), endless=True)
                return
            raw, block = self._block(offset)
            if not raw:
                break
            offset += raw
            start = 0
            for match in lines.BYTE_END.finditer(block):
                line.feed(block[start : match.start()])
                yield line.row(number)
                number += 1
                line = _Line(line.codec, 0, width)
                start = match.end()
            open_line = start < len(block) or (open_line and start == 0)
            line.feed(block[start:])
        if open_line:
            yield line.row(number)

    def _page_codec(self, offset: int) -> Codec:
        """The encoding of this page: of a big file only a part was looked at, and this may be the part that differs."""
        if self.codec.unit > 1:
            return UTF8
        if self.raw is not None or self.codec is not UTF8:
            return self.codec
        return sniff(os.pread(self._fd, _HEAD, offset).replace(b"\0", b" "), self._legacy, whole=False)


def _last_unit(text: bytes) -> int:
    tail = text[-3:].decode("utf-8", "surrogatepass") if len(text) >= 3 and text[-3] == 0xED else ""
    return ord(tail) if tail else 0


class _Line:
    """A line as it comes in, piece by piece: skips what lies before the window, keeps the window, counts the rest."""

    def __init__(self, codec: Codec, skip: int, width: int) -> None:
        self.codec = codec
        self._decoder = codec.decoder()
        self._skip = skip
        self._width = width
        self._kept: list[str] = []
        self._length = 0
        self.left = 0

    def feed(self, piece: bytes, final: bool = False) -> None:
        if not piece and not final:
            return
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

    def row(self, number: int) -> Row:
        self.feed(b"", final=True)
        return Row(number, "".join(self._kept), self.left)
