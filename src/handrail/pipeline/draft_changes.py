"""The changes of a command in a draft, as lines to read, accesses to judge, and before-images for undo."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from handrail.drafts.changes import (
    MOST_COMPARED_BYTES,
    ChangeReader,
    DraftChange,
    FileSummary,
    How,
    LineDiff,
    count_changes,
    describe_failure,
)
from handrail.drafts.compare import Comparison, compare
from handrail.drafts.foreign_files import adopt_foreign_copies
from handrail.drafts.hidden_paths import spare_hidden
from handrail.drafts.keep import DraftConflict, keep
from handrail.drafts.layout import is_disk_full, read_clock, remove_temporaries, remove_tree
from handrail.drafts.split import choose, find_held_units, find_unit, is_below, move_changes, replace_contents
from handrail.drafts.store import DraftStore, OpenDraft
from handrail.drafts.three_way import BaseSaver
from handrail.errors import Denied, NeedsApproval
from handrail.frozen import frozen
from handrail.journal import BeforeImage, Journal, MovedEntry, Origin, PendingRecord, Record
from handrail.model import Access, Call, CommandAccess, Decision, Failure, FileAccess, Result, Verdict
from handrail.pipeline.approve import advise_operator
from handrail.pipeline.before_images import save_old_states, unsaved_access
from handrail.pipeline.call_state import Approved, Consent, ObservedChanges, Progress, Proposed
from handrail.pipeline.merging import NOTHING_MERGED, Merged, find_markers, merge_draft
from handrail.shell.git.internals import judge_repositories
from handrail.shell.git.tracked_files import DraftRepository
from handrail.shell.sandbox.installation import NOTHING_INSTALLED, find_installation
from handrail.text.diff import format_unified
from handrail.text.display import escape, replace_surrogates
from handrail.text.document import Splice, apply_splices
from handrail.text.partial_change import keep_hunks
from handrail.tools.notes import (
    HeldOpen,
    HiddenLeft,
    IgnoredLeft,
    KeptByCopying,
    LinksSplit,
    MergedFiles,
    NoteFacts,
    NotKept,
    OwnerChanged,
)

if TYPE_CHECKING:
    from handrail.pipeline.services import Services

TRY, DRAFT = "Try", "Draft"
"""The names of `handrail try` and `handrail draft keep` in the journal."""
MOST_COMPARED = 200
"""The most files compared line by line; further files are only named."""
MOST_RETAINED_BYTES = 1 << 30
"""The most bytes of old contents left on disk for an undo."""
_MOST_DIFF_CHARS = 1_000_000
_MOST_TRIES = 5
"""The most attempts to merge and keep, if something else keeps changing the same files."""
MOST_NAMED = 30
"""The most paths named in one line of an answer."""
_MUCH_COPIED = 50 << 20
"""The answer mentions copying from this many bytes on."""
_SET_IDS = stat.S_ISUID | stat.S_ISGID
_NO_TEXT = b"\xff"
"""A placeholder for contents that are not shown as text."""


@frozen
class DraftChanges:
    """All changes of a command that ran in a draft, before they are kept or dropped."""

    draft: OpenDraft
    comparison: Comparison
    changes: tuple[DraftChange, ...]
    diffs: tuple[LineDiff, ...]
    """The line diffs of the first changes, up to `MOST_COMPARED`."""
    take_back: Callable[[], None] = lambda: None
    """Moves picked changes back to the draft they came from."""

    @classmethod
    def observe(cls, draft: OpenDraft) -> DraftChanges:
        """Compare a draft with its workspace. Nothing may be running in the draft. Raises `OSError`."""
        return cls.read(draft, compare(draft.directory))

    @classmethod
    def read(cls, draft: OpenDraft, comparison: Comparison) -> DraftChanges:
        """Read the changes of a comparison; raises `OSError`."""
        if not comparison.steps:
            return cls(draft, comparison, (), ())
        with ChangeReader(draft.directory, comparison.conflicts) as reader:
            changes = reader.list(comparison)
            # Files in `.git` come last: if there are many changes, only the first are shown.
            changes.sort(key=lambda change: (".git" in change.path.split("/"), change.path))
            shown = [change for change in changes if ".git" not in change.path.split("/")][:MOST_COMPARED]
            diffs = [reader.diff(change) for change in shown]
        return cls(draft, comparison, tuple(changes), tuple(diffs))

    @property
    def counts(self) -> dict[How, int]:
        return count_changes(self.changes)

    def summaries(self) -> Iterator[FileSummary]:
        """A summary of each change, with line counts if it was compared."""
        for number, change in enumerate(self.changes):
            line = self.diffs[number] if number < len(self.diffs) else LineDiff()
            yield FileSummary(change.path, change.how, line.added, line.removed, line.description)

    def describe(self) -> str:
        """One line per change, up to `MOST_NAMED`; empty if there are none."""
        lines = [str(one) for one in self.summaries()]
        left = lines[MOST_NAMED:]
        return "\n".join([*lines[:MOST_NAMED], *([f"... and {len(left)} more"] if left else [])])

    def choose(self, hunks: Mapping[str, Sequence[int]]) -> list[DraftChange]:
        """The changes the person wants at least part of, without new directories that only hold unwanted files."""
        chosen = choose(self.changes, lambda path: path not in hunks or bool(hunks[path]))
        files = [change.path for change in chosen if not change.is_directory]
        left = [change.path for change in self.changes if not change.is_directory and change.path not in files]
        return [
            change
            for change in chosen
            if not (change.is_directory and change.before is None and _has_below(change.path, left))
            or _has_below(change.path, files)
        ]

    def edit(self, chosen: Sequence[DraftChange], hunks: Mapping[str, Sequence[int]]) -> dict[str, bytes]:
        """The new contents of files for which the person chose only some hunks."""
        lines = dict(zip((change.path for change in self.changes), self.diffs, strict=False))
        contents: dict[str, bytes] = {}
        with ChangeReader(self.draft.directory, self.comparison.conflicts) as reader:
            for change in chosen:
                numbers = hunks.get(change.path)
                if numbers is None or set(numbers) >= set(range(len(lines[change.path].hunks))):
                    continue
                old, new = (
                    (read(change, MOST_COMPARED_BYTES) or b"").decode("utf-8")
                    for read in (reader.read_base, reader.read_after)
                )
                text = apply_splices(old, keep_hunks(old, [Splice(0, len(old), new)], numbers))
                contents[change.path] = text.encode("utf-8")
        return contents

    def pick(
        self, chosen: Sequence[DraftChange], target: OpenDraft, contents: Mapping[str, bytes] | None = None
    ) -> DraftChanges:
        """Move some changes into a new draft, so that only they are kept. Raises `OSError`.

        ``contents``: contents that differ from this draft's, by path; those files also stay here, unchanged.
        """
        target.directory = target.directory.adopt_start(self.draft.directory)
        adopt_foreign_copies(target.directory, self.draft.directory)
        take_back = move_changes(self.draft.directory, target.directory, self.changes, chosen, contents or {})
        try:
            return replace(DraftChanges.observe(target), take_back=take_back)
        except BaseException:
            take_back()
            raise

    @contextmanager
    def split_off(
        self, chosen: Sequence[DraftChange], store: DraftStore, hunks: Mapping[str, Sequence[int]] | None = None
    ) -> Iterator[DraftChanges]:
        """Move some changes into a draft of their own so that only they are kept; move them back on failure.

        ``hunks``: for a file, the only hunks to keep; its other hunks stay in this draft.
        """
        contents = self.edit(chosen, hunks or {})
        part = store.create()
        try:
            picked = self.pick(chosen, part, contents)
            try:
                yield picked
            except BaseException:
                picked.take_back()
                raise
            for step in picked.comparison.steps:
                if step.path in contents and step.before and step.after:
                    versions = step.before.version, step.after.version
                    self.draft.directory.notes.accept(*((step.path, version) for version in versions))
        finally:
            if part.is_open:
                part.drop()

    @contextmanager
    def narrow(self, tops: Sequence[str], store: DraftStore) -> Iterator[DraftChanges]:
        """The changes at and below some paths, in a draft of their own; all changes without paths."""
        if not tops:
            yield self
            return
        with self.split_off(choose(self.changes, lambda path: is_below(tops, path)), store) as part:
            yield part

    def discard(
        self, chosen: Sequence[DraftChange], store: DraftStore, hunks: Mapping[str, Sequence[int]] | None = None
    ) -> None:
        """Remove some changes from this draft for good. Raises `OSError`.

        ``hunks``: for a file, the only hunks to remove; its other hunks stay.
        """
        lines = dict(zip((change.path for change in self.changes), self.diffs, strict=False))
        left = {
            path: [number for number in range(len(lines[path].hunks)) if number not in numbers]
            for path, numbers in (hunks or {}).items()
            if path in lines
        }
        contents = self.edit([change for change in chosen if left.get(change.path)], left)
        part = store.create()
        try:
            replace_contents(self.draft.directory, part.directory, contents)
            whole = [change for change in chosen if change.path not in contents]
            self.pick(whole, part)
        finally:
            part.drop()

    @property
    def writes_files(self) -> bool:
        """Whether any file is new or changed."""
        return any(change.after and change.after.type == "file" for change in self.changes)

    @property
    def can_undo(self) -> bool:
        """Whether the old contents are small enough to stay on disk for an undo."""
        return self._replaced_bytes <= MOST_RETAINED_BYTES

    @property
    def _replaced_bytes(self) -> int:
        return sum(change.before.size for change in self.changes if change.before)

    @property
    def copied_megabytes(self) -> int:
        """Megabytes copied to keep the changes; 0 below `_MUCH_COPIED`."""
        if not self.draft.directory.copies:
            return 0
        sides = (entry for change in self.changes for entry in (change.before, change.after))
        size = sum(entry.size for entry in sides if entry and entry.type == "file")
        return size >> 20 if size >= _MUCH_COPIED else 0

    def describe_for_person(self, asked: Sequence[Access]) -> ObservedChanges:
        """The changes as shown to the person who decides on them."""
        named = {access.target for access in asked}
        with ChangeReader(self.draft.directory) as reader:
            pairs = zip(self.changes, self.diffs, strict=False)
            proposed = [_propose(reader, change, line) for change, line in pairs]
            # Include changes beyond `MOST_COMPARED` that the person is asked about.
            more = [change for change in self.changes[len(self.diffs) :] if change.path in named][:MOST_COMPARED]
            further = [replace(_propose(reader, change, reader.diff(change)), parts=False) for change in more]
        proposed = sorted([*proposed, *further], key=lambda one: one.path not in named)
        return ObservedChanges(proposed, asked, len(self.changes) - len(proposed))

    def unified(self, shows: Callable[[str], bool] = lambda _: True) -> str:
        """The changes as a unified diff. If it gets too long, the rest is only counted.

        ``shows``: whether the contents of a file, given by its absolute path, may be shown.
        """
        workspace = self.draft.directory.info.workspace
        parts: list[str] = []
        length = 0
        for change, line in zip(self.changes, self.diffs, strict=False):
            name = escape(change.path)
            header = {"created": change.before is None, "deleted": change.after is None}
            part = format_unified(name, line.hunks, **header) if line.hunks else f"{name}: {line.description}\n"
            if not shows(os.path.join(workspace, change.path)):
                part = f"{name}: {change.how}, not shown\n"
            length += len(part)
            if length > _MOST_DIFF_CHARS:
                break
            parts.append(part)
        left = len(self.changes) - len(parts)
        if left:
            parts.append(f"... and {left} more {'path' if left == 1 else 'paths'}\n")
        return replace_surrogates("".join(parts))

    def before_images(self) -> tuple[list[BeforeImage | MovedEntry], list[str]]:
        """The old state of each path for the journal, and the paths left out because of size, number or kind."""
        directory = self.draft.directory
        with ChangeReader(directory) as reader:  # read the new state too: others may write to a file once it is kept
            return save_old_states(reader, directory.info.workspace, self.changes, directory.upper)

    def read_both(self) -> Iterator[tuple[str, bytes, bytes]]:
        """For each changed text file: its absolute path, old contents and new contents."""
        with ChangeReader(self.draft.directory) as reader:
            for change, line in zip(self.changes, self.diffs, strict=False):
                if line.hunks and change.before and change.after:
                    old, new = (read(change, MOST_COMPARED_BYTES) for read in (reader.read_before, reader.read_after))
                    yield os.path.join(self.draft.directory.info.workspace, change.path), old or b"", new or b""

    def merge(self) -> tuple[DraftChanges, Merged]:
        """Merge these changes with others in the workspace; return the result and a record of the merge.

        If it raises `DraftConflict` (not everything can be merged) or `OSError`, nothing has changed.
        """
        names = self.draft.directory.notes.read_marked()
        if names and (marked := find_markers(self.draft.directory, names)):
            raise DraftConflict(marked)
        if not self.comparison.conflicts:
            return self, NOTHING_MERGED
        merged = merge_draft(self.draft.directory, self.comparison, self.changes)
        return replace(DraftChanges.observe(self.draft), take_back=self.take_back), merged

    def keep(self) -> None:
        """Apply the changes to the workspace. If it raises `DraftConflict` or `OSError`, nothing has changed."""
        if self.comparison.conflicts:
            raise DraftConflict(self.comparison.conflicts)
        if self.comparison.steps:
            keep(self.draft.directory, self.comparison)

    def keep_times(self) -> None:
        """Keep a draft without changed contents, for its timestamps. Undo does not count this as a change."""
        if not (self.comparison.steps or self.comparison.conflicts):
            return
        directory = self.draft.directory
        start = read_clock(directory.path)
        self.keep()
        directory.notes.add_own_period(start, read_clock(directory.path))

    def retain(self, seq: int, missed: Sequence[str]) -> list[str]:
        """Leave a kept draft on disk for undo; return the paths that undo cannot restore.

        ``seq``: the number of its call in the journal, 0 if it has none; the draft is not left then. ``missed``: the
        paths whose old state is not in the journal itself.
        """
        if seq and self.can_undo and self.comparison.steps:
            self.draft.retain(self._replaced_bytes)
            return []
        return list(missed)


class CallDraft:
    """The draft for the command of one call, from its start until its changes are kept or dropped."""

    def __init__(self, draft: OpenDraft, approved: Approved, services: Services, progress: Progress) -> None:
        self.open_draft = draft
        self.files: tuple[FileSummary, ...] = ()
        self.not_kept = self.left_in = self.advice = ""
        self.notes: tuple[NoteFacts, ...] = ()
        self.diff = ""
        path = draft.directory.path
        accesses = (replace(one, path=path) if one.action == "run" else one for one in approved.accesses)
        self.approved = replace(approved, accesses=tuple(accesses))
        self._services = services
        self._progress = progress
        self._bases = BaseSaver(draft.directory)
        self._is_settled = False
        """Whether the changes were kept, dropped or left to the user."""

    @classmethod
    def create(cls, approved: Approved, services: Services, progress: Progress) -> CallDraft | None:
        """A draft for the command of a call; None if it runs in the workspace itself, or no draft is available."""
        judged = approved.previous
        drafted = judged.tool.drafted
        if not services.settings.drafts or drafted is None or not drafted(judged.args):
            return None
        host = services.command_host()
        draft = host.drafts.create()
        if draft is None:
            return None
        try:
            return cls(draft, approved, services, progress)
        except BaseException:
            host.drafts.drop(draft)
            raise

    def begin(self) -> int:
        """Record the call before it has changed anything; returns its number in the journal, 0 if it has none."""
        self._services.recorder.begin(self.approved, (), self._progress)
        token = self._progress.token
        return token.seq if token else 0

    def settle(self) -> None:
        """Compare the draft with the workspace, judge the changes, and keep or drop them.

        Refused changes are dropped. Changes that could not be kept stay in the draft, which `left_in` names. `not_kept`
        says why in both cases. Raises `JournalFailed` if changes must be recorded and cannot be. After an error,
        `close` leaves the draft to the user.
        """
        self._bases.stop()
        try:
            remove_temporaries(self.open_draft.directory.upper)
            self._drop_own_caches()
            hidden = self.open_draft.hidden or ()
            if hidden and (spared := spare_hidden(self.open_draft.directory, hidden)):
                self.notes += (HiddenLeft(paths=", ".join(map(escape, spared[:MOST_NAMED]))),)
            changes = self._observe()
            shows = self._services.shows_contents
            self.files, self.diff = tuple(changes.summaries()), changes.unified(shows)
            if not changes.changes:
                if self._judge_workspace() != "deny":
                    changes.keep_times()
                self._is_settled = True
                return
            if changes.writes_files and is_disk_full(os.path.dirname(self.open_draft.directory.upper)):
                raise OSError(errno.ENOSPC, "the disk is full, and a file may be half written")
            consent = self._approve(changes)
            if consent and consent.answer.hunks is not None:
                changes = self._pick(changes, consent.answer.hunks)
                self.notes += tuple(consent.notes())
            self._require_same_in_git(changes, hidden)
            for _ in range(_MOST_TRIES):
                with suppress(DraftConflict):  # the workspace has changed since the comparison
                    self._keep(changes)
                    return
                changes = self._observe()
            self._keep(changes)
        except (Denied, NeedsApproval) as refused:
            self._is_settled = True
            self.not_kept = refused.why
            self.advice = advise_operator(refused)
            if isinstance(refused, NeedsApproval):
                self.not_kept = f"they need the user's approval: {refused.why}"
        except DraftConflict as conflict:
            workspace = self.open_draft.directory.info.workspace
            lines = describe_conflicts(conflict, workspace, self._services.shows_contents)
            self.not_kept = f"the workspace has changed meanwhile: {lines}"
            self._leave()
        except OSError as error:
            if self.open_draft.directory.state == "kept":
                raise
            self.not_kept = describe_failure(error)
            self._leave()

    def _observe(self) -> DraftChanges:
        """Compare the draft, leave out files that are held open, and merge with changes in the workspace."""
        changes, merged = self._leave_held_files(DraftChanges.observe(self.open_draft)).merge()
        self.notes += tuple(note_merged(merged))
        return changes

    def _require_same_in_git(self, changes: DraftChanges, hidden: Sequence[str]) -> None:
        """Raise `Denied` if the index or new commits drop or change a path that was hidden from the command."""
        if not hidden:
            return
        for repository, inside in find_repositories(changes):
            below = [os.path.relpath(path, inside or ".") for path in hidden if is_below([inside or "."], path)]
            named = repository.find_changed_entries(below)
            if not named and repository.has_commits_of(below):
                named = below[:1]
            if named:
                why = f"git would record another {escape(named[0])}, which is hidden from commands"
                raise Denied(rule="hidden files", why=why, source="", allow="")

    def _drop_own_caches(self) -> None:
        """Remove compiled files of Handrail's own packages: Python would run them instead of the sources."""
        directory = self.open_draft.directory
        workspace = directory.info.workspace
        own = find_installation((workspace,))
        for path in own.list_caches(directory.upper, workspace) if own is not NOTHING_INSTALLED else ():
            if os.path.isdir(path) and not os.path.islink(path):
                remove_tree(path)
            else:
                os.unlink(path)

    def _leave(self) -> None:
        """Leave the draft for the user to inspect and to keep in part."""
        with suppress(OSError):
            self.left_in = self.open_draft.leave()
            self._is_settled = True

    def _approve(self, changes: DraftChanges) -> Consent | None:
        """Get the person's consent if the changes need it. Raises `Denied` or `NeedsApproval`."""
        approvals, judged = self._services.approvals, self.approved.previous
        streams, workspace = judged.received.streams, self.open_draft.directory.info.workspace
        for path in streams.read_only if streams else ():
            if any(is_below([os.path.relpath(path, workspace)], change.path) for change in changes.changes):
                why = f"{escape(os.path.relpath(path, workspace))} is read-only in the agent's own sandbox"
                raise Denied(rule="the agent's sandbox", why=why, source="", allow="")
        if raised := [change.path for change in changes.changes if _raises_rights(change)]:
            names = ", ".join(map(escape, raised[:MOST_NAMED]))
            why = f"{names} would run with the rights of its owner (set-uid or set-gid)"
            raise Denied(rule="set-uid", why=why, source="", allow="")
        pairs = list(self._find_accesses(changes))
        accesses, protected = [access for access, _ in pairs], [access for access, kept in pairs if kept]
        verdict = self._judge(accesses)
        if verdict.decision == "deny":
            raise Denied(rule=verdict.rule, why=f"{verdict.rule}: {verdict.why}", source=verdict.source, allow="")
        if self.approved.by_person or (verdict.decision == "allow" and not protected):
            return None
        if verdict.decision == "allow":
            why = f"{escape(protected[0].target)} may decide which programs git runs, so it is asked about every time"
            verdict = Verdict("ask", "protected", why)
        if len(accesses) > MOST_NAMED:  # too many rules for a person to read
            verdict = replace(verdict, allow="")
        asked = [access for access, kept in pairs if kept or self._judge([access]).decision == "ask"]
        consent = approvals.approve_changes(judged, verdict, changes.describe_for_person(asked))
        self.notes += approvals.remember(asked, verdict, consent)
        return consent

    def _pick(self, changes: DraftChanges, hunks: Mapping[str, Sequence[int]]) -> DraftChanges:
        """Move the changes the person has chosen to a new draft; drop the rest."""
        chosen = changes.choose(hunks)
        if not chosen:
            raise Denied(rule="", why="the user wants none of them", source="", allow="")
        picked = self._move_to_new_draft(changes, chosen, changes.edit(chosen, hunks))
        shows = self._services.shows_contents
        self.files, self.diff = tuple(picked.summaries()), picked.unified(shows)
        return picked

    def _leave_held_files(self, changes: DraftChanges) -> DraftChanges:
        """Leave out changes to files that another program has open for writing; return the others."""
        workspace = self.open_draft.directory.info.workspace
        held = changes.changes and find_held_units(changes.changes, workspace)
        if not held:
            return changes
        left = [one.path for one in changes.changes if find_unit(one.path) in held]
        self.notes += (HeldOpen(paths=", ".join(map(escape, left[:MOST_NAMED]))),)
        return self._move_to_new_draft(changes, choose(changes.changes, lambda path: path not in left), {})

    def _move_to_new_draft(
        self, changes: DraftChanges, chosen: Sequence[DraftChange], contents: Mapping[str, bytes]
    ) -> DraftChanges:
        """Continue with some changes in a new draft; drop the old draft with the rest."""
        host = self._services.command_host()
        part = host.drafts.create()
        if part is None:
            raise OSError(errno.ENOSPC, host.drafts.why_none)
        try:
            picked = changes.pick(chosen, part, contents)
        except BaseException:
            host.drafts.drop(part)
            raise
        host.drafts.drop(self.open_draft)
        self.open_draft = part
        accesses = self.approved.accesses
        path = part.directory.path
        accesses = tuple(replace(one, path=path) if one.action == "run" else one for one in accesses)
        self.approved = self._progress.reach(replace(self.approved, accesses=accesses))
        return picked

    def _judge_workspace(self) -> Decision:
        """The decision on changing the workspace directory itself."""
        workspace = self.open_draft.directory.info.workspace
        return self._judge([FileAccess("write", ".", workspace, by_command=True, observed=True)]).decision

    def _find_accesses(self, changes: DraftChanges) -> Iterator[tuple[Access, bool]]:
        """The accesses to judge, each with whether it always needs a person's approval.

        Git's everyday changes in a repository count as a single change of the directory around it.
        """
        can_undo, directory = changes.can_undo, self.open_draft.directory
        has_rules = hasattr(self._services.approvals.policy, "protects")
        with ChangeReader(directory) as reader:
            in_git = judge_repositories(changes.changes, reader, directory.info.workspace)
        tops = set[str]()
        for change in changes.changes:
            top = in_git.everyday.get(change.path)
            if top is None:
                yield self._access(change, can_undo), has_rules and change.path in in_git.unusual
            elif top not in tops:
                tops.add(top)
                entry = change.before or change.after  # stands for every change inside the directory
                yield self._access(DraftChange(top, entry, entry), can_undo), False

    def _access(self, change: DraftChange, can_undo: bool) -> Access:
        """The access for a change. Losing old contents for good counts as a deletion."""
        loses = change.after is None or (change.before is not None and not can_undo)
        path = os.path.normpath(os.path.join(self.open_draft.directory.info.workspace, change.path))
        observed = can_undo or change.before is None
        return FileAccess("delete" if loses else "write", change.path, path, by_command=True, observed=observed)

    def _judge(self, accesses: Sequence[Access]) -> Verdict:
        return self._services.approvals.verdict(accesses)

    def _keep(self, changes: DraftChanges) -> None:
        images, missed = changes.before_images()
        workspace = self.open_draft.directory.info.workspace
        unsaved = (unsaved_access(workspace, path) for path in missed)
        approved = replace(self.approved, accesses=(*self.approved.accesses, *unsaved))
        notes = [
            *_list_notes(changes),
            *self._services.find_overlaps(changes.read_both()),
        ]  # listed now, because nothing may fail later
        self._services.recorder.begin(approved, images, self._progress)
        token = self._progress.token
        host = self._services.command_host()
        upper = self.open_draft.directory.upper
        files = (change.path for change in changes.changes if change.after and change.after.type == "file")
        lent = any(isinstance(access, FileAccess) and access.lent_to for access in approved.accesses)
        if not lent:  # otherwise they may contain secrets
            host.changes.note_contents({os.path.join(workspace, path): os.path.join(upper, path) for path in files})
        in_git = [repository.top for repository, _ in find_repositories(changes) if repository.moves_references]
        tracked = self._services.tracked_files
        if in_git:
            tracked.begin_changes(workspace, in_git)
        try:
            with host.changes.accepting() as accepted:
                accepted += (os.path.join(workspace, change.path) for change in changes.changes)
                changes.keep()
        except BaseException:
            if self.open_draft.directory.state != "kept":  # otherwise the error came after the last step
                self._progress.token = token and replace(token, withdrawn=True)
                raise
        finally:
            if in_git:
                tracked.end_changes()
        lost = changes.retain(token.seq if token else 0, missed)
        self._is_settled = True
        if lost and token and token.seq:
            notes.insert(0, NotKept(paths=", ".join(map(escape, lost[:MOST_NAMED]))))
        self.notes += tuple(notes)

    def close(self) -> None:
        """Drop the draft, unless it was left or retained. After any error, leave it to the user."""
        self._bases.stop()
        if not self.open_draft.is_open:
            return
        if self._is_settled or not os.listdir(self.open_draft.directory.upper):
            self._services.command_host().drafts.drop(self.open_draft)
        elif self.open_draft.directory.state == "kept":
            self.open_draft.close()  # an undo needs it
        else:
            self._leave()
            self._progress.left_in = self.left_in
            self.open_draft.close()


