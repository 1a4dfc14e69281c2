"""What a running tool is handed: the files it declared and no others, read-before-write, and changes that are staged.

A `Guard` lives for one call. Tools ask it for files by the names in their arguments; a name that the call did not
declare is a fault of the tool and fails closed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from typing import Any

from handrail.dialects import Rules
from handrail.errors import BinaryFile, CannotEncode, ChangedSince, IsDirectory, NotSeen
from handrail.files.commit import Change
from handrail.files.pages import Indexes, TextFile
from handrail.files.stored import Version, load
from handrail.settings import Settings
from handrail.text.codec import UTF8
from handrail.text.diff import Hunk, hunks
from handrail.text.document import NEW, Document, Splice, document
from handrail.tool import Loaded, Staged
from handrail.tracker import Tracker, moved_lines
from handrail.workspace import WorkPath, Workspace


class Guard:
    """The `Context` of one call."""

    def __init__(
        self,
        workspace: Workspace,
        tracker: Tracker,
        indexes: Indexes,
        settings: Settings,
        rules: Rules,
        limits: Any,
        paths: Mapping[str, WorkPath],
        dry: bool = False,
    ) -> None:
        self.limits = limits
        self.changes: list[Change] = []
        self.hunks: list[list[Hunk]] = []
        self._workspace = workspace
        self._tracker = tracker
        self._indexes = indexes
        self._settings = settings
        self._rules = rules
        self._paths = paths
        self._dry = dry
        self._open: list[int] = []

    def close(self) -> None:
        for fd in self._open:
            os.close(fd)
        self._open.clear()

    def open(self, named: str) -> TextFile:
        path = self._paths[named]
        fd = self._workspace.open_file(path)
        self._open.append(fd)
        return TextFile(path, fd, self._indexes, self._settings.legacy_encoding, self._settings.read_seconds)

    def saw(self, file: TextFile, first: int = 0, last: int = 0) -> None:
        if not self._dry:  # what only a preview looked at, the model has not seen
            self._tracker.saw(file.path.real, file.version, first, last, file.raw)

    def exists(self, named: str) -> bool:
        found = self._workspace.stat(self._paths[named])
        if found and stat.S_ISDIR(found.st_mode):
            raise IsDirectory(path=named)
        return found is not None

    def load(self, named: str, *, whole: bool = False) -> Loaded:
        path = self._paths[named]
        stored = load(self._workspace, path, self._settings.most_edit_bytes)
        moved = self._moved(path, stored.version, stored.raw)
        if moved is not None and (whole or self._rules.stale == "mtime"):
            raise ChangedSince(path=named, moved=moved)
        try:
            text = document(stored.raw, self._settings.legacy_encoding)
        except BinaryFile as error:
            if not whole:
                raise BinaryFile(path=named, size=len(stored.raw), **error.facts) from None
            text = Document(b"", UTF8)  # overwritten knowingly: it was looked at, and nothing of it is kept
        return Loaded(stored, text, moved)

    def _moved(self, path: WorkPath, now: Version, raw: bytes) -> str | None:
        """What changed since the file was seen, by the dialect's rule; None if nothing did. Raises `NotSeen`."""
        seen = self._tracker.look(path.real, now)
        if seen is None:
            if not self._rules.read_before_write:
                return None
            raise NotSeen(path=path.named)
        same = seen.version.same_bytes(now)
        if self._rules.stale == "mtime":
            same = same and seen.version.mtime_ns == now.mtime_ns
        return None if same else moved_lines(seen.raw, raw)

    def stage(self, named: str, loaded: Loaded | None, splices: Sequence[Splice]) -> Staged:
        path = self._paths[named]
        text = loaded.document if loaded else NEW
        if text.codec.unit == 1 and any("\0" in splice.new for splice in splices):
            raise CannotEncode(
                encoding="text", char="NUL", code="U+0000", line=1
            )  # the file would be binary afterwards
        after = text.spliced(splices)
        found = hunks(text.text, splices)
        changes = loaded is None or after != loaded.stored.raw
        if changes:
            self.changes.append(Change(path, loaded.stored if loaded else None, after))
            self.hunks.append(found)
        return Staged(changes, found)
