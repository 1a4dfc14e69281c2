"""Undo from the page: first a preview of what it will do to each file, then the same undo as on the command line."""

from __future__ import annotations

import contextlib
import difflib
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field

from handrail.errors import ToolError
from handrail.journal import JournalFailed
from handrail.journal.browse import FileEvent
from handrail.journal.queries import CallRow, FileRow
from handrail.journal.undo import (
    CannotRestore,
    CannotUndo,
    UndoReport,
    UnknownCall,
    open_undo,
    restore_file,
    undo,
)
from handrail.web.diffs import FileView, parse_diff
from handrail.web.site import Site

_MOST_BYTES = 1 << 20
"""Larger files are not compared."""
_MOST_FILES = 50
_SHARED = "a shared journal is only read, so undo on that machine: `handrail undo`, or a session connected to it"


@dataclass(frozen=True, slots=True)
class UndoPreview:
    """What an undo does, or why there is none."""

    report: UndoReport | None
    problem: str = ""
    views: list[FileView] = field(default_factory=list)

    @property
    def restored(self) -> list[tuple[str, str]]:
        """The paths, and what happens to each."""
        return [(one.path, one.outcome) for one in self.report.restored] if self.report else []

    @property
    def possible(self) -> bool:
        return bool(self.report and self.report.restored)


def preview_undo(site: Site, calls: Sequence[CallRow]) -> UndoPreview:
    """What an undo of these calls, the newest first, would do now, with the difference to the files as they are."""
    report, problem = _undo(site, calls, dry_run=True)
    if report is None:
        return UndoPreview(None, problem)
    restored = {one.path for one in report.restored}
    with site.reader() as reader:
        changed = {one.path: one for row in calls for one in (reader.read_files(row.seq) if reader else ())}
        rows = [one for path, one in changed.items() if path in restored]  # of each file the oldest change
        images = reader.read_images([one.before for one in rows[:_MOST_FILES]]) if reader else {}
    text = "".join(_compare(one, images.get(one.before, b"")) for one in rows[:_MOST_FILES])
    return UndoPreview(report, "", parse_diff(text))


def run_undo(site: Site, calls: Sequence[CallRow]) -> UndoPreview:
    """Undo calls, the newest first."""
    report, problem = _undo(site, calls, dry_run=False)
    return UndoPreview(report, problem)


def restore(site: Site, event: FileEvent, path: str, workspace: str) -> str:
    """Give a file the contents that it had before a call; returns what was done, or why nothing was, as a sentence."""
    if site.is_shared:
        return f"Nothing was restored: {_SHARED}."
    if not os.path.isdir(workspace):
        return "Nothing was restored: the directory of its project is gone."
    try:
        with open_undo(site.journal, workspace, site.roots, site.settings) as (journal, context):
            done = restore_file(journal, context, path, event.before)
    except CannotRestore as error:
        return f"Nothing was restored: {error}."
    except JournalFailed as error:
        return f"Nothing was restored: the journal cannot be written: {error.why}."
    except ToolError as error:
        return f"Nothing was restored: {error}."
    return "The file is restored." if done else "The file has these contents already."


def _undo(site: Site, calls: Sequence[CallRow], *, dry_run: bool) -> tuple[UndoReport | None, str]:
    row = calls[0]
    if site.is_shared:
        where = f"It is call {row.number} on {row.host}, in {row.workspace}"
        return None, f"{where}: {_SHARED}."
    if not os.path.isdir(row.workspace):
        return None, "The directory of its project is gone."
    try:
        with open_undo(site.journal, row.workspace, site.roots, site.settings) as (journal, context):
            which = {"call": row.seq} if len(calls) == 1 else {"calls": [one.seq for one in calls]}
            return undo(journal, context, dry_run=dry_run, **which), ""
    except (UnknownCall, CannotUndo) as error:
        return None, str(error)
    except JournalFailed as error:
        return None, f"The journal cannot be written: {error.why}"
    except ToolError as error:
        return None, f"Nothing was undone: {error}"


def _compare(file: FileRow, before: bytes) -> str:
    """The unified diff from the file as it is to its old contents."""
    try:
        now = _read(file.path)
        old = before.decode("utf-8") if file.before else ""
        lines = (now or "").splitlines(keepends=True), old.splitlines(keepends=True)
    except (OSError, UnicodeDecodeError):
        return f"--- {file.path}\n+++ {file.path}\n\\ its contents cannot be compared line by line\n"
    names = "/dev/null" if now is None else file.path, file.path if file.before else "/dev/null"
    rows = difflib.unified_diff(*lines, *names)
    return "".join(row if row.endswith("\n") else f"{row}\n\\ No newline at end of file\n" for row in rows)


def _read(path: str) -> str | None:
    """The text of a regular file; None if there is none."""
    with contextlib.suppress(FileNotFoundError):
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as stream:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise OSError("it is not a regular file")
            raw = stream.read(_MOST_BYTES + 1)
        if len(raw) > _MOST_BYTES:
            raise OSError("it is too large")
        return raw.decode("utf-8")
    return None
