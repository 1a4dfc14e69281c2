"""Take back the move or the deletion of a file or directory by one rename: the entries themselves come back.

That restores inodes, times and attributes. What was deleted lies beside the journal for a while. Where it does not any
more, or something has changed since, the old contents in the journal are used instead.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from handrail import system_calls
from handrail.drafts.layout import remove_tree
from handrail.errors import ToolError
from handrail.files.overlay_renames import rename_entry
from handrail.files.versions import Subtree, hash_bytes
from handrail.journal.queries import FileRow
from handrail.journal.records import ABSENT, read_state, state
from handrail.journal.undo_directories import locate
from handrail.journal.undo_drafts import How
from handrail.policy.paths import is_within
from handrail.system_calls import closing_fd
from handrail.workspace import Workspace

_MOST_RETAINED = 64


class Trash:
    """The deleted trees of a journal, each named by what it was."""

    def __init__(self, journal: str) -> None:
        self._directory = os.path.join(os.path.dirname(journal), "trash")

    def retain(self, directory: int, name: str, subtree: Subtree, budget: int) -> bool:
        """Move a tree here; False if that cannot be done, as to another file system. Older ones make room."""
        real = subtree.path.real
        entries = {os.path.join(real, one.inner) if one.inner else real: state(one) for one in subtree.entries}
        place = os.path.join(self._directory, _name(entries))
        try:
            os.makedirs(place, mode=0o700, exist_ok=True)
            for older in os.listdir(place):
                remove_tree_or_file(os.path.join(place, older))
            os.rename(name, os.path.join(place, str(subtree.size)), src_dir_fd=directory)
            self._trim(budget)
        except OSError:
            return False
        return True

    def find(self, entries: dict[str, str]) -> str:
        """The path of a tree with these entries; empty if it is not here."""
        place = os.path.join(self._directory, _name(entries))
        with contextlib.suppress(OSError):
            return os.path.join(place, os.listdir(place)[0]) if os.listdir(place) else ""
        return ""

    def _trim(self, budget: int) -> None:
        places = sorted(os.scandir(self._directory), key=lambda one: -one.stat().st_mtime_ns)
        for number, place in enumerate(places):
            sizes = [int(size) for size in os.listdir(place.path)]
            budget -= sum(sizes)
            if budget < 0 or number >= _MOST_RETAINED or not sizes:
                remove_tree_or_file(place.path)


def remove_tree_or_file(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        if not os.path.isdir(path) or os.path.islink(path):
            os.unlink(path)
        else:
            remove_tree(path)
            os.rmdir(path)


def _name(entries: dict[str, str]) -> str:
    parts = (part for pair in sorted(entries.items()) for part in pair)
    return hash_bytes(os.fsencode("\0".join(parts)))


@dataclass(slots=True)
class MovedTree:
    """A file or directory that can be renamed back to the path that it had before a call."""

    workspace: Workspace
    source: str
    target: str
    entries: dict[str, tuple[str, int | None]]
    """Hash and mode of everything in it, by its old path."""
    parents: Sequence[str]
    """Directories that were made for it."""
    in_workspace: bool

    @classmethod
    def find(cls, rows: Sequence[FileRow], workspace: Workspace, trash: Trash) -> MovedTree | None:
        """What a call has moved or deleted; None if it has done something else, or that has changed since."""
        gone = {row.path: (row.before, row.before_mode) for row in rows if row.after == ABSENT != row.before}
        come = [row for row in rows if row.before == ABSENT != row.after and row.moved_from in gone]
        if not gone or len(gone) + len(come) < len(rows) or len(come) not in (0, len(gone)):
            return None
        target = min(gone, key=len)
        tops = [row for row in come if row.moved_from == target]
        source = tops[0].path if tops else trash.find({path: digest for path, (digest, _) in gone.items()})
        parents = tops[0].created_directories if tops else ()
        tree = cls(workspace, source, target, gone, parents, bool(tops))
        return tree if source and tree._is_as_it_was() else None

    @property
    def changes(self) -> list[tuple[str, How]]:
        """The paths that would be restored, and how."""
        restored: list[tuple[str, How]] = [(path, "created") for path in sorted(self.entries)]
        if self.in_workspace:
            restored += [(self.source + path[len(self.target) :], "deleted") for path in sorted(self.entries)]
        return restored

    def take_back(self) -> bool:
        """Rename it back; False if something has changed meanwhile, and nothing was done. Raises `OSError`."""
        if not self._is_as_it_was():
            return False
        try:
            with self._open_source() as (here, old), self._open(self.target, create=True) as (there, new):
                rename_entry(lambda: system_calls.rename_new(old, new, here, there), here, old)
        except (FileExistsError, ToolError):
            return False
        for directory in self.parents:
            with contextlib.suppress(OSError, ToolError), self._open(directory) as (above, name):
                os.rmdir(name, dir_fd=above)
        return True

    def _open(self, path: str, *, create: bool = False) -> AbstractContextManager[tuple[int, str]]:
        return self.workspace.parent(locate(self.workspace, path), create)

    @contextlib.contextmanager
    def _open_source(self) -> Iterator[tuple[int, str]]:
        if self.in_workspace:
            with self._open(self.source) as opened:
                yield opened
            return
        with closing_fd(os.open(os.path.dirname(self.source), system_calls.DIRECTORY)) as directory:
            yield directory, os.path.basename(self.source)

    def _is_as_it_was(self) -> bool:
        if os.path.lexists(self.target) or not all(is_within(self.target, path) for path in self.entries):
            return False
        entries = {self.target: read_state(self.source)}
        for above, directories, files in os.walk(self.source):
            for name in (*directories, *files):
                path = os.path.join(above, name)
                entries[self.target + path[len(self.source) :]] = read_state(path)
        return entries == self.entries
