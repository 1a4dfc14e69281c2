"""Undo and redo calls exactly, with the same locks and the same commit as any change.

Undone are contents, modes, moves, creations (with directories that were created for them, if they are empty) and
deletions. Lines that have changed again since stay, and are reported as a conflict. All files are restored at once or
none (only a file whose name a directory has now is restored in a second step). An undo is recorded like a call, so it
can be undone: that is a redo. Git, owners, times and extended attributes are not touched. A command that ran in a
draft is taken back as a whole where that is possible (`undo_drafts.py`).
"""

from __future__ import annotations

import contextlib
import os
import stat
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from handrail.errors import ChangedSince, ToolError, from_os
from handrail.files.commit import commit
from handrail.files.locks import Held, Locks, state_directory
from handrail.files.recovery import recover
from handrail.files.versions import Change, Saving, Stored, hash_bytes, load
from handrail.frozen import frozen
from handrail.journal import BeforeImage, JournalFailed, MovedEntry, Origin, PendingRecord, Record
from handrail.journal.call_changes import (
    find_last_change,
    iterate_changing_calls,
    list_half_undone,
    read_taken_back,
)
from handrail.journal.moved_trees import MovedTree, Trash
from handrail.journal.queries import CallRow, FileRow, JournalReader, describe_undo
from handrail.journal.records import ABSENT, DIRECTORY, LINK, REDO, UNDO, read_mode
from handrail.journal.store import SqliteJournal
from handrail.journal.undo_directories import DirectoryChanges, StateChanges
from handrail.journal.undo_drafts import How, KeptDraft, read_images
from handrail.journal.undo_merge import Overlap, apply_diff, take_back
from handrail.journal.undo_plan import State, UndoPlan, has_changed, plan_undo, restore_mode, select_files
from handrail.journal.undo_selection import UndoSelection, UnknownCall, choose
from handrail.model import Access, Call, Failure, FileAccess, Result, Verdict
from handrail.settings import Settings
from handrail.system_calls import closing_fd
from handrail.workspace import Root, WorkPath, Workspace, resolve_parent

__all__ = ["CannotUndo", "Restored", "UndoConflict", "UndoContext", "UndoReport", "UnknownCall", "open_undo", "undo"]

_ATTEMPTS = 5
_MOST_LOCKED = 1_000
_MOST_PASSED = 100
_REQUESTED = Verdict("allow", "undo", "requested by the user")
RESTORE = "Restore"
"""The name under which a restore is in the journal."""


class CannotUndo(RuntimeError):
    """There is no journal, or it cannot be opened, so that nothing can be undone."""

    def __init__(self, why: str, journal: str = "") -> None:
        super().__init__(f"{why}; nothing can be undone")
        self.journal = journal
        """Its path; empty if there is none."""
        self.why = why


class CannotRestore(LookupError):
    """The contents are not kept, or the path leads elsewhere now; the text says which."""


@frozen
class UndoContext:
    """The workspace, locks and limits that an undo uses; a new one for each."""

    workspace: Workspace
    locks: Locks
    saving: Saving = field(default_factory=Saving)
    most_bytes: int = 256 << 20
    origin: Origin = field(default_factory=Origin)
    act: str = field(default_factory=lambda: uuid.uuid4().hex)
    """What the records of one undo have in common: a redo takes back all of them."""


@contextlib.contextmanager
def open_undo(
    journal_path: str, workspace: str, roots: Sequence[Root], settings: Settings
) -> Iterator[tuple[SqliteJournal, UndoContext]]:
    """The journal and context of an undo that a person asks for outside of a session."""
    place = Workspace([Root(workspace), *roots])
    locks = Locks(os.path.join(state_directory(settings.state), "locks"), recover, settings.lock_seconds)
    saving = Saving(settings.durable, settings.hard_links)
    origin = Origin("undo", "", os.path.realpath(place.home))
    journal = SqliteJournal(
        journal_path,
        required=settings.journaling == "require",
        budget=settings.journal_bytes,
        most_calls=settings.journal_calls,
    )
    try:
        yield journal, UndoContext(place, locks, saving, settings.most_edit_bytes, origin)
    finally:
        journal.close()
        place.close()


