"""What a running tool is handed: the files it declared and no others, read-before-write, and changes that are staged.

A `Guard` lives for one call. Tools ask it for files by the names in their arguments; a name that the call did not
declare is a fault of the tool and fails closed.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from handrail.dialects import Rules
from handrail.errors import BinaryFile, CannotEncode, ChangedSince, IsDirectory, NotRegular, NotSeen, SameFile
from handrail.files.commit import Change
from handrail.files.pages import Indexes, TextFile
from handrail.files.stored import Version, load
from handrail.search.tree import Sight, Tree
from handrail.search.walk import Listings
from handrail.settings import Settings
from handrail.text.codec import UTF8
from handrail.text.diff import Hunk, hunks
from handrail.text.document import NEW, Document, Splice, applied, document
from handrail.text.shown import shown
from handrail.tool import Loaded, Staged
from handrail.tracker import Tracker, moved_lines, stamp_of
from handrail.workspace import WorkPath, Workspace

if TYPE_CHECKING:
    from handrail.shell.terminal import Terminal


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
        listings: Listings,
        sight: Sight,
        terminal: Callable[[], Terminal],
        call_id: str = "",
        cancel: threading.Event | None = None,
        dry: bool = False,
    ) -> None:
        self.limits = limits
        self.call_id = call_id
        self.cancel = cancel
        self.changes: list[Change] = []
        self.hunks: list[list[Hunk]] = []
        self._workspace = workspace
        self._tracker = tracker
        self._indexes = indexes
        self._settings = settings
        self._rules = rules
        self._paths = paths
        self._listings = listings
        self._sight = sight
        self._terminal = terminal
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

    @property
    def terminal(self) -> Terminal:
        if self._dry:  # a preview must never run anything
            raise AssertionError("a preview has no terminal")
        return self._terminal()

    def where(self, named: str) -> str:
        path = self._paths[named]
        os.close(self._workspace.open_directory(path))
        return path.real

    def watch(self) -> Callable[[], list[str]]:
        before = self._tracker.stamps()
        home = os.path.realpath(self._workspace.home)

        def changed() -> list[str]:
            return [shown(os.path.relpath(path, home)) for path, was in before.items() if stamp_of(path) != was]

        return changed

    def tree(self, named: str) -> Tree:
        return Tree(self._workspace, self._paths[named], self._listings, self._sight)

    def saw(self, file: TextFile, first: int = 0, last: int = 0) -> None:
        if not self._dry:  # what only a preview looked at, the model has not seen
            self._tracker.saw(file.path.real, file.version, first, last, file.raw)

    def moved(self, file: TextFile) -> bool:
        seen = self._tracker.look(file.path.real, file.version)
        return seen is not None and not seen.version.same_bytes(file.version)

    def exists(self, named: str) -> bool:
        found = self._workspace.stat(self._paths[named])
        if found and stat.S_ISDIR(found.st_mode):
            raise IsDirectory(path=named)
        return found is not None

    def load(self, named: str, *, whole: bool = False, unseen: bool = False) -> Loaded:
        path = self._paths[named]
        stored = load(self._workspace, path, self._settings.most_edit_bytes)
        moved = None if unseen else self._moved(path, stored.version, stored.raw)
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
        text = loaded.document if loaded else NEW
        after, found = _spliced(text, splices), hunks(text.text, splices)
        changes = loaded is None or after != loaded.stored.raw
        if changes:
            self._add(Change(self._paths[named], loaded.stored if loaded else None, after), found)
        return Staged(changes, found)

    def remove(self, named: str, loaded: Loaded) -> Staged:
        path, text = self._itself(named), loaded.document.text
        found = hunks(text, [Splice(0, len(text), "")] if text else [])
        self._add(Change(path, loaded.stored, None), found)
        return Staged(True, found)

    def move(
        self, named: str, target: str, loaded: Loaded, splices: Sequence[Splice], over: Loaded | None = None
    ) -> Staged:
        path, source = self._paths[target], self._itself(named)
        if path.real == source.real:
            raise SameFile(path=named, other=target)
        after = _spliced(loaded.document, splices) if splices else loaded.stored.raw  # which may be binary
        text = applied(loaded.document.text, splices)
        # The preview has the new file in full: whoever is asked sees all that will stand there.
        whole = hunks("", [Splice(0, 0, text)] if text else [])
        self._add(Change(path, over.stored if over else None, after, loaded.stored), whole)
        self.remove(named, loaded)
        return Staged(True, hunks(loaded.document.text, splices))

    def _add(self, change: Change, found: list[Hunk]) -> None:
        for other in self.changes:
            if other.path.real == change.path.real:  # one file under two names
                raise SameFile(path=change.path.named, other=other.path.named)
        self.changes.append(change)
        self.hunks.append(found)

    def _itself(self, named: str) -> WorkPath:
        """A path that is to vanish: a link stands for another file there, which nobody has named."""
        path = self._paths[named]
        parent = self._workspace.resolve(os.path.dirname(named.rstrip("/")) or ".")
        if os.path.join(parent.real, os.path.basename(named.rstrip("/"))) != path.real:
            raise NotRegular(path=named, kind="a link")
        return path


def _spliced(text: Document, splices: Sequence[Splice]) -> bytes:
    if text.codec.unit == 1 and any("\0" in splice.new for splice in splices):
        raise CannotEncode(encoding="text", char="NUL", code="U+0000", line=1)  # the file would be binary afterwards
    return text.spliced(splices)
