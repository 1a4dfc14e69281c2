"""Move chosen changes of a draft into another draft, so that a part of them can be kept.

A repository and a database are chosen as a whole or not at all: half of them would be broken.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from handrail.drafts.changes import DraftChange
from handrail.drafts.compare import MARKS, is_being_written
from handrail.drafts.layout import DraftDirectory, copy_owner

DATABASE_PARTS = ("-wal", "-shm", "-journal")
"""Endings of the files that SQLite keeps beside a database."""


def find_unit(path: str) -> str:
    """The path that a change is kept with: of a repository or a database all parts have the same one."""
    parts = path.split("/")
    if ".git" in parts:
        return "/".join(parts[: parts.index(".git") + 1])
    for ending in DATABASE_PARTS:
        path = path.removesuffix(ending)
    return path


def choose(changes: Sequence[DraftChange], is_wanted: Callable[[str], bool]) -> list[DraftChange]:
    """The changes that are wanted, without those of a repository or database of which a part is not."""
    units: dict[str, list[DraftChange]] = defaultdict(list)
    for change in changes:
        units[find_unit(change.path)].append(change)
    wanted = {unit for unit, members in units.items() if all(is_wanted(member.path) for member in members)}
    return [change for change in changes if find_unit(change.path) in wanted]


def find_held_units(changes: Sequence[DraftChange], workspace: str) -> set[str]:
    """The units of which another program has a file open for writing. Its locks do not reach into a draft."""
    held = set[str]()
    for change in changes:
        unit = find_unit(change.path)
        names = {change.path, unit, *(unit + ending for ending in DATABASE_PARTS)}
        if unit not in held and any(_is_being_written(os.path.join(workspace, name)) for name in names):
            held.add(unit)
    return held


def _is_being_written(path: str) -> bool:
    try:
        return is_being_written(os.lstat(path), -1, path)
    except OSError:
        return False


def is_below(tops: Sequence[str], path: str) -> bool:
    """Whether a path is one of ``tops`` or lies below one; `.` is the workspace."""
    return any(top == "." or path == top or path.startswith(f"{top}/") for top in tops)


def move_changes(
    source: DraftDirectory,
    target: DraftDirectory,
    changes: Sequence[DraftChange],
    chosen: Sequence[DraftChange],
    contents: Mapping[str, bytes],
) -> Callable[[], None]:
    """Move the chosen changes from one draft into another, empty one; returns a function that moves them back.

    ``changes``: all changes of the source. A directory that is deleted goes only with everything in it. ``contents``:
    of files of which only a part is chosen; these stay in the source as they are.
    """
    mover = _Mover(source.upper, target.upper, source.info.workspace)
    left = {change.path for change in changes} - {change.path for change in chosen}
    new = [change.path for change in chosen if change.before is None and change.is_directory]
    try:
        for change in sorted(chosen, key=lambda one: one.path):
            if change.path in contents:
                mover.copy(change.path, contents[change.path])
            elif change.after is not None:
                mover.move(change)
            elif not (change.is_directory and any(path.startswith(f"{change.path}/") for path in left)):
                mover.delete(change.path)
        mover.copy_directory_metadata()
        mover.remove_moved_directories(new)
    except BaseException:
        mover.take_back()
        raise
    return mover.take_back


def replace_contents(draft: DraftDirectory, spare: DraftDirectory, contents: Mapping[str, bytes]) -> None:
    """Give changed files of a draft other contents, each at once; ``spare``: an empty draft to prepare them in."""
    mover = _Mover(draft.upper, spare.upper, draft.info.workspace)
    for path, raw in contents.items():
        mover.copy(path, raw)
        os.rename(os.path.join(spare.upper, path), os.path.join(draft.upper, path))


def write_contents(draft: DraftDirectory, contents: Mapping[str, bytes]) -> None:
    """Give files of the workspace other contents in a new draft, whatever has become of them; raises `OSError`."""
    mover = _Mover(draft.info.workspace, draft.upper, draft.info.workspace)
    for path, raw in contents.items():
        mover.write(path, raw)
    mover.copy_directory_metadata()


class _Mover:
    """Moves entries between two upper layers, under the same paths."""

    def __init__(self, source: str, target: str, workspace: str) -> None:
        self._source = source
        self._target = target
        self._workspace = workspace
        self._moved: list[str] = []
        self._new_directories: list[str] = []
        self._deleted: list[str] = []
        self._removed: list[str] = []

    def move(self, change: DraftChange) -> None:
        self._make_parents(change.path)
        if change.after and change.after.is_directory:
            self._make_directory(change.path)
            return
        os.rename(os.path.join(self._source, change.path), os.path.join(self._target, change.path))
        self._moved.append(change.path)

    def copy(self, path: str, raw: bytes) -> None:
        """Create the file in the target, with other contents than it has in the source."""
        self._make_parents(path)
        original, copy = os.path.join(self._source, path), os.path.join(self._target, path)
        with open(copy, "xb") as file:
            shutil.copystat(original, copy)
            copy_owner(os.stat(original), copy)
            file.write(raw)

    def write(self, path: str, raw: bytes) -> None:
        """Create the file in the target, which need not be in the source."""
        if os.path.isfile(os.path.join(self._source, path)):
            self.copy(path, raw)
            return
        self._make_parents(path)
        with open(os.path.join(self._target, path), "xb") as file:
            file.write(raw)

    def delete(self, path: str) -> None:
        if any(path.startswith(f"{above}/") for above in self._deleted):
            return
        self._make_parents(path)
        entry = os.path.join(self._source, path)
        if os.path.lexists(entry) and stat.S_ISCHR(os.lstat(entry).st_mode):
            os.rename(entry, os.path.join(self._target, path))
            self._moved.append(path)
        else:  # a directory above it was deleted or replaced
            os.mknod(os.path.join(self._target, path), stat.S_IFCHR, 0)
        self._deleted.append(path)

    def _make_parents(self, path: str) -> None:
        parts = path.split("/")[:-1]
        for end in range(1, len(parts) + 1):
            self._make_directory("/".join(parts[:end]))

    def _make_directory(self, path: str) -> None:
        with contextlib.suppress(FileExistsError):
            os.mkdir(os.path.join(self._target, path), 0o700)
            self._new_directories.append(path)

    def copy_directory_metadata(self) -> None:
        """Give new directories the mode, times and attributes that they have in the draft, the deepest first."""
        for path in (*reversed(self._new_directories), ""):
            place = next(one for one in (self._source, self._workspace) if os.path.isdir(os.path.join(one, path)))
            original, copy = os.path.join(place, path), os.path.join(self._target, path)
            shutil.copystat(original, copy)
            copy_owner(os.stat(original), copy)
            for name in os.listxattr(copy):
                if name.startswith(MARKS):
                    os.removexattr(copy, name)

    def remove_moved_directories(self, paths: Sequence[str]) -> None:
        """Delete created directories of the source of which nothing is left there."""
        for path in sorted(paths, reverse=True):
            with contextlib.suppress(OSError):
                os.rmdir(os.path.join(self._source, path))
                self._removed.append(path)

    def take_back(self) -> None:
        for path in reversed(self._removed):
            os.mkdir(os.path.join(self._source, path))
            shutil.copystat(os.path.join(self._target, path), os.path.join(self._source, path))
        for path in reversed(self._moved):
            os.rename(os.path.join(self._target, path), os.path.join(self._source, path))