@frozen
class Restored:
    path: str
    how: How

    @property
    def outcome(self) -> str:
        """What became of the file, as people read it."""
        return {"changed": "reverted", "created": "restored", "deleted": "deleted", "mode": "mode restored"}[self.how]


@frozen
class UndoConflict:
    """A file that was left alone."""

    path: str
    why: str


@frozen
class UndoReport:
    """The result of an undo."""

    calls: tuple[int, ...] = ()
    """The calls that were asked for, the latest first; of several, those that changed files or ran a command."""
    restored: tuple[Restored, ...] = ()
    conflicts: tuple[UndoConflict, ...] = ()
    missing: tuple[str, ...] = ()
    """Paths whose old contents are not kept, or no longer."""
    unknown: tuple[str, ...] = ()
    """Commands with further effects, which are unknown and not undone."""
    warning: str = ""
    """Why the undo itself could not be written down."""


def undo(
    journal: SqliteJournal,
    hands: UndoContext,
    *,
    dry_run: bool = False,
    **which: Any,
) -> UndoReport:
    """Take back what earlier calls did; ``which``: the fields of `UndoSelection`.

    ``dry_run``: report what would be done, and change nothing.

    Raises `UnknownCall` if there is no such call, `CannotUndo` if the journal cannot be opened, `JournalFailed` if it
    is required and cannot be written, and the errors of a commit. Then nothing is changed.
    """
    selection = UndoSelection(**which)
    if selection.file:
        file = resolve_parent(os.path.normpath(os.path.join(hands.origin.workspace, selection.file)))
        selection = replace(selection, file=file)
    with _open_reader(journal) as reader:
        hands.locks.sweep()  # what a killed call has begun is ended first: each file is the old one or the new one
        try:
            rows = choose(reader, hands.origin.workspace, selection)
        except UnknownCall as error:
            passed = _list_passed_over(reader, hands.origin.workspace, selection, 0)
            jobs = _list_jobs(reader, hands.origin.workspace, selection)
            why = [f"`handrail undo {seq}` undoes the job `{command}`" for command, seq in jobs.items() if seq]
            if unknown := ", ".join(command for command in passed if command not in jobs):
                why.append(f"these commands cannot be undone: {unknown}")
            raise UnknownCall("; ".join([str(error), *why])) from None
        if selection.file or (dry_run and len(rows) > 1):  # what one undo does to the next is known from the hashes
            return _undo_files(journal, reader, hands, rows, dry_run, selection.file)
        reports: list[UndoReport] = []
        left: list[CallRow] = []
        for row in rows:
            whole = _find_whole(journal, reader, hands, row)
            if whole and left:
                reports.append(_undo_files(journal, reader, hands, left, dry_run))
                left, whole = [], _find_whole(journal, reader, hands, row)
            report = _undo_whole(journal, reader, hands, row, whole, dry_run) if whole else None
            if report:
                reports.append(report)
            else:
                left.append(row)
        if left or not reports:
            reports.append(_undo_files(journal, reader, hands, left, dry_run))
        if selection.is_newest:
            passed = _list_passed_over(reader, hands.origin.workspace, selection, rows[0].seq + 1)
            reports.append(UndoReport(unknown=passed))
    return _join(reports)


def _list_passed_over(reader: JournalReader, workspace: str, which: UndoSelection, first: int) -> tuple[str, ...]:
    """The commands since call ``first`` of which an undo finds nothing to restore, though they may change files."""
    if not which.is_newest:
        return ()
    rows = iterate_changing_calls(reader, first=first, session=which.only, workspace=workspace)
    unknown = (command for row in islice(rows, _MOST_PASSED) for command in _list_unknown_effects(row, False))
    return tuple(dict.fromkeys(unknown))


