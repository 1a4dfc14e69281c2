"""Undo changes of directories and links, one by one, besides the commit of files."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from handrail.errors import ChangedSince, ToolError
from handrail.files.versions import SubtreeEntry, hash_bytes
from handrail.frozen import frozen
from handrail.journal import MovedEntry
from handrail.journal.records import ABSENT, DIRECTORY, LINK
from handrail.journal.undo_plan import State
from handrail.system_calls import closing_fd
from handrail.workspace import WorkPath, Workspace


@frozen
class StateChanges:
    """The changes of one step: the current and the wanted state of each path."""

    now: Mapping[str, State]
    wanted: Mapping[str, State]

    def others(self) -> list[str]:
        """The paths where a directory or a link goes or comes."""
        return [
            path for path in self.wanted if not (self._is_file(self.now[path]) and self._is_file(self.wanted[path]))
        ]

    def stays(self, path: str) -> bool:
        """Whether a directory only gets another mode."""
        return self.now[path].digest == self.wanted[path].digest == DIRECTORY

    def _is_file(self, state: State) -> bool:
        return state.is_file or state.digest == ABSENT


def locate(workspace: Workspace, path: str) -> WorkPath:
    """A path whose last part is no link to follow. Raises `ToolError` if the parts before have become one."""
    name, above = os.path.basename(path), workspace.resolve(os.path.dirname(path))
    if above.real != os.path.dirname(path):
        raise ChangedSince(path=path, moment="commit")
    return WorkPath(path, path, name if above.inner == "." else f"{above.inner}/{name}", above.root)


@dataclass(slots=True)
class DirectoryChanges:
    """Directories and links below a workspace."""

    workspace: Workspace
    paths: Mapping[str, WorkPath]
    targets: dict[str, bytes] = field(default_factory=dict)
    """The targets of the current links."""

    def link_at(self, path: str) -> tuple[WorkPath, State] | None:
        """The link at a path, which nobody follows; None if there is none."""
        try:
            link = locate(self.workspace, path)
            with self.workspace.parent(link) as (directory, last):
                standing = os.stat(last, dir_fd=directory, follow_symlinks=False)
                if not stat.S_ISLNK(standing.st_mode):
                    return None
                self.targets[path] = os.fsencode(os.readlink(last, dir_fd=directory))
        except (ToolError, OSError):
            return None
        return link, State(LINK + hash_bytes(self.targets[path]), stat.S_IMODE(standing.st_mode))

    def pieces(self, batch: StateChanges, images: Mapping[str, bytes]) -> list[MovedEntry]:
        """Return their records: removed entries, then new ones."""
        entries: list[MovedEntry] = []
        for path in batch.others():
            now, target = batch.now[path], batch.wanted[path]
            if now.digest == DIRECTORY or now.is_link:
                entries.append(MovedEntry(path, self._build_entry(now, self.targets.get(path, b"")), True, sure=False))
            if not batch.stays(path) and (target.digest == DIRECTORY or target.is_link):
                raw = images.get(target.digest.removeprefix(LINK), b"")
                entries.append(MovedEntry(path, self._build_entry(target, raw), False, sure=False))
        return entries

    def _build_entry(self, state: State, raw: bytes) -> SubtreeEntry:
        is_link = state.is_link
        return SubtreeEntry("", "link" if is_link else "directory", state.mode or 0o755, raw if is_link else b"")

    def unlink(self, pieces: Iterable[MovedEntry]) -> None:
        """Links that go, before any file comes in their place."""
        for piece in pieces:
            if piece.goes and piece.entry.kind == "link":
                with self.workspace.parent(self.paths[piece.path]) as (directory, name):
                    if os.fsencode(os.readlink(name, dir_fd=directory)) == piece.entry.raw:
                        os.unlink(name, dir_fd=directory)

    def remove(self, paths: Iterable[str], durable: bool) -> None:
        """Directories that go: the deepest first, and only those that are empty."""
        for path in sorted(paths, key=len, reverse=True):
            with contextlib.suppress(ToolError, OSError):  # not empty, or gone
                resolved = self.workspace.resolve(path)
                if resolved.real == path:
                    with self.workspace.parent(resolved, durable=durable) as (directory, name):
                        os.rmdir(name, dir_fd=directory)

    def make(self, pieces: Iterable[MovedEntry], durable: bool) -> None:
        """Directories and links that come. A mode that forbids writing is given when all is in place."""
        coming = sorted((piece for piece in pieces if not piece.goes), key=lambda piece: len(piece.path))
        for piece in coming:
            with self.workspace.parent(self.paths[piece.path], True, durable) as (directory, name):
                if piece.entry.kind == "link":
                    os.symlink(os.fsdecode(piece.entry.raw), name, dir_fd=directory)
                else:
                    with contextlib.suppress(FileExistsError):  # made for a file in it
                        os.mkdir(name, dir_fd=directory)
        for piece in reversed(coming):
            if piece.entry.kind == "directory":
                with closing_fd(self.workspace.open_directory(self.paths[piece.path])) as fd:
                    os.fchmod(fd, piece.entry.mode)
