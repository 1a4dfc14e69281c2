"""The operations of a patch, whichever language it is written in.

A patch is a list of `FileOp`s, and an update has `PatchHunk`s. Both parsers share `HunkReader` and `check_path`.
"""

from __future__ import annotations

import re
from typing import Literal

from handrail.errors import BadPatch
from handrail.frozen import frozen

SignedLine = tuple[str, str]
"""A sign (space, `-` or `+`) and a text without its line ending."""
OpKind = Literal["add", "delete", "update"]
HUNK_NUMBERS = re.compile(r"@@+ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
END_OF_FILE = "*** End of File"
CUT_OFF = "the patch is cut off: "
"""How every complaint about a patch begins whose end is missing."""
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_PREFIXED = re.compile(r"[ab]/(?=/)")
"""A prefix of git before an absolute path."""


@frozen
class PatchHunk:
    """Lines to find and to change."""

    rows: tuple[SignedLine, ...]
    headers: tuple[str, ...] = ()
    at_end: bool = False
    """Whether its last line must be the last of the file."""
    line: int | None = None
    """Where a unified diff says it begins; it decides between places that fit, and nothing else."""
    insert_at: int | None = None
    """Behind how many lines its lines go if it has no context, by a header such as `@@ -10,0 +11,2 @@`."""
    unended: bool = False
    """Whether the patch ends with its last line and no line break: that line must be a whole line of the file."""

    @property
    def old(self) -> list[str]:
        return [text for sign, text in self.rows if sign != "+"]

    @property
    def new(self) -> list[str]:
        return [text for sign, text in self.rows if sign != "-"]

    @property
    def lead(self) -> int:
        """How many lines of context stand above its first change."""
        return next((number for number, (sign, _) in enumerate(self.rows) if sign != " "), len(self.rows))

    @property
    def core(self) -> tuple[SignedLine, ...]:
        """Its rows from the first change to the last."""
        tail = next((number for number, (sign, _) in enumerate(reversed(self.rows)) if sign != " "), 0)
        return self.rows[self.lead : len(self.rows) - tail]


@frozen
class FileOp:
    """One operation of a patch on a file."""

    kind: OpKind
    path: str
    move_to: str | None = None
    content: tuple[str, ...] = ()
    """The lines of a new file."""
    hunks: tuple[PatchHunk, ...] = ()
    """Of a file to be deleted: what a unified diff says that it holds."""
    final_newline: bool | None = None
    """Whether the file ends with a line feed, by a unified diff; None if it does not say."""
    line: int = 1
    """Where it begins in the patch."""
    rewrites: bool = False
    """Whether a file is added that the same patch deletes."""

    @property
    def paths(self) -> tuple[str, ...]:
        return (self.path,) if self.move_to is None else (self.path, self.move_to)


def check_path(text: str, line: int) -> str:
    """Return a path of a patch; raises `BadPatch` if it has `..`, or a drive. The workspace judges absolute ones."""
    path = text.strip()
    if len(path) > 2 and path[0] == path[-1] and path[0] in "`\"'":
        path = path[1:-1].strip()
    path = _PREFIXED.sub("", path, count=1) if path[1:3] == "//" else path
    if not path:
        raise BadPatch(line=line, why="a path is missing")
    if _DRIVE.match(path):
        raise BadPatch(line=line, why=f"{path} has a drive: use a path relative to the workspace")
    if ".." in path.split("/"):
        raise BadPatch(line=line, why=f"{path} contains '..': use a path relative to the workspace")
    return path


class HunkReader:
    """Parses the hunks of one file, line by line."""

    def __init__(self) -> None:
        self.hunks: list[PatchHunk] = []
        self.final_newline: bool | None = None
        self._clear()

    def _clear(self) -> None:
        self._headers: list[str] = []
        self._rows: list[SignedLine] = []
        self._blanks = 0
        self._numbers: re.Match[str] | None = None
        self._at_end = self._begun = False

    @property
    def empty(self) -> bool:
        return not self.hunks and not self._begun

    def take(self, row: str, number: int) -> None:
        if row.startswith("@@"):
            self._read_header(row, number)
        elif not row:
            self._blanks += 1  # a line of the hunk only if more lines of it follow
        elif row[0] == "\\" and self._rows:
            # On the old side alone it says that the new file ends with a line ending.
            self.final_newline = self._rows[-1][0] == "-" and self.final_newline is not False
        elif row[0] not in " -+":
            raise BadPatch(line=number, why="a line of a hunk begins with ' ', '-' or '+'")
        elif self._at_end or (self.hunks and not self._begun):
            raise BadPatch(line=number, why="a hunk begins with '@@'")
        else:
            self._begun = True
            self._rows += [(" ", "")] * self._blanks if self._rows else []
            self._blanks = 0
            self._rows.append((row[0], row[1:]))

    def _read_header(self, row: str, number: int) -> None:
        if self._rows:
            self.close(number)
        self._begun = True
        header = row[2:].removeprefix(" ").rstrip().removesuffix("@@").rstrip()
        if numbers := HUNK_NUMBERS.match(row):
            self._numbers = numbers
        elif header.strip(" .@"):
            self._headers.append(header)

    def end_of_file(self, number: int) -> None:
        if not self._rows or self._at_end:
            raise BadPatch(line=number, why=f"{END_OF_FILE!r} must be below the lines of a hunk")
        self._at_end, self._blanks = True, 0

    def close(self, number: int, *, unended: bool = False) -> None:
        """Complete the current hunk."""
        if self._begun and not self._rows:
            raise BadPatch(line=number, why="the hunk above has no lines")
        if self._rows:
            line = int(self._numbers[1][:9]) if self._numbers else None
            rows, headers = tuple(self._rows), tuple(self._headers)
            self.hunks.append(PatchHunk(rows, headers, self._at_end, line, self._find_insertion(), unended))
        self._clear()

    def _find_insertion(self) -> int | None:
        """Where lines without context go, if all numbers of the header agree with each other and the hunks above."""
        if self._numbers is None or any(sign != "+" for sign, _ in self._rows):
            return None
        old, count, new, added = (int((number or "1")[:9]) for number in self._numbers.groups())
        moved = sum(len(hunk.new) - len(hunk.old) for hunk in self.hunks)
        return old if count == 0 and added == len(self._rows) and new == old + 1 + moved else None