def _list_jobs(reader: JournalReader, workspace: str, which: UndoSelection) -> dict[str, int]:
    """The commands of the newest background jobs, and the numbers by which they can be undone; 0 for one that is."""
    undone = read_taken_back(reader, workspace=workspace).undone
    rows = iterate_changing_calls(reader, session=which.only, workspace=workspace, jobs=True) if which.is_newest else ()
    newest = reversed(list(islice(rows, _MOST_PASSED)))
    return {row.command or "": 0 if row.seq in undone else row.seq for row in newest}


def _undo_files(
    journal: SqliteJournal,
    reader: JournalReader,
    hands: UndoContext,
    rows: list[CallRow],
    dry_run: bool,
    file: str = "",
) -> UndoReport:
    """Restore files from their old contents in the journal; ``file``: only that one, or those below it."""
    for attempt in range(_ATTEMPTS):
        try:
            return _Undo(journal, reader, hands, rows, file).run(dry_run)
        except ChangedSince as error:  # a program that knows nothing of our locks; look again
            if error.moment != "commit" or attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


def restore_file(journal: SqliteJournal, hands: UndoContext, path: str, digest: str) -> bool:
    """Give the file at ``path`` (absolute, links followed) the contents with this hash; False if it has them already.

    Raises `CannotRestore`, and what `undo` raises. Then nothing is changed.
    """
    with _open_reader(journal) as reader, hands.locks.hold([path]) as held:
        images = reader.read_images([digest])
        if not images:
            raise CannotRestore("these contents are not kept, or no longer")
        act = _Undo(journal, reader, hands, [], call=Call(RESTORE, {"file_path": path, "version": digest[:12]}))
        now = act._look(path)
        if act.conflicts:
            raise CannotRestore(act.conflicts[path])
        target = {path: State(digest, now.mode)}
        if now.digest != digest:
            act._carry_out(target, {path: now}, UndoPlan(target), images, held, False, ())
    return now.digest != digest


def _find_whole(
    journal: SqliteJournal, reader: JournalReader, hands: UndoContext, row: CallRow
) -> KeptDraft | MovedTree | None:
    """What can take back a call with the entries themselves; None if only their contents are left."""
    if row.draft:
        return KeptDraft.find(row.draft, hands.origin.workspace)
    files = list(filter(has_changed, reader.read_files(row.seq)))
    return MovedTree.find(files, hands.workspace, Trash(journal.path)) if not row.is_undo else None


def _undo_whole(
    journal: SqliteJournal,
    reader: JournalReader,
    hands: UndoContext,
    row: CallRow,
    whole: KeptDraft | MovedTree,
    dry_run: bool,
) -> UndoReport | None:
    """Take back a call as a whole; None if something has changed meanwhile, and nothing was done."""
    restored = tuple(Restored(path, how) for path, how in whole.changes)
    if dry_run:
        return UndoReport((row.seq,), restored, (), ())
    accesses = tuple(FileAccess("delete" if one.how == "deleted" else "write", one.path, one.path) for one in restored)
    # Half of what a command did is not to be done again: without all of it this undo cannot be undone.
    old = {} if row.doubted else {one.path: (one.before, one.before_mode) for one in reader.read_files(row.seq)}
    paths = list(old)
    with hands.locks.hold(paths[:_MOST_LOCKED]):
        images = [replace(image, after=old[image.path]) for image in read_images(paths)]
        call = _describe([row], hands.act, undone=[row.seq])
        with _recording(journal, PendingRecord(call, accesses, _REQUESTED, images, hands.origin)) as act:
            if not whole.take_back():
                act.fail("changed_since", f"call {row.seq} was not undone: its files have changed meanwhile")
    return UndoReport((row.seq,), restored, (), (), warning=act.warning) if act.record.result.ok else None


@dataclass(slots=True)
class _Act:
    """An undo, redo or restore that is being recorded."""

    record: Record
    warning: str = ""

    def fail(self, code: str, text: str) -> None:
        failed = Result(self.record.call.tool, "error", text, error=Failure(code, text))
        token = replace(self.record.token, withdrawn=True) if self.record.token else None
        self.record = replace(self.record, result=failed, token=token)