def note_merged(merged: Merged) -> Iterator[NoteFacts]:
    """Notes on a merge."""
    if merged.paths:
        yield MergedFiles(paths=", ".join(map(escape, merged.paths[:MOST_NAMED])))
    if merged.dropped:
        yield IgnoredLeft(paths=", ".join(map(escape, merged.dropped[:MOST_NAMED])))


def _list_notes(changes: DraftChanges) -> Iterator[NoteFacts]:
    """Notes on side effects of keeping the changes."""
    if changes.copied_megabytes:
        yield KeptByCopying(megabytes=changes.copied_megabytes)
    replaced = [(one.path, one.before, one.after) for one in changes.changes if one.before and one.after]
    taken_over = [path for path, old, new in replaced if old.owner[0] != new.owner[0] == os.geteuid() != 0]
    if taken_over:
        yield OwnerChanged(paths=", ".join(map(escape, taken_over[:MOST_NAMED])))
    # Other hard links to these files keep the old contents.
    if split := [path for path, old, _ in replaced if old.type == "file" and old.links > 1]:
        yield LinksSplit(count=len(split), paths=", ".join(map(escape, split[:MOST_NAMED])))


@frozen
class KeptChanges:
    """The result of keeping changes at a person's request."""

    changes: DraftChanges
    missed: list[str]
    """Paths that cannot be undone."""
    warning: str
    """Why the journal could not be written; empty if it was."""
    merged: Merged

    def describe_merge(self) -> Iterator[str]:
        """Describe the merge to the person, line by line."""
        for paths, what in (
            (self.merged.paths, "merged with other changes"),
            (self.merged.dropped, "changed meanwhile and ignored by git, so the draft's version was dropped"),
        ):
            if paths:
                yield f"{what}: {', '.join(map(escape, paths[:MOST_NAMED]))}"


