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
_UPDATE, _MOVE = "*** Update File:", "*** Move to:"
_SECTIONS: dict[str, OpKind] = {"*** Add File:": "add", "*** Delete File:": "delete", _UPDATE: "update"}
_EXPECTED = f"expected {', '.join(repr(f'{mark} ') for mark in _SECTIONS)} or {_END!r}"


def parse_patch(text: str) -> list[FileOp]:
    """Return the operations of a patch; raises `BadPatch`."""
    patch = unwrap_patch(text)
    *rows, rest = (row.removesuffix("\r") for row in patch.text.split("\n"))
    rows += [rest] if rest else []
    first = next((number for number, row in enumerate(rows) if row.strip()), None)
    if first is None:
        raise BadPatch(line=1, why="the patch is empty")
    if rows[first].strip() == _BEGIN:
        operations = _read_envelope(rows, first + 1)
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


def _read_envelope(rows: Sequence[str], start: int) -> list[FileOp]:
    """The operations from a row on, up to the end marker."""
    end = next((at for at in range(start, len(rows)) if rows[at].rstrip() == _END), None)
    if end is None:
        raise BadPatch(line=len(rows), why=f"{CUT_OFF}it does not end with {_END!r}")
    sections: list[_FileSection] = []
    for number, row in enumerate(rows[start:end], start + 1):
        mark = next((mark for mark in _SECTIONS if row.startswith(mark)), None)
        if mark:
            sections.append(_FileSection(_SECTIONS[mark], check_path(row[len(mark) :], number), number))
        elif row.startswith(_MOVE):
            if not sections or not sections[-1].may_move:
                raise BadPatch(line=number, why=f"'{_MOVE}' must be directly below '{_UPDATE}'")
            sections[-1].move_to = check_path(row[len(_MOVE) :], number)
            sections[-1].rows.append("")
        elif row.startswith("***") and not row.startswith(END_OF_FILE):
            raise BadPatch(line=number, why=f"{row.rstrip()[:60]!r} is not part of a patch")
        elif sections:
            sections[-1].rows.append(row)
        elif row.strip():
            raise BadPatch(line=number, why=_EXPECTED)
    behind = next((at for at in range(end + 1, len(rows)) if rows[at].strip()), None)
    if behind is not None:
        raise BadPatch(line=behind + 1, why=f"there is text after {_END!r}")
    if not sections:
        raise BadPatch(line=end + 1, why="the patch changes nothing")
    return [section.read() for section in sections]


class _FileSection:
    """The part of a patch about one file."""

    def __init__(self, kind: OpKind, path: str, line: int) -> None:
        self._kind, self._path, self._line = kind, path, line
        self.move_to: str | None = None
        self.rows: list[str] = []

    @property
    def may_move(self) -> bool:
        return self._kind == "update" and not self.move_to and not any(map(str.strip, self.rows))

    def read(self) -> FileOp:
        return self._read_update() if self._kind == "update" else self._read_content()

    def _read_update(self) -> FileOp:
        hunks, end = HunkReader(), self._line + len(self.rows) + 1
        for number, row in enumerate(self.rows, self._line + 1):
            if row.rstrip() == END_OF_FILE:
                hunks.end_of_file(number)
            else:
                hunks.take(row, number)
        hunks.close(end)
        if not hunks.hunks and not self.move_to:
            raise BadPatch(line=end, why=f"there are no hunks for {self._path}")
        return FileOp("update", self._path, self.move_to, (), tuple(hunks.hunks), hunks.final_newline, self._line)

    def _read_content(self) -> FileOp:
        """A new file; a deleted one has no lines."""
        for number, row in enumerate(self.rows, self._line + 1):
            if row.strip() and not (self._kind == "add" and row.startswith("+")):
                why = "each line of a new file begins with '+', also an empty one"
                raise BadPatch(line=number, why=why if self._kind == "add" else _EXPECTED)
        filled = [number for number, row in enumerate(self.rows, 1) if row.strip()]
        content = tuple(row.lstrip()[1:] for row in self.rows[: max(filled, default=0)])
        return FileOp(self._kind, self._path, content=content, line=self._line)