@contextlib.contextmanager
def _recording(journal: SqliteJournal, pending: PendingRecord) -> Iterator[_Act]:
    """Record what is done inside, and whether it failed."""
    call, token = pending.call, journal.begin(pending)
    done = Result(call.tool, "ok", describe_undo(call.tool, call.arguments))
    act = _Act(Record(call, pending.accesses, pending.verdict, origin=pending.origin, result=done, token=token))
    try:
        yield act
    except (OSError, ToolError) as error:
        refused = from_os(error, path=error.filename or "") if isinstance(error, OSError) else error
        act.fail(refused.code, str(refused))
        journal.record(act.record)
        raise refused from None
    act.warning = journal.record(act.record) or token.warning


def _find_obstacle(path: str, targets: Mapping[str, State]) -> str:
    """A path above another one at which something else than a directory is, and stays; empty if there is none."""
    above = path
    while (above := os.path.dirname(above)) != "/" and above not in targets:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return "" if stat.S_ISDIR(os.lstat(above).st_mode) else above
    return ""


def _join(reports: Sequence[UndoReport]) -> UndoReport:
    return UndoReport(
        calls=tuple(one for report in reports for one in report.calls),
        restored=tuple(one for report in reports for one in report.restored),
        conflicts=tuple(one for report in reports for one in report.conflicts),
        missing=tuple(one for report in reports for one in report.missing),
        unknown=tuple(one for report in reports for one in report.unknown),
        warning="; ".join(report.warning for report in reports if report.warning),
    )


def _open_reader(journal: SqliteJournal) -> JournalReader:
    try:
        return JournalReader(journal.path)
    except JournalFailed as error:
        # Where no file could be made, the reader only sees that there is none: the writer knows the reason.
        why = journal.failure or error.why
        raise CannotUndo(f"the journal cannot be opened: {why}", journal.path) from None