def keep_and_record(journal: Journal, origin: Origin, changes: DraftChanges, call: Call, code: int = 0) -> KeptChanges:
    """Merge and keep changes that a person has seen, and record them as a separate call.

    Raises like `DraftChanges.merge` and `DraftChanges.keep`, and `JournalFailed` if a required journal cannot be
    written; then nothing is kept.
    """
    paths, dropped = list[str](), list[str]()
    for tries_left in reversed(range(_MOST_TRIES)):
        changes, merged = changes.merge()
        paths += merged.paths
        dropped += merged.dropped
        try:
            missed, warning = _keep_and_record(journal, origin, changes, call, code)
        except DraftConflict:  # the workspace has changed since the comparison
            if not tries_left:
                raise
            changes = replace(DraftChanges.observe(changes.draft), take_back=changes.take_back)
        else:
            break
    return KeptChanges(changes, missed, warning, Merged(tuple(dict.fromkeys(paths)), tuple(dropped)))


def _keep_and_record(
    journal: Journal, origin: Origin, changes: DraftChanges, call: Call, code: int
) -> tuple[list[str], str]:
    images, missed = changes.before_images()
    workspace = changes.draft.directory.info.workspace
    accesses = (
        CommandAccess(" ".join(map(str, call.arguments.values())), changes.draft.directory.path),
        *(unsaved_access(workspace, path) for path in missed),
    )
    verdict = Verdict("allow", call.tool.lower(), "requested by the user")
    pending = PendingRecord(call, accesses, verdict, images, origin)
    token = journal.begin(pending)
    result = Result(call.tool, "ok", changes.describe(), data={"exit_code": code, "diff": changes.unified()})
    record = Record(call, accesses, verdict, origin=origin, result=result, token=token)
    try:
        changes.keep()
    except BaseException as error:
        failed = replace(result, status="error", text=str(error), error=Failure("not_kept", str(error)))
        journal.record(replace(record, result=failed, token=replace(token, withdrawn=True)))
        raise
    warning = journal.record(record) or token.warning
    return changes.retain(token.seq, [*missed, *token.unkept]), warning


