"""Patches: the `*** Begin Patch` language, read line by line, and what both kinds of patches come to.

    Patch      := "*** Begin Patch" { FileOp } "*** End Patch"
    FileOp     := AddFile | DeleteFile | UpdateFile
    AddFile    := "*** Add File: " path { "+" line }
    DeleteFile := "*** Delete File: " path
    UpdateFile := "*** Update File: " path [ "*** Move to: " path ] { Hunk }
    Hunk       := "@@" [ header ] { (" " | "-" | "+") line } [ "*** End of File" ]

A hunk has no line numbers: `place.py` finds where it belongs. Unified diffs are read by `unified.py` into the same
operations. Whatever is wrong with a text, the only exception is `BadPatch`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from handrail.errors import BadPatch

Row = tuple[str, str]
Kind = Literal["add", "delete", "update"]
NUMBERS = re.compile(r"@@+ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_BEGIN, _END, _EOF = "*** Begin Patch", "*** End Patch", "*** End of File"
_ADD, _DELETE, _UPDATE, _MOVE = "*** Add File:", "*** Delete File:", "*** Update File:", "*** Move to:"
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines to find and to change: `rows` are a sign (space, `-`, `+`) and a text without ending."""

    rows: tuple[Row, ...]
    headers: tuple[str, ...] = ()
    at_end: bool = False
    """Whether its last line must be the last of the file."""
    line: int | None = None
    """Where a unified diff says it begins; it decides between places that fit, and nothing else."""

    @property
    def old(self) -> list[str]:
        return [text for sign, text in self.rows if sign != "+"]

    @property
    def new(self) -> list[str]:
        return [text for sign, text in self.rows if sign != "-"]

    def lacks_signs(self, ours: Sequence[str]) -> bool:
        """Whether the blank that marks context was left out, so that a blank of each line's own was taken for it;
        ``ours`` are the lines of the file that the hunk matched."""
        old = [row for row in self.rows if row[0] != "+"]
        pairs = [(sign, text, there) for (sign, text), there in zip(old, ours, strict=True) if there.strip()]
        return any(sign == " " for sign, _, _ in pairs) and all(
            there == (" " + text if sign == " " else text) for sign, text, there in pairs
        )


@dataclass(frozen=True, slots=True)
class FileOp:
    """What a patch does to one file."""

    kind: Kind
    path: str
    move_to: str | None = None
    content: tuple[str, ...] = ()
    """The lines of a new file."""
    hunks: tuple[Hunk, ...] = ()
    """Of a file to be deleted: what a unified diff says that it holds."""
    final_newline: bool | None = None
    """What a unified diff says of the end of the file; None if it says nothing."""
    line: int = 1
    """Where it begins in the patch."""

    @property
    def paths(self) -> tuple[str, ...]:
        return (self.path,) if self.move_to is None else (self.path, self.move_to)


def parse(text: str) -> list[FileOp]:
    """The operations of a patch of either kind; raises `BadPatch`."""
    reader = Reader()
    return [*reader.feed(text), *reader.close()]


class Reader:
    """Reads a patch as it arrives: what is fed may end anywhere, and finished operations come out at once."""

    def __init__(self) -> None:
        self._rest = ""
        self._number = 0
        self._grammar: _Grammar | None = None
        self._unified: list[str] | None = None
        self._given = 0
        self._seen: set[str] = set()

    def feed(self, text: str) -> list[FileOp]:
        """The operations that this text completed."""
        *rows, self._rest = (self._rest + text).split("\n")
        for row in rows:
            self._take(row)
        return self._fresh(self._grammar.found if self._grammar else [])

    def close(self) -> list[FileOp]:
        """The rest of the operations; raises `BadPatch` if the patch does not end as it should."""
        if self._rest:
            self._take(self._rest)
            self._rest = ""
        if self._unified is not None:
            from handrail.text.patches.unified import read  # only for the patches that need it

            return self._fresh(read(self._unified))
        if self._grammar is None:
            raise BadPatch(line=1, why="the patch is empty")
        self._grammar.close()
        return self._fresh(self._grammar.found)

    def _take(self, row: str) -> None:
        self._number += 1
        row = row.removesuffix("\r")
        if self._grammar:
            self._grammar.take(row, self._number)
        elif self._unified is not None:
            self._unified.append(row)
        elif row.strip() == _BEGIN:
            self._grammar = _Grammar()
        elif row.startswith("***"):
            raise BadPatch(line=self._number, why=f"a patch begins with {_BEGIN!r}")
        elif row.strip():
            # Line numbers in complaints count from the first line, blank ones included.
            self._unified = [""] * (self._number - 1) + [row]

    def _fresh(self, found: list[FileOp]) -> list[FileOp]:
        fresh = found[self._given :]
        self._given = len(found)
        for op in fresh:
            for path in op.paths:
                plain = _plain(path)
                if op.move_to is not None and _plain(op.path) == _plain(op.move_to):
                    raise BadPatch(line=op.line, why=f"{path} is moved onto itself")
                if plain in self._seen:
                    raise BadPatch(line=op.line, why=f"{path} is named twice: give each file one operation")
                self._seen.add(plain)
        return fresh


def _plain(path: str) -> str:
    return "/".join(part for part in path.split("/") if part not in ("", "."))