@dataclass(slots=True)
class _Undo:
    """One attempt."""

    journal: SqliteJournal
    reader: JournalReader
    hands: UndoContext
    rows: list[CallRow]
    file: str = ""
    call: Call | None = None
    """As what it is recorded, if it is no undo of calls."""
    paths: dict[str, WorkPath] = field(default_factory=dict)
    stored: dict[str, Stored] = field(default_factory=dict)
    conflicts: dict[str, str] = field(default_factory=dict)
    restored: list[Restored] = field(default_factory=list)
    warning: str = ""
    links: set[str] = field(default_factory=set)
    """Paths at which a call has found or left a link."""
    merged: dict[str, bytes] = field(default_factory=dict)
    """Contents that keep what was changed after the call, by hash."""
    folders: DirectoryChanges = field(init=False)

    def __post_init__(self) -> None:
        self.folders = DirectoryChanges(self.hands.workspace, self.paths)

    def run(self, dry: bool) -> UndoReport:
        files = [(row.seq, select_files(self.reader.read_files(row.seq), self.file)) for row in self.rows]
        named = sorted({one.path for _, current in files for one in current})
        rows = [one for _, current in files for one in current]
        self.links = {one.path for one in rows if LINK in f"{one.before} {one.after}"}
        with self.hands.locks.hold(named) as held:
            now = {path: self._look(path) for path in named}
            plan = plan_undo(files, now, list_half_undone(self.reader))
            overlaps = self._merge(files, now, plan)
            for path, seq in plan.blocked.items():
                why = self._explain_change(path, now[path].digest, seq)
                self.conflicts.setdefault(path, f"{why}{overlaps.get(path, '')}")
            for path in plan.created - now.keys():  # directories that were made for a file, and go with it
                now[path], plan.target[path] = self._look(path), State(ABSENT)
                if now[path].digest != DIRECTORY:
                    self.conflicts.pop(path, None)
                    now[path] = State(ABSENT)
            alone = self.conflicts.keys() - overlaps.keys()
            targets = {path: state for path, state in plan.target.items() if path not in alone}
            targets = {path: state for path, state in targets.items() if _differs(path, state, now[path], plan)}
            for path in [path for path, state in targets.items() if state.digest != ABSENT]:
                if obstacle := _find_obstacle(path, targets):
                    self.conflicts[path] = f"{obstacle} is no directory any more"
                    del targets[path]
            needed = {p: s.digest.removeprefix(LINK) for p, s in targets.items() if s.digest not in (ABSENT, DIRECTORY)}
            images = self.reader.read_images(list(needed.values())) | self.merged
            missing = [path for path, digest in needed.items() if digest not in images]
            for path in missing:
                del targets[path]
            self._carry_out(targets, now, plan, images, held, dry, [*self.conflicts, *missing])
        conflicts = tuple(UndoConflict(path, why) for path, why in sorted(self.conflicts.items()))
        calls = tuple(row.seq for row in self.rows)
        unknown = tuple(command for row in self.rows for command in _list_unknown_effects(row, row.seq in plan.drifted))
        missing += [path for row in self.rows for path in row.doubted if row.is_job]
        return UndoReport(calls, tuple(self.restored), conflicts, tuple(missing), unknown, self.warning)

    def _merge(
        self, files: Sequence[tuple[int, Sequence[FileRow]]], now: Mapping[str, State], plan: UndoPlan
    ) -> dict[str, str]:
        """Plan for files that have changed since; return the lines that stay, because those have changed again."""
        overlaps: dict[str, str] = {}
        moved = {name for _, rows in files for row in rows if row.moved_from for name in (row.path, row.moved_from)}
        for path in [path for path in plan.blocked if path not in self.conflicts and path not in moved]:
            changes = [(seq, row) for seq, rows in files for row in rows if row.path == path]
            result = self._take_back(changes, now[path])
            if result is not None:
                raw, left = result
                digest = hash_bytes(raw)
                self.merged[digest] = raw
                mode = now[path].mode
                for _, row in changes:
                    mode = restore_mode(row, mode)
                plan.target[path] = State(digest, mode)
                if left:
                    overlaps[path] = f", in these lines:{''.join(map(str, left))}"
                else:
                    del plan.blocked[path]
        known = set(plan.whole)
        plan.whole += (
            seq for seq, rows in files if seq not in known and not any(row.path in plan.blocked for row in rows)
        )
        return overlaps

    def _take_back(self, changes: Sequence[tuple[int, FileRow]], now: State) -> tuple[bytes, list[Overlap]] | None:
        """The contents of a file without these changes, the newest first, and what stays of them.

        None if they are not known, or no text.
        """
        states = (State(digest) for _, row in changes for digest in (row.before, row.after or ABSENT))
        if not (now.is_file and all(state.is_file for state in states)):
            return None
        current, left = self.stored[changes[0][1].path].raw, list[Overlap]()
        for seq, row in changes:
            images = self.reader.read_images([row.before, row.after or ""])
            before = images.get(row.before, b"\0")
            after = images.get(row.after or "") or self._rebuild(seq, row, before)
            if b"\0" in before + after + current:
                return None
            current, overlaps = take_back(after, before, current)
            left += overlaps
        return current, left

    def _rebuild(self, seq: int, row: FileRow, before: bytes) -> bytes:
        """What a call left, from its diff; a NUL if that does not say it."""
        call = self.reader.find_call(seq)
        after = apply_diff(before, call.diff) if call and call.diff else b""
        return after if hash_bytes(after) == row.after else b"\0"

    def _look(self, path: str) -> State:
        """Return the current state of a path."""
        try:
            link = self.folders.link_at(path) if path in self.links else None
            if link:
                self.paths[path] = link[0]
                return link[1]
            resolved = self.hands.workspace.resolve(path)
            if resolved.real != path:
                self.conflicts[path] = "a link now points to another place"
                return State("link")
            self.paths[path] = resolved
            standing = self.hands.workspace.stat(resolved)
            if standing is None:
                return State(ABSENT)
            if stat.S_ISDIR(standing.st_mode):
                return State(DIRECTORY, stat.S_IMODE(standing.st_mode))
            self.stored[path] = stored = load(self.hands.workspace, resolved, self.hands.most_bytes)
        except ToolError as error:
            self.conflicts[path] = str(error.facts.get("why") or error.code.replace("_", " "))
            return State("unreachable")
        return State(stored.version.digest or "", stat.S_IMODE(standing.st_mode))

    def _explain_change(self, path: str, digest: str, seq: int) -> str:
        later = find_last_change(self.reader, path, digest, seq)
        if digest == ABSENT and later is None:
            return f"deleted since call {seq}, not by a call"
        return f"changed since call {seq}, by call {later}" if later else f"changed since call {seq}, not by a call"

    def _carry_out(
        self,
        targets: Mapping[str, State],
        now: Mapping[str, State],
        plan: UndoPlan,
        images: Mapping[str, bytes],
        held: Held,
        dry: bool,
        left: Sequence[str],
    ) -> None:
        """Commit in three steps: remove obstacles; restore; restore what has the name of a removed directory."""
        clear = {path: State(ABSENT) for path in targets if _is_in_the_way(path, targets, now)}
        late = [p for p, s in targets.items() if now[p].digest == DIRECTORY and s.digest not in (ABSENT, DIRECTORY)]
        then = {path: State(ABSENT) if path in clear else state for path, state in now.items()}
        main = {p: State(ABSENT) if p in late else s for p, s in targets.items() if s != then[p]}
        batches = [
            StateChanges(now, clear),
            StateChanges(then, main),
            StateChanges(then, {path: targets[path] for path in late}),
        ]
        last = max((number for number, batch in enumerate(batches) if batch.wanted), default=0)
        for number, batch in enumerate(batches):
            changes, modes = [], {}
            others = set(batch.others())
            for path, state in batch.wanted.items():
                if state.digest != ABSENT or batch.now[path].digest != DIRECTORY:
                    self.restored.append(Restored(path, _classify(state, batch.now[path])))
                if state.digest != batch.now[path].digest and (path not in others or state.is_file):
                    changes.append(self._change(path, state, batch.now, plan, images))
                if batch.stays(path) or (path not in others and _needs_mode(state, batch.now[path])):
                    modes[path] = state.mode or 0
            pieces = self.folders.pieces(batch, images)
            if number == 2:  # the directories are gone: only what comes in their place is left to do
                pieces = [piece for piece in pieces if not piece.goes]
            if not dry and (changes or modes or pieces):
                self._commit(changes, modes, pieces, held, self._name_restored(plan, left) if number == last else {})

    def _name_restored(self, plan: UndoPlan, left: Sequence[str]) -> dict[str, list[int]]:
        """What is taken back when all is restored, besides what was ``left``: calls, or some files of a call."""
        if not self.file:
            return {} if left else {"undone": plan.whole}
        files = self.reader.read_files(self.rows[0].seq)
        wanted = [row for row in select_files(files, self.file) if has_changed(row) and row.path not in left]
        return {"places": [place for place, row in enumerate(files) if row in wanted]}

    def _change(
        self, path: str, state: State, now: Mapping[str, State], plan: UndoPlan, images: Mapping[str, bytes]
    ) -> Change:
        before = self.stored.get(path)
        if state.digest == ABSENT:
            return Change(self.paths[path], before, None)
        source = plan.origin.get(path, "")
        # The very file that was moved comes with all that belongs to it, unless a directory has its old name.
        moved = source in self.stored and plan.target[source].digest != now[source].digest
        moved = moved and before is None and now[path].digest != DIRECTORY
        keeps_mode = moved or (before is not None and state.mode == now[path].mode)
        origin, mode = self.stored[source] if moved else None, None if keeps_mode else state.mode
        return Change(self.paths[path], before, images[state.digest], origin, mode=mode)

    def _commit(
        self,
        changes: Sequence[Change],
        modes: Mapping[str, int],
        pieces: Sequence[MovedEntry],
        held: Held,
        restored: Mapping[str, list[int]],
    ) -> None:
        call = self.call or _describe(self.rows, self.hands.act, **restored)
        changed = {change.path.real for change in changes}
        only_mode = [
            BeforeImage(p, self.stored[p].raw, read_mode(p)) for p in modes if p in self.stored and p not in changed
        ]
        files: list[Change | BeforeImage | MovedEntry] = [*changes, *only_mode, *pieces]
        pending = PendingRecord(call, tuple(map(_touch, changes)), _REQUESTED, files, self.hands.origin)
        with _recording(self.journal, pending) as act:
            self.folders.unlink(pieces)
            if changes:
                commit(self.hands.workspace, changes, held, self.hands.saving)
                act.record = replace(act.record, changes=tuple(changes))
            gone = [p.path for p in pieces if p.goes and p.entry.kind == "directory" and p.path not in modes]
            self.folders.remove(gone, self.hands.saving.durable)
            self.folders.make(pieces, self.hands.saving.durable)
            for path, mode in modes.items():
                self._set_mode(path, mode)
        self.warning = act.warning or self.warning

    def _set_mode(self, path: str, mode: int) -> None:
        workspace = self.hands.workspace
        status = workspace.stat(self.paths[path])
        is_directory = status is not None and stat.S_ISDIR(status.st_mode)
        with closing_fd((workspace.open_directory if is_directory else workspace.open_file)(self.paths[path])) as fd:
            os.fchmod(fd, mode)