def find_repositories(changes: DraftChanges) -> Iterator[tuple[DraftRepository, str]]:
    """The repositories a draft changes, each with its path in the workspace."""
    inside: dict[str, list[str]] = {}
    for change in changes.changes:
        top, git, name = f"/{change.path}".partition("/.git/")
        if git:
            inside.setdefault(top.lstrip("/"), []).append(name)
    directory = changes.draft.directory
    for top, names in inside.items():
        yield DraftRepository(directory.info.workspace, directory.upper, top, names), top


def describe_conflicts(
    conflict: DraftConflict, workspace: str = "", shows: Callable[[str], bool] = lambda _: True
) -> str:
    """A line for each conflict, and the lines of both sides where they overlap.

    ``shows``: whether the contents of a file, given by its absolute path, may be shown.
    """
    rows: list[str] = []
    for one in conflict.conflicts[:MOST_NAMED]:
        has_sides = one.sides and shows(os.path.join(workspace, one.path))
        rows.append(f"{escape(one.path)}: {one.reason}" + (f":\n{one.sides}\n" if has_sides else "; "))
    left = len(conflict.conflicts) - len(rows)
    return ("".join(rows) + (f"and {left} more" if left else "")).strip("; \n")


def _raises_rights(change: DraftChange) -> bool:
    """Whether a file would gain a set-uid or set-gid bit, or has one and would change."""
    before, after = change.before, change.after
    if after is None or after.type != "file" or not after.mode & _SET_IDS:
        return False
    if before is None or before.type != "file" or after.mode & _SET_IDS & ~before.mode:
        return True
    return (before.size, before.mtime) != (after.size, after.mtime)


def _has_below(directory: str, paths: Sequence[str]) -> bool:
    return any(path.startswith(f"{directory}/") for path in paths)


def _propose(reader: ChangeReader, change: DraftChange, line: LineDiff) -> Proposed:
    old, new = (
        None if entry is None else (read(change, MOST_COMPARED_BYTES) if line.hunks else None) or _NO_TEXT
        for entry, read in ((change.before, reader.read_before), (change.after, reader.read_after))
    )
    return Proposed(
        change.path,
        old,
        new,
        line.hunks,
        parts=bool(line.hunks) and (change.how == "changed" or len(line.hunks) == 1),
        description=f"{escape(change.path)}: {line.description}\n" if line.description else "",
    )
