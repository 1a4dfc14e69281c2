"""The context of a running tool: the files it declared and no others, read-before-write, and staged changes.

A `ToolContext` lives for one call. Tools ask it for files by the names in their arguments; a name that the call did
not declare is a fault of the tool and fails closed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from handrail.errors import (
    BinaryFile,
    CannotEncode,
    ChangedSince,
    IsDirectory,
    NotDirectory,
    NotRegular,
    NotSeen,
    PermissionDenied,
    SameFile,
    ToolError,
)
from handrail.files.pages import TextFile
from handrail.files.subtrees import describe_subtree, is_same_disk, require_free, require_movable, scan_subtree
from handrail.files.versions import Change, Stored, Subtree, Version, load
from handrail.pipeline.call_state import Approved, Judged, Proposed, StagedChanges
from handrail.pipeline.callers_loop import wait_for
from handrail.pipeline.command_context import CallCommands
from handrail.pipeline.events import ToolProgress
from handrail.pipeline.services import Services
from handrail.text import lines
from handrail.text.diff import compute_hunks
from handrail.text.display import escape
from handrail.text.document import NEW, UTF8, Document, Splice, apply_splices, decode_document
from handrail.tools.tool import CommandDraft, Loaded, RecalledTags, Staged, UndoneFile
from handrail.tracker import find_changed_lines
from handrail.workspace import WorkPath, Workspace

if TYPE_CHECKING:
    from handrail.pipeline.options import UndoOptions
    from handrail.search.tree import SearchTree
    from handrail.text.diff import ChangedLines, Hunk
    from handrail.text.line_tags import ShownTags

T = TypeVar("T")
_MOST_SHOWN = 20
"""Lines of the current text in a conflict."""


class ToolContext:
    """The `Context` of one call."""

    def __init__(
        self,
        services: Services,
        judged: Judged,
        approved: Approved | None = None,
        draft: CommandDraft | None = None,
    ) -> None:
        """Without ``approved`` it is for a preview, which runs no command."""
        self.limits = judged.parsed.limits
        self.call_id = judged.call.id
        self.cancel = judged.cancel if approved else None
        self._command: CallCommands | None = None
        self._judged, self._approved, self._draft = judged, approved, draft
        self.staging = Staging(services.workspace, judged.paths)
        self._choice = approved.consent.choice if approved and approved.consent else None
        self._dry = approved is None
        self.subtrees = Subtrees(self, self.staging, services)
        self.tags = LineTags(self.staging, services, keeps=not self._dry, certain=not self._choice)
        self._services = services
        self._workspace = services.workspace
        self._tracker = services.tracker
        self._writes_before = services.tracker.writes
        self._settings = services.settings
        self._rules = services.dialect.rules
        self._paths = judged.paths
        self._open: list[int] = []
        self._received = judged.received

    @property
    def command(self) -> CallCommands:
        if self._command is None:
            self._command = CallCommands(
                self._services, self._judged, self._approved, self._draft, self.report_progress
            )
        return self._command

    def close(self) -> None:
        if self._command:
            self._command.close()
        for fd in self._open:
            os.close(fd)
        self._open.clear()

    def open(self, named: str) -> TextFile:
        path = self._paths[named]
        return self._read_file(path, self._workspace.open_file(path))

    def _read_file(self, path: WorkPath, fd: int) -> TextFile:
        self._open.append(fd)
        settings = self._settings
        compute_hash = partial(self._tracker.compute_hash, path.real)
        return TextFile(path, fd, self._services.indexes, settings.legacy_encoding, settings.read_seconds, compute_hash)

    def is_sent_again(self) -> bool:
        return self._services.refused.has(self._received.call)

    def wait_for(self, awaitable: Awaitable[T]) -> T:
        return wait_for(awaitable, self.cancel)

    def report_progress(self, message: str, done: float | None = None, total: float | None = None) -> None:
        services, received = self._services, self._received
        if not self._dry and received.is_heard(services.on_event):
            event = ToolProgress(received.call, services.hide(message), received.clock.seconds, done, total)
            services.events.send(event, received.on_event)

    def real(self, named: str) -> str:
        return self._paths[named].real

    def is_instead(self, named: str) -> bool:
        return self._paths[named].named != named

    def resolve_directory(self, named: str) -> str:
        path = self._paths[named]
        status = self._workspace.stat(path)
        if status and not stat.S_ISDIR(status.st_mode):
            raise NotDirectory(path=named)
        os.close(self._workspace.open_directory(path))
        return path.real

    def watch(self) -> Callable[[], list[str]]:
        find_changed = self._tracker.watch()
        home = os.path.realpath(self._workspace.home)
        return lambda: [escape(os.path.relpath(path, home)) for path in find_changed()]

    def tree(self, named: str) -> SearchTree:
        return self._services.search.tree(self._paths[named])

    def mark_seen(self, file: TextFile, first: int = 0, last: int = 0) -> None:
        if not self._dry:  # what only a preview looked at, the model has not seen
            self._tracker.record_seen(file.path.real, file.version, first, last, file.raw, self._writes_before)

    def changed_since_read(self, file: TextFile) -> bool:
        seen = self._tracker.look(file.path.real, file.version)
        return seen is not None and not seen.version.same_bytes(file.version)

    def open_result(self, tree: SearchTree, inner: str) -> TextFile | None:
        real = tree.real(inner)
        try:
            path = self._workspace.resolve(real)
            if path.real != real or (tree.sight.readable and not tree.sight.readable(real)):
                return None
            fd = self._workspace.open_file(path)
        except (ToolError, OSError):
            return None
        return self._read_file(path, fd)

    def undo(self, file: str | None, *, dry_run: bool = False) -> tuple[Sequence[UndoneFile], str]:
        from handrail.journal.undo import CannotUndo, UnknownCall  # slow to import

        try:
            which: UndoOptions = {"dry_run": dry_run or self._dry}
            if file:
                which["file"] = file
            report = self._services.undo(**which)
        except (UnknownCall, CannotUndo) as error:
            return (), escape(str(error))
        left = [(one.path, escape(one.why)) for one in report.conflicts]
        left += [(path, "its old contents are not kept") for path in report.missing]
        files = [UndoneFile(one.path, one.outcome) for one in report.restored]
        files += [UndoneFile(path, "left alone", why) for path, why in left]
        home = os.path.realpath(self._workspace.home)
        return [replace(one, path=escape(os.path.relpath(one.path, home))) for one in files], ""

    def exists(self, named: str) -> bool:
        status = self._workspace.stat(self._paths[named])
        if status and stat.S_ISDIR(status.st_mode):
            raise IsDirectory(path=named)
        return status is not None

    def load(self, named: str, *, whole: bool = False, unseen: bool = False, quoted: Sequence[str] = ()) -> Loaded:
        path = self._paths[named]
        try:
            compute_hash = partial(self._tracker.compute_hash, path.real)
            stored = load(self._workspace, path, self._settings.most_edit_bytes, compute_hash)
        except ToolError:
            if self._rules.seen_first and not (unseen or self._tracker.knows(path.real)):
                raise NotSeen(path=named) from None
            raise
        unread = not unseen and self._rules.read_before_write and not self._tracker.look(path.real, stored.version)
        if unread:
            self._require_quoted(named, stored.raw, quoted)
            self.staging.unread.add(path.real)
        changed = None if unseen or unread else self._find_changes(path, stored.version, stored.raw)
        moved = changed.describe() if changed else None
        if moved is not None and (whole or self._rules.stale == "mtime"):
            raise ChangedSince(path=named, moved=moved)
        try:
            text = decode_document(stored.raw, self._settings.legacy_encoding)
        except BinaryFile as error:
            if not whole:
                error.path = named
                raise
            text = Document(b"", UTF8)  # overwritten knowingly: it was looked at, and nothing of it is kept
        return Loaded(stored, text, moved, changed, unread)

    def _require_quoted(self, named: str, raw: bytes, quoted: Sequence[str]) -> None:
        """Raise `NotSeen` unless the dialect allows changes of unread files, and ``quoted`` proves what is changed."""
        from handrail.text.matching.find import quotes_lines  # slow to import, and only needed for unread files

        quotable = self._rules.unread_lines and bool(quoted)
        try:
            text = decode_document(raw, self._settings.legacy_encoding).text if quotable else ""
        except BinaryFile:
            quotable = False
        if not quotable or not all(quotes_lines(text, old) for old in quoted):
            raise NotSeen(path=named, quotable=quotable)

    def _find_changes(self, path: WorkPath, now: Version, raw: bytes) -> ChangedLines | None:
        """Return the lines that changed since the file was seen; None if there are none."""
        seen = self._tracker.look(path.real, now)
        if seen is None:
            return None
        same = seen.version.same_bytes(now)
        if self._rules.stale == "mtime":
            same = same and seen.version.mtime_ns == now.mtime_ns
        return None if same else find_changed_lines(seen.raw, raw)

    def stage(self, named: str, loaded: Loaded | None, splices: Sequence[Splice]) -> Staged:
        text = loaded.document if loaded else NEW
        if loaded:
            _require_writable(self._workspace, self._paths[named])
        if loaded and loaded.changed and self._rules.read_before_write:
            _require_unchanged(named, loaded, loaded.changed, splices)
        after, hunks = _apply_splices(text, splices), _compute_hunks(text.text, splices)
        if loaded and after == loaded.stored.raw:
            return Staged(False, hunks)
        raw = loaded.stored.raw if loaded else None
        whole = apply_splices(text.text, splices) if self._dry else ""  # only a person who is asked may edit it
        self.staging.proposed.append(Proposed(named, raw, after, hunks, whole, loaded is not None))
        if self._choice:
            splices = self._choice.of(named, text.text, splices)
            after, hunks = _apply_splices(text, splices), _compute_hunks(text.text, splices)
            if after == raw:
                return Staged(False, hunks)
        self.staging.add(Change(self._paths[named], loaded.stored if loaded else None, after), hunks)
        return Staged(True, hunks)

    def stage_bytes(self, named: str, loaded: Loaded | None, raw: bytes) -> Staged:
        if loaded:
            _require_writable(self._workspace, self._paths[named])
            if raw == loaded.stored.raw:
                return Staged(False, [])
        before = loaded.stored.raw if loaded else None
        was = f", before {len(before)} bytes" if before is not None else ""
        description = f"{escape(named)}: {len(raw)} bytes{was}\n"
        self.staging.unread.add(self._paths[named].real)
        self.staging.proposed.append(Proposed(named, before, raw, [], description=description))
        stored = loaded.stored if loaded else None
        self.staging.add(Change(self._paths[named], stored, raw, preview=description), [])
        return Staged(True, [])

    def remove(self, named: str, loaded: Loaded) -> Staged:
        path, text = self.staging.resolve_link_itself(named), loaded.document.text
        hunks = _compute_hunks(text, [Splice(0, len(text), "")] if text else [])
        self.staging.proposed.append(Proposed(named, loaded.stored.raw, None, hunks))
        self.staging.add(Change(path, loaded.stored, None), hunks)
        return Staged(True, hunks)

    def move(
        self, named: str, target: str, loaded: Loaded, splices: Sequence[Splice], over: Loaded | None = None
    ) -> Staged:
        path, source = self._paths[target], self.staging.resolve_link_itself(named)
        if path.real == source.real:
            raise SameFile(path=named, other=target)
        after = _apply_splices(loaded.document, splices) if splices else loaded.stored.raw  # which may be binary
        text = apply_splices(loaded.document.text, splices)
        # The preview has the new file in full: whoever is asked sees all that will stand there.
        whole = _compute_hunks("", [Splice(0, 0, text)] if text else [])
        self.staging.proposed.append(Proposed(target, over.stored.raw if over else None, after, whole))
        self.staging.add(Change(path, over.stored if over else None, after, loaded.stored), whole)
        self.remove(named, loaded)
        return Staged(True, _compute_hunks(loaded.document.text, splices))


class Staging:
    """The changes of one call, in the order in which the tool asked for them."""

    def __init__(self, workspace: Workspace, paths: Mapping[str, WorkPath]) -> None:
        self.paths = paths
        self.changes: list[Change] = []
        self.hunks: list[list[Hunk]] = []
        self.proposed: list[Proposed] = []
        self.unread: set[str] = set()
        self.tags: dict[str, ShownTags] = {}
        self._workspace = workspace

    @property
    def staged(self) -> StagedChanges:
        return StagedChanges(self.changes, self.hunks, self.proposed, self.unread, self.tags)

    def add(self, change: Change, hunks: list[Hunk]) -> None:
        for other in self.changes:
            if other.path.real == change.path.real:  # one file under two names
                raise SameFile(path=change.path.named, other=other.path.named)
        self.changes.append(change)
        self.hunks.append(hunks)

    def resolve_link_itself(self, named: str) -> WorkPath:
        """Resolve a path to delete: a link itself, not its target."""
        path = self.paths[named]
        parent = self._workspace.resolve_below_slash(os.path.dirname(named.rstrip("/")) or ".")
        if os.path.join(parent.real, os.path.basename(named.rstrip("/"))) != path.real:
            raise NotRegular(path=named, kind="a link")
        return path


class LineTags:
    """The `TagContext` of one call."""

    def __init__(self, staging: Staging, services: Services, *, keeps: bool, certain: bool) -> None:
        """``keeps``: not for a preview. ``certain``: whether the whole change is made as the tool staged it."""
        self._staging = staging
        self._services = services
        self._keeps = keeps
        self._certain = certain

    def show(self, file: TextFile | Stored, first: int, last: int) -> None:
        if self._keeps:
            self._services.tracker.record_tags(file.path.real, file.version, first, last, file.raw)

    def recall(self, loaded: Loaded) -> RecalledTags | None:
        stored = loaded.stored
        known = self._services.tracker.look_up_tags(stored.path.real)
        if known is None:
            return None
        if known.version.same_bytes(stored.version):
            return RecalledTags(known.tags)
        try:
            legacy = self._services.settings.legacy_encoding
            before = decode_document(known.raw, legacy).text if known.raw is not None else None
        except BinaryFile:
            before = None
        return RecalledTags(known.tags, changed=True, before=before)

    def keep(self, loaded: Loaded, tags: ShownTags) -> None:
        # A person may have left out a part of the change: then no tag is certain.
        self._staging.tags[loaded.stored.path.real] = tags if self._certain else type(tags)()


class Subtrees:
    """The `SubtreeContext` of one call."""

    def __init__(self, context: ToolContext, staging: Staging, services: Services) -> None:
        self._context = context
        self._staging = staging
        self._workspace = services.workspace
        self._settings = services.settings

    def is_link(self, named: str) -> bool:
        return os.path.islink(self._staging.paths[named].real)

    def read(self, named: str) -> Subtree:
        require_movable(self._workspace, self._staging.paths[named])
        path = self._staging.resolve_link_itself(named)
        split = self._settings.hard_links != "refuse"
        return scan_subtree(self._workspace, path, self._settings.most_edit_bytes, split=split)

    def stage(self, named: str, subtree: Subtree, to: str | None = None) -> None:
        base = named.rstrip("/")
        inside = (f"{base}/{entry.inner}" for entry in subtree.entries if entry.inner and entry.kind != "link")
        if any(name not in self._staging.paths for name in inside):  # came since the call was judged
            raise ChangedSince(path=named, moment="commit")
        if to is not None:
            self._carry(named, subtree, to)
        elif subtree.is_directory or subtree.is_link:
            preview = describe_subtree(subtree, named)
            self._staging.proposed.append(Proposed(named, subtree.listing(), None, [], description=preview))
            gone = Stored(subtree.path, b"", subtree.version)
            self._staging.add(Change(subtree.path, gone, None, subtree=subtree, keep=True, preview=preview), [])
        else:
            self._context.remove(named, self._context.load(named, whole=True, unseen=True))
            # A binary or empty file has no lines to show.
            preview = "" if self._staging.hunks[-1] else describe_subtree(subtree, named)
            self._staging.changes[-1] = replace(self._staging.changes[-1], keep=True, preview=preview)
            self._staging.proposed[-1] = replace(self._staging.proposed[-1], description=preview)

    def _carry(self, named: str, subtree: Subtree, to: str) -> None:
        target = self._staging.paths[to]
        require_free(self._workspace, subtree, target)
        if not is_same_disk(subtree, target):
            self._context.move(named, to, self._context.load(named, whole=True, unseen=True), [])
            return
        preview = describe_subtree(subtree, named, to)
        self._staging.proposed.append(Proposed(named, subtree.listing(), None, [], description=preview))
        moved = Stored(subtree.path, b"", subtree.version)
        self._staging.add(Change(target, None, None, moved, subtree=subtree, preview=preview), [])


def _require_writable(workspace: Workspace, path: WorkPath) -> None:
    """Refuse a file that nobody may write, also to root, for whom the system makes an exception."""
    status = workspace.stat(path)
    if status and not status.st_mode & 0o222:
        mode = f"{stat.S_IMODE(status.st_mode):03o}"
        raise PermissionDenied(path=path.named, why=f"the file is read-only (mode {mode}); change its mode first")


def _require_unchanged(named: str, loaded: Loaded, changed: ChangedLines, splices: Sequence[Splice]) -> None:
    """Raise `ChangedSince` if the change replaces lines that have changed since the model saw the file."""
    text = loaded.document.text
    for splice in splices:
        first, last = (lines.count_ends(text, 0, at) + 1 for at in (splice.start, max(splice.start, splice.end - 1)))
        if splice.end > splice.start and changed.reach(first, last):
            rows = lines.split(text)[first - 1 : min(last, first + _MOST_SHOWN - 1)]
            raise ChangedSince(path=named, moved=loaded.described_changes or "", current="".join(rows).rstrip("\r\n"))


def _compute_hunks(text: str, splices: Sequence[Splice]) -> list[Hunk]:
    return compute_hunks(text, splices)


def _apply_splices(text: Document, splices: Sequence[Splice]) -> bytes:
    if text.codec.unit == 1 and any("\0" in splice.new for splice in splices):
        raise CannotEncode(
            encoding="text", char="NUL", codepoint="U+0000", line=1
        )  # the file would be binary afterwards
    return text.splice(splices)
