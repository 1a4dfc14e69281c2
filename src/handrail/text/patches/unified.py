"""Parse unified diffs, as git and diff write them, into the operations of a patch.

Line numbers and counts are hints, because models get them wrong. Counts that fit the text decide where a hunk ends;
otherwise the signs in front of the lines do. Links, binary files and copies are refused, never ignored; so is a new
mode, unless hunks change the file as well: then the file keeps its mode.

A diff has no end marker. Unless a frame shows its end, it is cut off if its last hunk is the beginning of what its
header counts, if its last line has no line break and may go on, or if the hunks of a file are missing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from handrail.errors import BadPatch
from handrail.text.patches.operations import CUT_OFF, HUNK_NUMBERS, FileOp, HunkReader, check_path

_GIT = "diff --git "
_NONE = "/dev/null"
"""The name of a file that is not there, before or afterwards."""
_PREFIX = re.compile(r"^[abciow]/")
_ESCAPE = re.compile(r"\\(?:([0-7]{3})|(.))")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_REFUSED = {
    "copy from ": "a file cannot be copied by a patch",
    "Binary files ": "a binary file cannot be changed by a patch",
    "GIT binary patch": "a binary file cannot be changed by a patch",
    "new file mode 100755": "a patch cannot make a new file executable: leave out its mode",
    "new file mode 12": "a link cannot be made by a patch",
    "new file mode 16": "a submodule cannot be made by a patch",
    "deleted file mode 12": "a link cannot be deleted by a patch",
    "deleted file mode 16": "a submodule cannot be deleted by a patch",
}


_NO_NEWLINE = "\\ No newline at end of file"
_EMPTY_BLOB = "e69de29"
"""How git names the contents of an empty file."""


def parse_unified(rows: Sequence[str], *, framed: bool = False, unended: bool = False) -> list[FileOp]:
    """Return the operations of a unified diff; raises `BadPatch`.

    ``framed``: a marker showed where it ends. ``unended``: its last row has no line break.
    """
    return _DiffReader(rows, framed, unended).operations()


class _Section:
    """The part of a diff about one file."""

    def __init__(self, line: int, git: str = "") -> None:
        self.line = line
        self.old = self.new = _parse_git_name(git)
        self.named = False
        self.moved: dict[str, str] = {}
        self.mark = ""
        self.needs_hunks = False
        """Unless a file is only renamed, or an empty one is created or deleted."""
        self.hunks = HunkReader()

    def operation(self, line: int, *, framed: bool = True) -> FileOp:
        self.hunks.close(line)
        if self.hunks.empty and not framed and self.needs_hunks:
            raise BadPatch(line=self.line, why=f"{CUT_OFF}there are no hunks for {self.new or self.old or 'a file'}")
        if len(self.moved) == 1:
            raise BadPatch(line=self.line, why="a rename needs both 'rename from' and 'rename to'")
        old = _NONE if self.mark == "new file" else self.moved.get("from", self.old)
        new = _NONE if self.mark == "deleted file" else self.moved.get("to", self.new)
        if old == new == _NONE:
            raise BadPatch(line=self.line, why="the name of the file is missing: both names are /dev/null")
        hunks, final = tuple(self.hunks.hunks), self.hunks.final_newline
        if old == _NONE:
            if any(hunk.old for hunk in hunks):
                raise BadPatch(line=self.line, why="a new file has '+' lines only")
            content = tuple(text for hunk in hunks for text in hunk.new)
            return FileOp("add", check_path(new, self.line), content=content, final_newline=final, line=self.line)
        if new == _NONE:
            return FileOp("delete", check_path(old, self.line), hunks=hunks, line=self.line)
        source, target = check_path(old, self.line), check_path(new, self.line)
        move_to = target if target != source else None
        if not hunks and not move_to:
            raise BadPatch(line=self.line, why=f"there are no hunks for {source}, and a patch cannot change a mode")
        return FileOp("update", source, move_to, hunks=hunks, final_newline=final, line=self.line)


class _DiffReader:
    """Parses the rows of a diff, one file section after the other."""

    def __init__(self, rows: Sequence[str], framed: bool, unended: bool) -> None:
        self._rows = rows
        self._framed = framed
        self._unended = unended and not framed
        self._at = 0
        self._parsed: list[FileOp] = []
        self._section: _Section | None = None
        self._after_signature = False
        """Whether the signature of a mailed patch was passed: what follows is no part of a file."""
        self._has_whole_end = not rows or not rows[-1].strip()
        """Whether the last row is whole, or no part of a file, although it has no line break."""

    def operations(self) -> list[FileOp]:
        while self._at < len(self._rows):
            row = self._rows[self._at]
            if row.startswith(_GIT):
                self._open(row[len(_GIT) :])
                self._at += 1
            elif _starts_file(self._rows, self._at):
                self._name()
            elif row.startswith("@@"):
                self._read_hunk()
            else:
                self._read_other(row)
                self._at += 1
        if self._unended and not self._has_whole_end and self._section:
            raise self._report_cut("its last line has no line break")
        self._finish()
        if not self._parsed:
            raise BadPatch(line=1, why="a patch begins with '*** Begin Patch', or is a diff with '---' and '+++' lines")
        return self._parsed

    def _open(self, git: str = "") -> _Section:
        self._finish()
        self._section = _Section(self._at + 1, git)
        self._after_signature = False
        return self._section

    def _finish(self) -> None:
        if self._section:
            self._parsed.append(self._section.operation(self._at, framed=self._framed))
        self._section = None

    def _report_cut(self, why: str) -> BadPatch:
        return BadPatch(line=len(self._rows), why=CUT_OFF + why)

    def _name(self) -> None:
        section = self._section
        if section is None or section.named:
            section = self._open()
        section.named = section.needs_hunks = True
        old, new = _unquote(self._rows[self._at][4:]), _unquote(self._rows[self._at + 1][4:])
        section.old, section.new = _strip_prefixes(old, new)
        self._at += 2

    def _read_hunk(self) -> None:
        section = self._section
        if section is None or not section.named:
            raise BadPatch(line=self._at + 1, why="a hunk must be below the '---' and '+++' lines of its file")
        numbers = HUNK_NUMBERS.match(self._rows[self._at])
        end = None
        if numbers:
            old, new = (int((count or "1")[:9]) for count in (numbers[2], numbers[4]))
            end = _end_by_counts(self._rows, self._at + 1, old, new)
        counted = end is not None
        end = end or _end_by_signs(self._rows, self._at + 1)
        for number in range(self._at, end):
            section.hunks.take(self._rows[number], number + 1)
        if not self._framed and not any(map(str.strip, self._rows[end:])):
            unended = self._unended and end == len(self._rows)
            counts = None if counted or not numbers else (old, new)
            self._require_whole_hunk(self._rows[self._at + 1 : end], counts, unended)
            if unended:
                self._has_whole_end = True
                section.hunks.close(end, unended=True)
        self._at = end

    def _require_whole_hunk(self, rows: Sequence[str], counts: tuple[int, int] | None, unended: bool) -> None:
        """Raise `BadPatch` if the last hunk is cut off; ``counts``: those of its header, if it has others."""
        if not any(row[:1] in ("+", "-") for row in rows):
            raise self._report_cut("the last hunk changes no line")
        if counts and _begins(rows, *counts):
            raise self._report_cut("the last hunk has fewer lines than its header counts")
        last = rows[-1]
        if counts and (unended or last.startswith("--- ")) and _count_sides(rows[:-1]) == counts:
            raise self._report_cut("it ends in the name of a file")
        if unended and last[0] == "+":
            raise self._report_cut("its last line begins with '+' and has no line break; add one if it is complete")
        is_open = (last[:1] == "-" and not last.strip("- ")) or (last[:1] == "\\" and last != _NO_NEWLINE)
        if unended and is_open:
            raise self._report_cut("its last line has no line break")

    def _read_other(self, row: str) -> None:
        section = self._section
        if section is None or not row.strip() or self._after_signature:
            return
        if not section.hunks.empty:
            if row.rstrip() != "--":
                raise BadPatch(line=self._at + 1, why="a line of a hunk begins with ' ', '-' or '+'")
            self._after_signature = True
            self._has_whole_end = self._at + 1 < len(self._rows)
            return
        why = next((why for start, why in _REFUSED.items() if row.startswith(start)), None)
        if why:
            raise BadPatch(line=self._at + 1, why=why)
        if row.startswith(("index ", "similarity index ")):
            section.needs_hunks = _EMPTY_BLOB not in row and row.rstrip() != "similarity index 100%"
        for mark in ("new file", "deleted file"):
            if row.startswith(mark + " mode "):
                section.mark, section.needs_hunks = mark, True
        for end in ("from", "to"):
            if row.startswith(f"rename {end} "):
                section.moved[end] = _unquote(row[len(f"rename {end} ") :])


def _starts_file(rows: Sequence[str], at: int) -> bool:
    return rows[at].startswith("--- ") and at + 1 < len(rows) and rows[at + 1].startswith("+++ ")


def _end_by_counts(rows: Sequence[str], at: int, old: int, new: int) -> int | None:
    """Where a hunk ends by its counts; None if they do not fit."""
    while (old > 0 or new > 0) and at < len(rows) and rows[at][:1] in ("", " ", "-", "+", "\\"):
        old -= rows[at][:1] in ("", " ", "-")
        new -= rows[at][:1] in ("", " ", "+")
        at += 1
    if old or new:
        return None
    while at < len(rows) and rows[at].startswith("\\"):
        at += 1
    behind = rows[at] if at < len(rows) else ""
    more = behind[:1] in (" ", "+", "-") and behind.strip() not in ("", "--") and not _starts_file(rows, at)
    return None if more else at


def _count_sides(rows: Sequence[str]) -> tuple[int, int]:
    """How many lines of the old and of the new file the rows of a hunk are."""
    signs = [row[:1] for row in rows]
    return sum(sign in ("", " ", "-") for sign in signs), sum(sign in ("", " ", "+") for sign in signs)


def _begins(rows: Sequence[str], old: int, new: int) -> bool:
    """Whether rows may be the beginning of a longer hunk with these counts: neither side has more, and one has less.

    Where one side has more, the counts are wrong, which says nothing about the end.
    """
    there = _count_sides(rows)
    return there[0] <= old and there[1] <= new and there != (old, new)


def _end_by_signs(rows: Sequence[str], at: int) -> int:
    """Where a hunk ends by the signs in front of its lines."""
    while at < len(rows) and rows[at][:1] in ("", " ", "-", "+", "\\") and not _starts_file(rows, at):
        if rows[at] == "-- " and not any(row[:1] in ("+", "-", " ") for row in rows[at + 1 :]):
            break
        at += 1
    return at


def _parse_git_name(git: str) -> str:
    """The name in `a/NAME b/NAME`; empty if the two differ: then other lines name them."""
    half = len(git) // 2
    same = git[half : half + 1] == " " and git[2:half] == git[half + 3 :]
    return git[2:half] if same else ""


def _strip_prefixes(old: str, new: str) -> tuple[str, str]:
    """Both names without git's prefixes, of which one of them may lack its own."""
    bare = _PREFIX.sub("", old), _PREFIX.sub("", new)
    are_prefixed = all(name == _NONE or name not in bare for name in (old, new))
    return bare if old[:2] != new[:2] and (are_prefixed or bare[0] == bare[1]) else (old, new)


def _unquote(text: str) -> str:
    """A name as it is: without the time behind it, and without git's quoting of odd characters."""
    name = text.split("\t")[0].strip()
    if len(name) < 2 or name[0] != '"' or name[-1] != '"':
        return name

    # Everything as bytes for a moment: an escape stands for one byte of a character.
    plain = name[1:-1].encode("utf-8", "surrogatepass").decode("latin-1")
    plain = _ESCAPE.sub(
        lambda match: chr(int(match[1], 8) & 0xFF) if match[1] else _ESCAPES.get(match[2], match[2]), plain
    )
    return plain.encode("latin-1", "replace").decode("utf-8", "replace")