def path_of(text: str, line: int) -> str:
    """A path as a patch may name it: below the workspace, and spelled so."""
    path = text.strip()
    if not path:
        raise BadPatch(line=line, why="a path is missing")
    if path.startswith("/") or _DRIVE.match(path):
        raise BadPatch(line=line, why=f"{path} is absolute: paths in a patch are relative to the workspace")
    if ".." in path.split("/"):
        raise BadPatch(line=line, why=f"{path} holds '..': name the file by its path from the workspace down")
    return path


class Hunks:
    """Collects the hunks of one file, line by line."""

    def __init__(self) -> None:
        self.found: list[Hunk] = []
        self.final_newline: bool | None = None
        self._clear()

    def _clear(self) -> None:
        self._headers: list[str] = []
        self._rows: list[Row] = []
        self._blanks = 0
        self._line: int | None = None
        self._at_end = self._begun = False

    @property
    def empty(self) -> bool:
        return not self.found and not self._begun

    def take(self, row: str, number: int) -> None:
        if row.startswith("@@"):
            self._header(row, number)
        elif not row:
            self._blanks += 1  # a line of the hunk only if more lines of it follow
        elif row[0] == "\\" and self._rows:
            self._no_newline()
        elif row[0] not in " -+":
            raise BadPatch(line=number, why="a line of a hunk begins with ' ', '-' or '+'")
        elif self._at_end or (self.found and not self._begun):
            raise BadPatch(line=number, why="a hunk begins with '@@'")
        else:
            self._begun = True
            self._rows += [(" ", "")] * self._blanks if self._rows else []
            self._blanks = 0
            self._rows.append((row[0], row[1:]))

    def _header(self, row: str, number: int) -> None:
        if self._rows:
            self.close(number)
        self._begun = True
        numbers = NUMBERS.match(row)
        header = row[2:].removeprefix(" ").rstrip().removesuffix("@@").rstrip()
        if numbers:
            self._line = int(numbers[1][:9])
        elif header.strip(" .@"):
            self._headers.append(header)

    def _no_newline(self) -> None:
        # On the old side alone it says that the new file ends with a line ending.
        self.final_newline = self._rows[-1][0] == "-" and self.final_newline is not False

    def end_of_file(self, number: int) -> None:
        if not self._rows or self._at_end:
            raise BadPatch(line=number, why=f"{_EOF!r} stands below the lines of a hunk")
        self._at_end, self._blanks = True, 0

    def close(self, number: int) -> None:
        """The hunk that is being read is complete."""
        if self._begun and not self._rows:
            raise BadPatch(line=number, why="the hunk above has no lines")
        if self._rows:
            self.found.append(Hunk(tuple(self._rows), tuple(self._headers), self._at_end, self._line))
        self._clear()


class _Grammar:
    """The lines behind `*** Begin Patch`."""

    def __init__(self) -> None:
        self.found: list[FileOp] = []
        self._kind: Kind | None = None
        self._path = ""
        self._move_to: str | None = None
        self._content: list[str] = []
        self._gap = False
        self._hunks = Hunks()
        self._number = self._line = 1
        self._ended = False

    def take(self, row: str, number: int) -> None:
        self._number = number
        if self._ended:
            if row.strip():
                raise self._bad(f"there is text behind {_END!r}")
        elif row.startswith("***"):
            self._mark(row.rstrip())
        elif self._kind == "update":
            self._hunks.take(row, number)
        elif self._kind == "add" and row.startswith("+") and not self._gap:
            self._content.append(row[1:])
        elif not row.strip():
            self._gap = True
        elif self._kind == "add":
            raise self._bad("each line of a new file begins with '+', also an empty one")
        else:
            raise self._bad(f"expected '{_ADD} ', '{_DELETE} ', '{_UPDATE} ' or {_END!r}")

    def close(self) -> None:
        if not self._ended:
            raise self._bad(f"the patch does not end with {_END!r}")

    def _bad(self, why: str) -> BadPatch:
        return BadPatch(line=self._number, why=why)

    def _mark(self, row: str) -> None:
        if row == _END:
            self._finish()
            self._ended = True
            if not self.found:
                raise self._bad("the patch changes nothing")
        elif row == _EOF and self._kind == "update":
            self._hunks.end_of_file(self._number)
        elif row.startswith(_MOVE):
            if self._kind != "update" or self._move_to or not self._hunks.empty:
                raise self._bad(f"'{_MOVE}' stands right below '{_UPDATE}'")
            self._move_to = path_of(row[len(_MOVE) :], self._number)
        else:
            marks: dict[str, Kind] = {_ADD: "add", _DELETE: "delete", _UPDATE: "update"}
            mark = next((mark for mark in marks if row.startswith(mark)), None)
            if mark is None:
                raise self._bad(f"{row[:60]!r} is no part of a patch")
            self._finish()
            self._kind, self._path = marks[mark], path_of(row[len(mark) :], self._number)
            self._line = self._number

    def _finish(self) -> None:
        """The operation that is being read is complete."""
        if self._kind is None:
            return
        self._hunks.close(self._number)
        hunks = tuple(self._hunks.found)
        if self._kind == "update" and not hunks and self._move_to is None:
            raise self._bad(f"no change is given for {self._path}")
        content = tuple(self._content)
        final = self._hunks.final_newline
        self.found.append(FileOp(self._kind, self._path, self._move_to, content, hunks, final, self._line))
        self._kind, self._move_to, self._content, self._gap, self._hunks = None, None, [], False, Hunks()
