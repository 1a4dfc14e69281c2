"""Parse the output of ripgrep in pieces: `PATH NUL LINE:COLUMN:TEXT`, `PATH NUL COUNT` or `PATH NUL`.

A name may contain line breaks, so names end at the NUL. A line may be endless, so only the part around the match is
kept.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Protocol

from handrail.search.query import FileMatches, Hit

_RECORD = re.compile(rb"([^\0]*)\0(\d+)(?::(\d+):|-)([^\n]*)\n")
_BEGUN = re.compile(rb"([^\0]*)\0(\d+)(?::(\d+):|-)")
_COUNT = re.compile(rb"([^\0]*)\0(\d+)\r?\n")
_SEARCHED = re.compile(rb"\n(\d+) files searched\r?\n")
_BYTES = re.compile(rb"\n(\d+) bytes searched\r?\n")
_BINARY = re.compile(rb": (?:WARNING: stopped searching binary file after match|binary file matches) \([^\n]*\)\r?\n")
LONG = 1 << 16
"""Lines longer than this are not held."""
KEPT = 1 << 13
"""Characters of such a line that are kept before and after the match."""


class OutputReader(Protocol):
    """Takes the output piece by piece."""

    searched: int
    read_bytes: int
    binary: int

    def read(self, chunk: bytes) -> Iterator[FileMatches]:
        """The files that are complete by now."""

    def end(self) -> Iterator[FileMatches]:
        """The rest that was held back."""


class Paths:
    """The mode that gives names only."""

    def __init__(self) -> None:
        self.searched = self.read_bytes = self.binary = 0
        self._rest = b""

    def read(self, chunk: bytes) -> Iterator[FileMatches]:
        whole, end, self._rest = (self._rest + chunk).rpartition(b"\0")
        return map(FileMatches, os.fsdecode(whole).split("\0")) if end else iter(())

    def end(self) -> Iterator[FileMatches]:
        self.searched, self.read_bytes = _parse_counts(self._rest)
        yield from ()


class Counts:
    """The mode that gives a number for each file that was looked at, even if it is zero."""

    def __init__(self) -> None:
        self.searched = self.read_bytes = self.binary = 0
        self._rest = b""

    def read(self, chunk: bytes) -> Iterator[FileMatches]:
        text = self._rest + chunk
        records = list(_COUNT.finditer(text))
        self._rest = text[records[-1].end() :] if records else text
        self.searched += len(records)
        return (FileMatches(os.fsdecode(one[1]), number=int(one[2])) for one in records if one[2] != b"0")

    def end(self) -> Iterator[FileMatches]:
        return iter(())


class Contents:
    """The mode that gives lines; those of one file come together."""

    def __init__(self) -> None:
        self.searched = self.read_bytes = self.binary = 0
        self._rest = b""
        self._path: bytes | None = None
        self._current: FileMatches | None = None
        self._long: _LongLine | None = None

    def read(self, chunk: bytes) -> Iterator[FileMatches]:
        if self._long:
            hit, chunk = self._long.feed(chunk)
            if hit is None:
                return
            assert self._current
            self._add(self._current, hit)
            self._long = None
        text, at = self._rest + chunk, 0
        while record := _RECORD.match(text, at):
            at = record.end()
            begun = self._begin_file(record[1])
            if begun:
                yield begun
            assert self._current
            self._add(self._current, _parse_hit(record[2], record[3], record[4]))
        self._rest = text[at:]
        if len(self._rest) > LONG and (record := _BEGUN.match(self._rest)):
            begun = self._begin_file(record[1])
            if begun:
                yield begun
            column = int(record[3]) - 1 if record[3] else -1
            self._long = _LongLine(int(record[2]), column)
            self._long.feed(self._rest[record.end() :])
            self._rest = b""

    def _begin_file(self, path: bytes) -> FileMatches | None:
        """A record of another file begins: the file before it is complete."""
        if self._path is not None and path.startswith(self._path) and (warning := _BINARY.match(path, len(self._path))):
            self.binary += 1
            path = path[warning.end() :]
        if path == self._path:
            return None
        done, self._path, self._current = self._current, path, FileMatches(os.fsdecode(path), count=0)
        return done

    @staticmethod
    def _add(matches: FileMatches, hit: Hit) -> None:
        matches.hits.append(hit)
        matches.count += hit.matched

    def end(self) -> Iterator[FileMatches]:
        if self._path is not None and self._rest.startswith(self._path):
            self.binary += _BINARY.match(self._rest, len(self._path)) is not None
        self.searched, self.read_bytes = _parse_counts(self._rest)
        if self._current:
            yield self._current


class _LongLine:
    """A line that is too long to be held: what is around its match is kept as it passes by."""

    def __init__(self, line: int, column: int) -> None:
        self._line = line
        self._column = column
        self._first = max(0, column - KEPT)
        self._last = max(0, column) + KEPT
        self._seen = 0
        self._kept = bytearray()

    def feed(self, chunk: bytes) -> tuple[Hit | None, bytes]:
        """The hit if the line ends in this piece, and what follows it."""
        end = chunk.find(b"\n")
        text = chunk if end < 0 else chunk[:end]
        self._kept += text[max(0, self._first - self._seen) : max(0, self._last - self._seen)]
        self._seen += len(text)
        if end < 0:
            return None, b""
        column = self._column - self._first if self._column >= 0 else -1
        return Hit(self._line, column, bytes(self._kept), self._first > 0, self._seen > self._last), chunk[end + 1 :]


def _parse_hit(line: bytes, column: bytes | None, text: bytes) -> Hit:
    if column is None:
        cut = len(text) > KEPT
        return Hit(int(line), -1, text[:KEPT] if cut else text, after=cut)
    at = int(column) - 1
    if len(text) <= 2 * KEPT:
        return Hit(int(line), at, text)
    first, last = max(0, at - KEPT), at + KEPT
    return Hit(int(line), at - first, text[first:last], first > 0, last < len(text))


def _parse_counts(tail: bytes) -> tuple[int, int]:
    """The files and the bytes that were searched."""
    files, read = _SEARCHED.search(b"\n" + tail), _BYTES.search(b"\n" + tail)
    return int(files[1]) if files else 0, int(read[1]) if read else 0
