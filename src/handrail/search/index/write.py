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
from collections.abc import Callable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any, TypedDict

from handrail import system_calls
from handrail.search.index.layout import (
    ALWAYS,
    BLOCK,
    BOMS,
    FOLD,
    HAS_NUL,
    HEAD,
    LINKED,
    MAGIC,
    MOST_COLUMNS,
    MOST_FILE,
    MULTIPLIER,
    NEVER,
    NO_FILE,
    PART,
    make_stamp,
    signature_bits,
)
from handrail.search.index.limits import delete_oldest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_TEXT = 1 << 20
_ROWS = 4 << 20
"""Bytes of text, or of signatures before they are packed, with which a group of columns is worked out."""
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_PAGE = 4096


class TooLarge(Exception):
    """The index would be larger than allowed."""


class Task(TypedDict):
    """What to index, and what to store with it."""

    root: str
    identity: tuple[int, int]
    """Device and inode of the root."""
    path: str
    """Where the index is written."""
    most_bytes: int
    directories: list[tuple[str, int, int]]
    rules: list[tuple[str, int, int]]
    description: dict[str, Any]


class _Columns:
    """Columns of one signature size: collected as texts, worked out in groups, kept as packed rows."""

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self.done: list[tuple[list[int], NDArray[np.uint8]]] = []
        self._ids: list[int] = []
        self._texts: list[bytes] = []
        self._size = 0

    def add(self, number: int, text: bytes) -> int:
        """Add a column; returns how many bytes of signatures were worked out."""
        self._ids.append(number)
        self._texts.append(text + b"\n" * (4 - len(text) % 4))
        self._size += len(text)
        full = self._size >= _TEXT or len(self._ids) << self.bits >= _ROWS
        return self.finish() if full and len(self._ids) % 8 == 0 else 0

    def finish(self) -> int:
        import numpy as np

        if not self._ids:
            return 0
        count, rows = len(self._ids), 1 << self.bits
        padded = -(-count // 8) * 8
        seen = np.zeros(padded * rows, np.uint8)
        words = [len(text) // 4 for text in self._texts]
        first = np.repeat(np.arange(0, count * rows, rows, dtype=np.int64), words)
        data = b"".join(self._texts).translate(FOLD) + b"\n" * 4
        for offset in range(4):  # every byte begins a window of four
            window = np.frombuffer(data, "<u4", len(first), offset)
            hashes = window * np.uint32(MULTIPLIER)
            hashes >>= np.uint32(32 - self.bits)
            seen[first + hashes] = 1
        eight = seen.reshape(padded // 8, 8, rows)
        packed = eight[:, 0].copy()
        for bit in range(1, 8):
            packed |= eight[:, bit] << np.uint8(bit)
        self.done.append((self._ids, packed))
        self._ids, self._texts, self._size = [], [], 0
        return packed.nbytes


def write_index(task: Task, names: Sequence[bytes], report: Callable[[int], None] = lambda _: None) -> None:
    """Index these files and put the result in place; raises `OSError` and `TooLarge`. ``report`` gets a count of files.

    A file that changed within the last moment may change again without a trace: it is searched each time.
    """
    import numpy as np

    root = os.open(task["root"], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        top = os.fstat(root)
        if (top.st_dev, top.st_ino) != tuple(task["identity"]):
            raise OSError(f"{task['root']} is another directory now")
        flags = bytearray(len(names))
        stamps = np.zeros((len(names), 4), np.int64)
        columns: dict[int, _Columns] = {}
        text_bytes = index_bytes = 0
        for number, (fd, status) in enumerate(_open_files(root, names)):
            text = _read(fd, status) if fd >= 0 and status else None
            if status:
                stamps[number] = make_stamp(status)
                flags[number] = LINKED if status.st_nlink > 1 else 0
            if text is None or text.startswith(BOMS):
                flags[number] |= ALWAYS
                stamps[number] = NEVER if text is None else stamps[number]
                continue
            text_bytes += len(text)
            end = text.find(b"\0")
            if end >= 0:  # ripgrep reads no further, unless it searches across lines
                flags[number] |= HAS_NUL
                text = text[:end]
            for part in [text] if len(text) <= PART else _cut(text):
                bits = signature_bits(len(part))
                index_bytes += columns.setdefault(bits, _Columns(bits)).add(number, part)
            if index_bytes > task["most_bytes"]:
                raise TooLarge
            if number % 1000 == 0:
                report(number)
    finally:
        os.close(root)
    index_bytes += sum(each.finish() for each in columns.values())
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


def _open_files(root: int, names: Sequence[bytes]) -> Iterator[tuple[int, os.stat_result | None]]:
    """Open one file after the other, below the root and through no link; -1 for what cannot be opened."""
    current, directory = b"", os.dup(root)
    try:
        for name in names:
            above, _, own = name.rpartition(b"/")
            if above != current:
                os.close(directory)
                directory, current = -1, above
                with contextlib.suppress(OSError):
                    path = os.fsdecode(above) or "."
                    directory = system_calls.open_beneath(root, path, system_calls.READABLE_DIRECTORY)
            fd = -1
            try:
                if directory >= 0:
                    fd = os.open(own, _FILE, dir_fd=directory)
                yield fd, os.fstat(fd) if fd >= 0 else None
            except OSError:
                yield -1, None
            finally:
                if fd >= 0:
                    os.close(fd)
            if directory < 0:
                directory, current = os.dup(root), b""
    finally:
        if directory >= 0:
            os.close(directory)


def _read(fd: int, status: os.stat_result) -> bytes | None:
    """The contents, of a large binary file its beginning; None if they cannot be trusted to be those of the stamp."""
    if not stat.S_ISREG(status.st_mode) or time.time_ns() - status.st_ctime_ns <= system_calls.TICK:
        return None
    try:
        text = os.read(fd, status.st_size + 1 if status.st_size <= MOST_FILE else _TEXT)
        same = make_stamp(os.fstat(fd)) == make_stamp(status)
    except OSError:
        return None
    whole = len(text) == status.st_size or (status.st_size > MOST_FILE and b"\0" in text)
    return text if same and whole else None


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
    stamps: NDArray[np.int64],
    columns: dict[int, _Columns],
    text_bytes: int,
) -> None:
    import numpy as np

    out.write(b"\0" * _PAGE)
    table = b"".join(row for bits in sorted(columns) for row in _write_blocks(out, columns.pop(bits)))
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
    put("files", b"".join(name + b"\0" for name in names))
    lengths = np.fromiter((len(name) + 1 for name in names), np.uint64, len(names))
    put("offsets", np.concatenate([np.zeros(1, np.uint64), np.cumsum(lengths)]).tobytes())
    put("stamps", stamps.tobytes())
    put("newest", np.argsort(-stamps[:, 0], kind="stable").astype(np.uint32).tobytes())
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
    import numpy as np

    groups, columns.done = columns.done[::-1], []
    while groups:
        taken: list[tuple[list[int], NDArray[np.uint8]]] = []
        width = 0
        while groups and (not taken or (width + len(groups[-1][1])) * 8 <= MOST_COLUMNS):
            taken.append(groups.pop())
            width += len(taken[-1][1])
        rows = np.ascontiguousarray(np.concatenate([packed for _, packed in taken]).T)
        ids = np.full(width * 8, NO_FILE, np.uint32)
        at = 0
        for numbers, packed in taken:
            ids[at : at + len(numbers)] = numbers
            at += len(packed) * 8
        start = out.tell()
        out.write(rows.data)
        ids_at = out.tell()
        out.write(ids.tobytes())
        out.write(b"\0" * (-out.tell() % _PAGE))
        yield BLOCK.pack(columns.bits, width, start, ids_at)


def main() -> int:
    """Exit codes: 0 done, 1 the tree cannot be indexed, 3 numpy is missing, 4 the index would be too large."""
    os.nice(10)
    try:
        import numpy as np  # noqa: F401
    except ImportError:
        return 3
    task: Task = json.loads(sys.stdin.buffer.readline())
    names = sys.stdin.buffer.read().split(b"\0")[:-1]
    try:
        write_index(task, names, lambda count: print(count, flush=True))  # noqa: T201 - whoever waits reads it
    except TooLarge:
        return 4
    except OSError:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