def _describe(rows: Sequence[CallRow], act: str, **restored: list[int]) -> Call:
    """An undo or redo, as it is in the journal: a redo takes back nothing but undos."""
    is_redo = all(row.is_undo and row.tool != REDO for row in rows)
    arguments: dict[str, Any] = {"calls": [row.seq for row in rows], "undone": [], **restored, "act": act}
    if is_redo:
        arguments["redone"] = sorted({number for row in rows for number in row.calls})
    return Call(REDO if is_redo else UNDO, arguments)


def _list_unknown_effects(row: CallRow, drifted: bool) -> list[str]:
    """Return the command of a call, unless all its changes are known, or it made none.

    ``drifted``: one of its files was changed after its end, perhaps by a process that it had left running.
    """
    from handrail.shell.effects.effects import find_effects  # slow to import, and only needed for commands

    if row.command is None or row.status == "denied" or row.is_job:
        return []
    if row.draft and not row.doubted:
        return []
    if drifted or row.doubted:
        return [row.command]
    return [] if find_effects(row.command).tier == "read_only" else [row.command]


def _differs(path: str, target: State, now: State, plan: UndoPlan) -> bool:
    """Whether there is anything to do; a directory goes only if calls have made it (and if nothing is left in it)."""
    return target != now and not (target.digest == ABSENT and now.digest == DIRECTORY and path not in plan.created)


def _is_in_the_way(path: str, targets: Mapping[str, State], now: Mapping[str, State]) -> bool:
    """Whether the kinds differ: a file or a link instead of a directory, a link instead of a file, or the reverse."""
    here, want = now[path], targets[path]
    if here.digest in (ABSENT, DIRECTORY):
        return False
    if want.digest != ABSENT:
        return want.digest == DIRECTORY or want.is_link != here.is_link or (here.is_link and want != here)
    return any(other.startswith(path + "/") and state.digest != ABSENT for other, state in targets.items())


def _needs_mode(target: State, now: State) -> bool:
    """Whether only the mode changes; a commit gives a file that is written its mode."""
    return target.digest == now.digest != ABSENT and target.mode not in (None, now.mode)


def _classify(target: State, now: State) -> How:
    if target.digest == now.digest:
        return "mode"
    if target.digest == ABSENT:
        return "deleted"
    return "created" if now.digest in (ABSENT, DIRECTORY) else "changed"


def _touch(change: Change) -> Access:
    real: Any = change.path.real
    return FileAccess("delete" if change.after is None else "write", real, real)
