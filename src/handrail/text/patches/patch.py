"""Parse a patch, either in the `*** Begin Patch` language or as a unified diff.

    Patch      := "*** Begin Patch" { FileOp } "*** End Patch"
    FileOp     := AddFile | DeleteFile | UpdateFile
    AddFile    := "*** Add File: " path { "+" line }
    DeleteFile := "*** Delete File: " path
    UpdateFile := "*** Update File: " path [ "*** Move to: " path ] { Hunk }
    Hunk       := "@@" [ header ] { (" " | "-" | "+") line } [ "*** End of File" ]

A patch without its end marker is cut off, and refused. A hunk has no line numbers: `locate.py` finds where it belongs.
`unified.py` parses unified diffs into the same operations. `BadPatch` is the only exception, whatever is wrong with a
text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from handrail.errors import BadPatch
from handrail.text.patches.frames import unwrap_patch
from handrail.text.patches.operations import CUT_OFF, END_OF_FILE, FileOp, HunkReader, OpKind, check_path
from handrail.text.patches.unified import parse_unified

_BEGIN, _END = "*** Begin Patch", "*** End Patch"
_ADD, _DELETE, _UPDATE, _MOVE = "*** Add File:", "*** Delete File:", "*** Update File:", "*** Move to:"


def parse_patch(text: str) -> list[FileOp]:
    """Return the operations of a patch; raises `BadPatch`."""
    patch = unwrap_patch(text)
    *rows, rest = (row.removesuffix("\r") for row in patch.text.split("\n"))
    rows += [rest] if rest else []
    first = next((number for number, row in enumerate(rows) if row.strip()), None)
    if first is None:
        raise BadPatch(line=1, why="the patch is empty")
    if rows[first].strip() == _BEGIN:
        operations = _Grammar().read(rows, first + 1)
    elif rows[first].startswith("***"):
        raise BadPatch(line=first + 1, why=f"a patch begins with {_BEGIN!r}")
    else:
        operations = parse_unified(rows, framed=patch.framed, unended=bool(rest))
    for op in operations:
        if op.move_to is not None and _normalize(op.path) == _normalize(op.move_to):
            raise BadPatch(line=op.line, why=f"{op.path} is moved onto itself")
    return _combine_sections(operations)


def _combine_sections(operations: list[FileOp]) -> list[FileOp]:
    """One operation for each file: two updates are one, and a deletion with an addition rewrites the file."""
    combined: list[FileOp] = []
    numbers: dict[str, int] = {}
    for op in operations:
        number = numbers.get(_normalize(op.path))
        before = combined[number] if number is not None else None
        if number is None or before is None:
            if op.move_to is not None and _normalize(op.move_to) in numbers:
                raise BadPatch(line=op.line, why=f"{op.move_to} occurs twice: use one operation per file")
            numbers.update(dict.fromkeys(map(_normalize, op.paths), len(combined)))
            combined.append(op)
        elif before.kind == op.kind == "update" and before.move_to is None and op.move_to is None:
            final = before.final_newline if op.final_newline is None else op.final_newline
            combined[number] = replace(before, hunks=before.hunks + op.hunks, final_newline=final)
        elif before.kind == "delete" and op.kind == "add" and not before.hunks:
            combined[number] = replace(op, rewrites=True)
        else:
            raise BadPatch(line=op.line, why=f"{op.path} occurs twice: use one operation per file")
    return combined


def _normalize(path: str) -> str:
    return "/" * path.startswith("/") + "/".join(part for part in path.split("/") if part not in ("", "."))


class _Grammar:
    """Parses the lines after `*** Begin Patch`."""

    def __init__(self) -> None:
        self.operations: list[FileOp] = []
        self._kind: OpKind | None = None
        self._path = ""
        self._move_to: str | None = None
        self._content: list[str] = []
        self._gap = 0
        self._hunks = HunkReader()
        self._number = self._line = 1
        self._ended = False

    def read(self, rows: Sequence[str], start: int) -> list[FileOp]:
        for self._number, row in enumerate(rows[start:], start + 1):
            self._take(row)
        if not self._ended:
            raise self._report_bad_patch(f"{CUT_OFF}it does not end with {_END!r}")
        return self.operations

    def _take(self, row: str) -> None:
        if self._ended:
            if row.strip():
                raise self._report_bad_patch(f"there is text after {_END!r}")
        elif row.startswith("***"):
            self._mark(row.rstrip())
        elif self._kind == "update":
            self._hunks.take(row, self._number)
        elif self._kind == "add" and row.startswith("+"):
            self._content += [""] * self._gap
            self._gap = 0
            self._content.append(row[1:])
        elif not row.strip():
            self._gap += 1  # a line of the new file only if more lines of it follow
        elif self._kind == "add":
            raise self._report_bad_patch("each line of a new file begins with '+', also an empty one")
        else:
            raise self._report_bad_patch(f"expected '{_ADD} ', '{_DELETE} ', '{_UPDATE} ' or {_END!r}")

    def _report_bad_patch(self, why: str) -> BadPatch:
        return BadPatch(line=self._number, why=why)

    def _mark(self, row: str) -> None:
        if row == _END:
            self._finish()
            self._ended = True
            if not self.operations:
                raise self._report_bad_patch("the patch changes nothing")
        elif row == END_OF_FILE and self._kind == "update":
            self._hunks.end_of_file(self._number)
        elif row.startswith(_MOVE):
            if self._kind != "update" or self._move_to or not self._hunks.empty:
                raise self._report_bad_patch(f"'{_MOVE}' must be directly below '{_UPDATE}'")
            self._move_to = check_path(row[len(_MOVE) :], self._number)
        else:
            marks: dict[str, OpKind] = {_ADD: "add", _DELETE: "delete", _UPDATE: "update"}
            mark = next((mark for mark in marks if row.startswith(mark)), None)
            if mark is None:
                raise self._report_bad_patch(f"{row[:60]!r} is not part of a patch")
            self._finish()
            self._kind, self._path = marks[mark], check_path(row[len(mark) :], self._number)
            self._line = self._number

    def _finish(self) -> None:
        """The operation that is being read is complete."""
        if self._kind is None:
            return
        self._hunks.close(self._number)
        hunks = tuple(self._hunks.hunks)
        if self._kind == "update" and not hunks and self._move_to is None:
            raise self._report_bad_patch(f"there are no hunks for {self._path}")
        content = tuple(self._content)
        final = self._hunks.final_newline
        self.operations.append(FileOp(self._kind, self._path, self._move_to, content, hunks, final, self._line))
        self._kind, self._move_to, self._content, self._gap, self._hunks = None, None, [], 0, HunkReader()
