"""Undo a command that ran in a draft by carrying out the plan of its keep backwards.

That restores every entry itself, with its times and attributes, however many there are. It is done for a whole call or
not at all: where something has changed since, or the draft is gone, the old contents in the journal are used instead.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from typing import Literal

from handrail.drafts.compare import Action
from handrail.drafts.keep import DraftConflict, find_undo_conflicts, read_kept, recover, undo
from handrail.drafts.layout import DraftDirectory
from handrail.drafts.store import lock_draft
from handrail.files.versions import MOST_SAVED_BYTES, MOST_SAVED_FILES, SubtreeEntry
from handrail.journal import BeforeImage, MovedEntry

How = Literal["changed", "created", "deleted", "mode"]
"""How an undo changes a path."""
_HOW: dict[Action, How] = {"create": "deleted", "replace": "changed", "delete": "created"}


class KeptDraft:
    """A kept draft that nothing has changed since."""

    def __init__(self, directory: DraftDirectory, changes: Sequence[tuple[str, How]]) -> None:
        self._directory = directory
        self.changes = changes
        """The absolute paths that would be restored, and how."""

    @classmethod
    def find(cls, path: str, workspace: str) -> KeptDraft | None:
        """The kept draft at ``path``; None if it is gone, of another workspace, or cannot be taken back as a whole."""
        try:
            with lock_draft(path):  # one that is being removed cannot be taken back
                directory = _open_settled(path)
                if directory.state != "kept" or directory.info.workspace != workspace or find_undo_conflicts(directory):
                    return None
                return cls(directory, tuple(_list_changes(directory)))
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def take_back(self) -> bool:
        """Restore everything; False if something has changed meanwhile, and nothing was done. Raises `OSError`."""
        try:
            with lock_draft(self._directory.path):
                undo(self._directory)
                with contextlib.suppress(OSError):  # the next sweep of all drafts deletes the rest
                    self._directory.drop()
        except (DraftConflict, BlockingIOError):
            return False
        except FileNotFoundError:  # another process has removed it
            if os.path.lexists(self._directory.path):
                raise
            return False
        return True


def has_kept_changes(path: str) -> bool:
    """Whether a kept draft lies at ``path``, with more changes than those of times."""
    try:
        with lock_draft(path):
            directory = _open_settled(path)
            return directory.state == "kept" and any(True for _ in _list_changes(directory))
    except (OSError, ValueError, TypeError, KeyError):
        return False


def _open_settled(path: str) -> DraftDirectory:
    """A draft, after what a killed process began there was finished: it is kept or undone, nothing between."""
    directory = DraftDirectory.open(path)
    with contextlib.suppress(DraftConflict):
        recover(directory)
    return directory


def _list_changes(directory: DraftDirectory) -> Iterator[tuple[str, How]]:
    for step in read_kept(directory):
        if step.action != "set":
            yield os.path.join(directory.info.workspace, step.path), _HOW[step.action]
        elif step.changes_mode:
            yield os.path.join(directory.info.workspace, step.path), "mode"


def read_images(paths: Sequence[str]) -> list[BeforeImage | MovedEntry]:
    """The state of these paths now, as far as the journal can take it: so that an undo can be undone."""
    images: list[BeforeImage | MovedEntry] = []
    room = MOST_SAVED_BYTES
    for path in paths[:MOST_SAVED_FILES]:
        image = read_image(path, room)
        if image is not None:
            images.append(image)
            room -= len((image.before if isinstance(image, BeforeImage) else image.entry.raw) or b"")
    return images


def read_image(path: str, room: int) -> BeforeImage | MovedEntry | None:
    """The file, link or directory at a path; None if it is larger than ``room`` or of another kind."""
    try:
        status = os.lstat(path)
        mode = stat.S_IMODE(status.st_mode)
        if stat.S_ISLNK(status.st_mode):
            return MovedEntry(path, SubtreeEntry("", "link", mode, os.fsencode(os.readlink(path))), True, sure=False)
        if stat.S_ISDIR(status.st_mode):
            return MovedEntry(path, SubtreeEntry("", "directory", mode), True, sure=False)
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return BeforeImage(path, None)
    except OSError:
        return None
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > room:
            return None
        raw = file.read(room + 1)
    return BeforeImage(path, raw, stat.S_IMODE(status.st_mode)) if len(raw) <= room else None
