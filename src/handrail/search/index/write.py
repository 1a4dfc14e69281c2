"""Write an index file, with numpy. Runs as a process of its own (`python -m handrail.search.index.write`).

Standard input is a line of JSON (`Task`), then the names of the files, each ended by a NUL byte. Nothing but these
files is opened, and no link is followed.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from handrail import system_calls
from handrail.search.index.layout import (
    ALWAYS,
    BLOCK,
    BOMS,
    HAS_NUL,
    HEAD,
    LARGEST,
    LINKED,
    MAGIC,
    MOST_COLUMNS,
    MOST_FILE,
    MULTIPLIER,
    NEVER,
    NO_FILE,
    PART,
    Stamp,
    Task,
    make_stamp,
    signature_bits,
)
from handrail.search.index.limits import delete_oldest

_TEXT = 1 << 20
_ROWS = 4 << 20
"""Bytes of text, or of signatures before they are packed, with which a group of columns is worked out."""
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_PAGE = 4096
_TILE = 1 << 20
"""Bytes of rows that are put together before they are written."""
_PADDING = tuple(b"\n" * (4 - rest) for rest in range(4))
"""Fills a text up to whole words of four bytes, by the rest of its length."""


class TooLarge(Exception):
    """The index would be larger than allowed."""


class _Scratch:
    """Arrays that are used again for each group: fresh memory costs more than the work in it."""

    def __init__(self) -> None:
        self._arrays: dict[Any, NDArray[Any]] = {}

    def take(self, count: int, kind: type[np.generic]) -> NDArray[Any]:
        """An array with whatever was in it before."""
        known = self._arrays.get(kind)
        if known is None or len(known) < count:
            known = self._arrays[kind] = np.empty(count, kind)
        return known[:count]


class _Columns:
    """Columns of one signature size: collected as texts, worked out in groups, kept as packed rows."""

    def __init__(self, bits: int, scratch: _Scratch) -> None:
        self.bits = bits
        self.done: list[tuple[list[int], NDArray[np.uint8]]] = []
        self._scratch = scratch
        self._most = min(_ROWS >> bits, _TEXT)
        self._ids: list[int] = []
        self._texts: list[bytes] = []
        self._words: list[int] = []
        self._size = 0

    def add(self, number: int, text: bytes) -> int:
        """Add a column; returns how many bytes of signatures were worked out."""
        length = len(text)
        self._ids.append(number)
        self._texts += (text, _PADDING[length & 3])
        self._words.append((length >> 2) + 1)
        self._size += length
        full = self._size >= _TEXT or len(self._ids) >= self._most
        return self.finish() if full and not len(self._ids) & 7 else 0

    def finish(self) -> int:
        if not self._ids:
            return 0
        count, rows = len(self._ids), 1 << self.bits
        padded = -(-count // 8) * 8
        first = np.repeat(np.arange(0, count * rows, rows, dtype=np.uint32), self._words)
        data = b"".join([*self._texts, b"\n" * 4]).lower()
        seen = self._scratch.take(padded * rows, np.uint8)
        hashes, places = (self._scratch.take(len(first), kind) for kind in (np.uint32, np.intp))
        seen.fill(0)
        for offset in range(4):  # every byte begins a window of four
            np.multiply(np.frombuffer(data, "<u4", len(first), offset), np.uint32(MULTIPLIER), out=hashes)
            np.right_shift(hashes, np.uint32(32 - self.bits), out=hashes)
            np.add(hashes, first, out=hashes)
            np.copyto(places, hashes)
            seen[places] = 1
        eight = seen.reshape(padded // 8, 8, rows)
        packed = eight[:, 0].copy()
        for bit in range(1, 8):
            np.left_shift(eight[:, bit], np.uint8(bit), out=eight[:, bit])
            packed |= eight[:, bit]
        self.done.append((self._ids, packed))
        self._ids, self._texts, self._words, self._size = [], [], [], 0
        return packed.nbytes


def write_index(task: Task, names: Sequence[bytes], report: Callable[[int], None] = lambda _: None) -> None:
    """Index these files and put the result in place; raises `OSError` and `TooLarge`. ``report`` gets a count of files.

    A file that changed within the last moment may change again without a trace: it is searched each time. The stamp is
    read before the contents, so that a file which changes meanwhile no longer has the stamp of the index.
    """
    root = os.open(task["root"], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        top = os.fstat(root)
        if (top.st_dev, top.st_ino) != tuple(task["identity"]):
            raise OSError(f"{task['root']} is another directory now")
        flags = bytearray(len(names))
        stamps = array("q")
        scratch = _Scratch()
        columns = [_Columns(bits, scratch) for bits in range(LARGEST + 1)]
        text_bytes = index_bytes = 0
        for number, (stamp, links, text) in enumerate(_read_files(root, names)):
            stamps.extend(stamp)
            if links > 1:
                flags[number] = LINKED
            if text is None or text.startswith(BOMS):
                flags[number] |= ALWAYS
                continue
            text_bytes += len(text)
            if b"\0" in text:  # ripgrep reads no further, unless it searches across lines
                flags[number] |= HAS_NUL
                text = text[: text.index(b"\0")]
            for part in (text,) if len(text) <= PART else _cut(text):
                index_bytes += columns[signature_bits(len(part))].add(number, part)
            if index_bytes > task["most_bytes"]:
                raise TooLarge
            if number % 1000 == 0:
                report(number)
    finally:
        os.close(root)
    index_bytes += sum(each.finish() for each in columns)
    del scratch
    if index_bytes > task["most_bytes"]:
        raise TooLarge
    aside = f"{task['path']}.{os.getpid()}"
    try:
        with open(aside, "xb", opener=lambda path, mode: os.open(path, mode, 0o600)) as out:
            _write(out, task, names, flags, stamps, columns, text_bytes)
        os.rename(aside, task["path"])
        delete_oldest(keep=task["path"])
    finally:
        with contextlib.suppress(OSError):
            os.unlink(aside)
    report(len(names))


def _read_files(root: int, names: Sequence[bytes]) -> Iterator[tuple[Stamp, int, bytes | None]]:
    """The stamp, the number of names and the contents of each file, which is opened below the root and through no link.

    No contents, and a stamp that nothing equals, for a file that cannot be read or has changed just now. Of a large
    binary file the contents are its beginning.
    """
    unreadable = NEVER, 1, None
    for above, inside in groupby(names, lambda name: name.rpartition(b"/")[0]):
        settled = time.time_ns() - system_calls.TICK
        start = len(above) + 1 if above else 0
        try:
            path = os.fsdecode(above) or "."
            directory = system_calls.open_beneath(root, path, system_calls.READABLE_DIRECTORY)
        except OSError:
            yield from (unreadable for _ in inside)
            continue
        try:
            for name in inside:
                try:
                    fd = os.open(name[start:], _FILE, dir_fd=directory)
                except OSError:
                    yield unreadable
                    continue
                try:
                    status = os.fstat(fd)
                    size = status.st_size
                    text = None
                    if stat.S_ISREG(status.st_mode) and status.st_ctime_ns < settled:
                        text = os.read(fd, size + 1 if size <= MOST_FILE else _TEXT)
                except OSError:
                    text = None
                finally:
                    os.close(fd)
                if text is None or not (len(text) == size or (size > MOST_FILE and b"\0" in text)):
                    yield unreadable
                else:
                    yield make_stamp(status), status.st_nlink, text
        finally:
            os.close(directory)


def _cut(text: bytes) -> Iterator[bytes]:
    """Cut a text at line ends; a line is in one part."""
    at = 0
    while at < len(text):
        end = text.rfind(b"\n", at, at + PART // 2) + 1 or text.find(b"\n", at) + 1 or len(text)
        yield text[at:end]
        at = end


def _write(
    out: IO[bytes],
    task: Task,
    names: Sequence[bytes],
    flags: bytearray,
    stamps: array[int],
    columns: Sequence[_Columns],
    text_bytes: int,
) -> None:
    out.write(b"\0" * _PAGE)
    table = b"".join(row for each in columns for row in _write_blocks(out, each))
    places: dict[str, tuple[int, int]] = {}

    def put(name: str, data: bytes) -> None:
        out.write(b"\0" * (-out.tell() % 8))
        start = out.tell()
        out.write(data)
        places[name] = start, out.tell()

    def put_stamped(kind: str, entries: list[tuple[str, int, int]], stamps: str) -> None:
        put(kind, b"".join(os.fsencode(name) + b"\0" for name, _, _ in entries))
        put(stamps, np.array([entry[1:] for entry in entries], np.int64).tobytes())

    put("blocks", table)
    numbers = {os.fsencode(entry[0]): number for number, entry in enumerate(task["directories"])}
    parents = (numbers[name[: max(0, name.rfind(b"/"))]] for name in names)
    own = b"".join([name[name.rfind(b"/") + 1 :] + b"\0" for name in names])
    ends = np.flatnonzero(np.frombuffer(own, np.uint8) == 0) + 1
    put("files", own)
    put("offsets", np.concatenate([np.zeros(1, np.uint32), ends.astype(np.uint32)]).tobytes())
    put("parents", np.fromiter(parents, np.uint32, len(names)).tobytes())
    put("stamps", stamps.tobytes())
    times = np.frombuffer(stamps, np.int64)[::4] if stamps else np.zeros(0, np.int64)
    put("newest", np.argsort(-times, kind="stable").astype(np.uint32).tobytes())
    put("flags", bytes(flags))
    put_stamped("directories", task["directories"], "directory_stamps")
    put_stamped("rules", task["rules"], "rule_stamps")
    known = {"root": task["root"], "identity": task["identity"], "files": len(names), "bytes": text_bytes}
    description = json.dumps({**task["description"], **known, "places": places}).encode()
    at = out.tell()
    out.write(description)
    out.seek(0)
    out.write(HEAD.pack(MAGIC, at, len(description)))


def _write_blocks(out: IO[bytes], columns: _Columns) -> Iterator[bytes]:
    """Write the rows of one signature size, in blocks; yields the entry of each for the table."""
    groups, columns.done = columns.done[::-1], []
    while groups:
        taken: list[tuple[list[int], NDArray[np.uint8]]] = []
        width = 0
        while groups and (not taken or (width + len(groups[-1][1])) * 8 <= MOST_COLUMNS):
            taken.append(groups.pop())
            width += len(taken[-1][1])
        start = out.tell()
        step = max(64, _TILE // width)
        for row in range(0, 1 << columns.bits, step):
            part = np.concatenate([packed[:, row : row + step] for _, packed in taken])
            tile = np.empty(part.shape[::-1], np.uint8)
            for at in range(0, width, 64):  # as much of both as the processor's cache holds
                tile[:, at : at + 64] = part[at : at + 64].T
            out.write(tile.data)
        ids = np.full(width * 8, NO_FILE, np.uint32)
        at = 0
        for numbers, packed in taken:
            ids[at : at + len(numbers)] = numbers
            at += len(packed) * 8
        ids_at = out.tell()
        out.write(ids.tobytes())
        out.write(b"\0" * (-out.tell() % _PAGE))
        yield BLOCK.pack(columns.bits, width, start, ids_at)


def main() -> int:
    """Exit codes: 0 done, 2 the tree cannot be indexed, 4 the index would be too large."""
    os.nice(10)
    task: Task = json.loads(sys.stdin.buffer.readline())
    names = sys.stdin.buffer.read().split(b"\0")[:-1]
    try:
        write_index(task, names, lambda count: print(count, flush=True))  # noqa: T201 - whoever waits reads it
    except TooLarge:
        return 4
    except OSError:
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
