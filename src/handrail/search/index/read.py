"""Read an index file with the standard library alone: rows are taken from a memory map as integers."""

from __future__ import annotations

import json
import mmap
import os
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import compress
from typing import Literal

from handrail.json_types import JsonObject
from handrail.search.index.layout import (
    ALWAYS,
    BLOCK,
    HAS_NUL,
    HEAD,
    LINKED,
    MAGIC,
    MULTIPLIER,
    NO_FILE,
    Stamp,
    order_of_paths,
)

_MOST_HASHES = 64
"""Trigrams of an alternative that are looked up; more would not make it more selective."""


_DIGITS = bytes.maketrans(b"01", b"\0\1")


class BadIndex(Exception):
    """The file is no index, or was written by another version."""


class IndexFile:
    """An open index. Its pages are shared with other processes."""

    def __init__(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            status = os.fstat(fd)
            if status.st_uid != os.geteuid() or status.st_size < HEAD.size:
                raise BadIndex(path)
            self.identity = status.st_dev, status.st_ino
            self._map = mmap.mmap(fd, 0, access=mmap.ACCESS_READ)
        finally:
            os.close(fd)
        self._view = memoryview(self._map)
        magic, at, length = HEAD.unpack_from(self._map)
        if magic != MAGIC or at + length != len(self._map):
            raise BadIndex(path)
        self.description: JsonObject = json.loads(self._map[at : at + length])
        places = self.description["places"]
        self._places: dict[str, tuple[int, int]] = places
        table = self._map[slice(*places["blocks"])]
        self._blocks = list(BLOCK.iter_unpack(table))
        self.flags = self._map[slice(*places["flags"])]
        self._offsets = self._numbers("offsets", "I")
        self.parents = self._numbers("parents", "I")
        """For each file the number of its directory."""
        self._stamps = self._numbers("stamps")
        lengths = len(self._offsets) - 1, len(self.parents), len(self._stamps) // 4
        if lengths != (len(self.flags),) * 3:
            raise BadIndex(path)

    def _numbers(self, place: str, kind: Literal["I", "q"] = "q") -> memoryview:
        return self._view[slice(*self._places[place])].cast(kind)

    def _names(self, place: str) -> list[bytes]:
        text = self._map[slice(*self._places[place])]
        return text.split(b"\0")[:-1]

    @cached_property
    def _prefixes(self) -> list[bytes]:
        """The directories, as the names of their files begin."""
        return [path + b"/" if path else b"" for path in self._names("directories")]

    @cached_property
    def own_names(self) -> list[bytes]:
        """The last component of the name of each file."""
        return self._names("files")

    @cached_property
    def files(self) -> list[bytes]:
        """Names of the files below the root, in the order of paths."""
        prefixes = self._prefixes
        return [prefixes[parent] + name for parent, name in zip(self.parents, self.own_names, strict=True)]

    @cached_property
    def numbers(self) -> dict[bytes, int]:
        """The number of each file."""
        return {name: number for number, name in enumerate(self.files)}

    def name(self, number: int) -> bytes:
        """The name of one file."""
        start, end = self._offsets[number : number + 2]
        names = self._places["files"][0]
        return self._prefixes[self.parents[number]] + self._map[names + start : names + end - 1]

    def find(self, name: bytes) -> int | None:
        """The number of one file; None if it is not in the index."""
        key = order_of_paths(name)
        number = bisect_left(range(len(self.flags)), key, key=lambda at: order_of_paths(self.name(at)))
        return number if number < len(self.flags) and self.name(number) == name else None

    def mtime(self, number: int) -> int:
        """The modification time of one file when it was indexed."""
        mtime: int = self._stamps[4 * number]
        return mtime

    def stamp(self, number: int) -> Stamp:
        """The stamp of one file when it was indexed."""
        mtime, ctime, size, inode = self._stamps[4 * number : 4 * number + 4]
        return mtime, ctime, size, inode

    def stamps(self) -> Iterator[Stamp]:
        """The stamps of all files."""
        return zip(*(self._stamps[place::4].tolist() for place in range(4)), strict=True)

    @cached_property
    def newest(self) -> memoryview:
        """Numbers of the files, the newest first, those of one age in the order of paths."""
        return self._numbers("newest", "I")

    @cached_property
    def directories(self) -> dict[bytes, tuple[int, int]]:
        """Directories that were walked, with their inodes and change times."""
        flat = self._numbers("directory_stamps").tolist()
        return dict(zip(self._names("directories"), zip(flat[::2], flat[1::2], strict=True), strict=True))

    @cached_property
    def rules(self) -> dict[bytes, tuple[int, int]]:
        """Ignore files, with their inodes and change times."""
        flat = self._numbers("rule_stamps").tolist()
        return dict(zip(self._names("rules"), zip(flat[::2], flat[1::2], strict=True), strict=True))

    def with_flag(self, flag: int) -> set[int]:
        """Numbers of the files that have this flag."""
        values = bytes(value for value in range(HAS_NUL + ALWAYS + LINKED + 1) if value & flag)
        return {match.start() for match in re.finditer(b"[%s]" % re.escape(values), self.flags)}

    @cached_property
    def always(self) -> set[int]:
        """Files that are searched each time."""
        return self.with_flag(ALWAYS)

    @cached_property
    def binary(self) -> set[int]:
        """Files with a NUL byte."""
        return self.with_flag(HAS_NUL)

    @cached_property
    def linked(self) -> set[int]:
        """Files with several names: a change by another name may be noticed by nobody."""
        return self.with_flag(LINKED)

    def find_candidates(self, alternatives: Iterable[Sequence[bytes]], multiline: bool) -> set[int]:
        """Numbers of the files that may contain all texts of an alternative: on one line, or anywhere (multiline)."""
        candidates: set[int] = set()
        for texts in alternatives:
            if multiline:
                candidates |= set.intersection(*(self._find(hash_trigrams([text])) for text in texts))
            else:
                candidates |= self._find(hash_trigrams(texts))
        return candidates

    def _find(self, hashes: Sequence[int]) -> set[int]:
        files: set[int] = set()
        data, load = self._map, int.from_bytes
        for rows_log2, width, start, ids_at in self._blocks:
            bits = -1
            for row in {number >> (32 - rows_log2) for number in hashes}:
                at = start + row * width
                bits &= load(data[at : at + width], "little")
                if not bits:
                    break
            if bits:
                ids = self._view[ids_at : ids_at + width * 32].cast("I")
                files.update(compress(ids, bin(bits)[:1:-1].encode().translate(_DIGITS)))
        files.discard(NO_FILE)
        return files


def hash_trigrams(texts: Iterable[bytes]) -> list[int]:
    """The hashes of the trigrams in these texts."""
    hashes: dict[int, None] = {}
    for text in texts:
        folded = text.lower()
        for at in range(len(folded) - 2):
            hashes[int.from_bytes(folded[at : at + 3], "little") * MULTIPLIER & 0xFFFFFFFF] = None
            if len(hashes) >= _MOST_HASHES:
                return list(hashes)
    return list(hashes)
