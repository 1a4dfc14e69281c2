"""The old states of what commands change, for the journal."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import replace

from handrail.drafts.changes import DraftChange
from handrail.files.versions import MOST_SAVED_BYTES, MOST_SAVED_FILES, EntryKind, SubtreeEntry
from handrail.journal import BeforeImage, MovedEntry
from handrail.journal.records import ABSENT, read_state
from handrail.model import Access, FileAccess
from handrail.shell.git.internals import ChangedContents


def save_old_states(
    reader: ChangedContents, workspace: str, changes: Sequence[DraftChange], new: str
) -> tuple[list[BeforeImage | MovedEntry], list[str]]:
    """The old state of changed paths for the journal, and the paths left out because of size, number or kind.

    ``new``: the directory that has their new state.
    """
    saved: list[BeforeImage | MovedEntry] = []
    missed: list[str] = []
    room = MOST_SAVED_BYTES
    for change in changes:
        path = os.path.join(workspace, change.path)
        image = _make_image(reader, path, change, room) if len(saved) < MOST_SAVED_FILES else None
        if image is None:
            missed.append(change.path)
            continue
        after = read_state(os.path.join(new, change.path)) if change.after else (ABSENT, None)
        saved.append(replace(image, after=after))
        room -= len((image.before if isinstance(image, BeforeImage) else image.entry.raw) or b"")
    return saved, missed


def _make_image(reader: ChangedContents, path: str, change: DraftChange, room: int) -> BeforeImage | MovedEntry | None:
    """The old state of a path for the journal; None if it is larger than ``room``, unreadable, or of another kind."""
    entry, after = change.before, change.after
    if after and after.type == "other":
        return None
    if entry is None:
        return BeforeImage(path, None)
    mode = stat.S_IMODE(entry.mode)
    if entry.type in ("directory", "link"):
        raw = b"" if entry.type == "directory" else reader.read_before(change, room)
        kind: EntryKind = "directory" if entry.type == "directory" else "link"
        return None if raw is None else MovedEntry(path, SubtreeEntry("", kind, mode, raw), True, sure=False)
    raw = reader.read_before(change, room) if entry.type == "file" else None
    return None if raw is None else BeforeImage(path, raw, mode)


def unsaved_access(workspace: str, path: str) -> Access:
    """The access to a path whose old state could not be saved."""
    why = "not all of it could be saved"
    return FileAccess("write", path, os.path.join(workspace, path), by_command=True, unsaved=True, why=why)
