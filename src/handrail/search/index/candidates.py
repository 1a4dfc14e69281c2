"""Choose the files that a search must look at: those that may match by the index, and all that are in doubt."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from handrail.search.index.fresh import View
from handrail.search.index.layout import Stamp

_FEW = 64
"""So many files are looked at sooner than the index."""


class Candidate(NamedTuple):
    """A file that may match."""

    path: str
    """Below the directory that is searched."""
    stamp: Stamp | None
    """None: in doubt. It was changed, it has NUL bytes or an encoding of its own, or it is not in the index."""


class Candidates:
    """The files to look at below a directory, which is ``inner`` below the root (empty: the root itself)."""

    def __init__(self, view: View, alternatives: Sequence[Sequence[bytes]], multiline: bool, inner: str) -> None:
        index, scope = view.index, view.list.numbers
        is_small = scope is not None and len(scope) <= _FEW
        matching = set(scope or ()) if is_small else index.find_candidates(alternatives, multiline)
        # A search across lines does not stop at the first NUL byte, up to which a file is indexed.
        doubtful = index.always | view.changed | (index.binary if multiline else index.binary & matching)
        binary = index.binary
        if scope is not None:
            matching, doubtful, binary = matching & scope, doubtful & scope, binary & scope
        self._index = index
        self._prefix = len(os.fsencode(inner)) + 1 if inner else 0
        self._certain = matching - doubtful
        names = [*(index.name(number) for number in doubtful), *view.list.unknown]
        self.doubtful = [Candidate(self._path(name), None) for name in names]
        self.binary = len(binary - doubtful)
        """Files with NUL bytes that are not among them."""

    def __len__(self) -> int:
        return len(self._certain) + len(self.doubtful)

    def certain(self) -> list[Candidate]:
        """Those that are not in doubt, in the order of paths."""
        return [self._candidate(number) for number in sorted(self._certain)]

    def newest(self) -> Iterator[Candidate]:
        """Those that are not in doubt, the newest first, those of one age in the order of paths."""
        index, numbers = self._index, self._certain
        if len(numbers) < len(index.flags) // 16:
            return map(self._candidate, sorted(numbers, key=lambda number: (-index.mtime(number), number)))
        return (self._candidate(number) for number in index.newest if number in numbers)

    def _candidate(self, number: int) -> Candidate:
        return Candidate(self._path(self._index.name(number)), self._index.stamp(number))

    def _path(self, name: bytes) -> str:
        return os.fsdecode(name[self._prefix :])
