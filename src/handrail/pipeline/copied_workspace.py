"""Compare a command that runs in no draft with a copy of the workspace, to list its changes and to undo them all."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from handrail.drafts.changes import FileSummary
from handrail.drafts.store import OpenDraft
from handrail.drafts.workspace_copy import WorkspaceCopy
from handrail.journal import NoJournal
from handrail.pipeline.call_state import Approved, Progress, Ran
from handrail.pipeline.draft_changes import MOST_NAMED, DraftChanges, unsaved_access
from handrail.pipeline.services import Services
from handrail.text.display import escape
from handrail.tools.notes import NoteFacts, NotKept

_NOT_YET_KNOWN = "its changes are only known when it has ended"


class CopiedWorkspace:
    """The copy that the command of one call is compared with, from its start until its changes are recorded."""

    def __init__(self, copy: WorkspaceCopy, draft: OpenDraft, services: Services, progress: Progress) -> None:
        self.files: tuple[FileSummary, ...] = ()
        self.notes: tuple[NoteFacts, ...] = ()
        self.diff = ""
        self._copy: WorkspaceCopy | None = copy
        self._draft = draft
        self._services = services
        self._progress = progress
        self._approved: Approved | None = None

    @classmethod
    def create(cls, approved: Approved, services: Services, progress: Progress) -> CopiedWorkspace | None:
        """A copy for the command of a call; None if there can be none, or its changes are not known when it ends."""
        judged = approved.previous
        drafted = judged.tool.drafted
        if drafted is None or not drafted(judged.args) or isinstance(services.recorder.journal, NoJournal):
            return None
        host = services.command_host()
        copy = host.save_workspace()
        if copy is None:
            return None
        try:
            return cls(copy, copy.store.create(), services, progress)
        except OSError:
            host.release_copy(whole=True)
            return None

    def name_in(self, approved: Approved, doubt: str = _NOT_YET_KNOWN) -> Approved:
        """The call as it is recorded before the command runs: undo finds its old versions by this name."""
        path = self._draft.directory.path
        runs = (replace(one, path=path, doubt=doubt) if one.action == "run" else one for one in approved.accesses)
        return replace(approved, accesses=tuple(runs))

    def settle(self) -> None:
        """The command has ended: record its changes, and leave the old versions for an undo. Raises `JournalFailed`."""
        copy, self._copy = self._copy, None
        if copy is None:
            return
        whole = False
        try:
            if not copy.is_shared:
                self._record(copy)
                whole = True
        except OSError:
            pass  # as without a copy: what the words of the command name was saved before
        finally:
            if self._draft.is_open:
                with suppress(OSError):
                    self._draft.drop()
            self._services.command_host().release_copy(whole)

    def _record(self, copy: WorkspaceCopy) -> None:
        approved = self._progress.find(Approved)
        assert approved
        comparison, unsaved = copy.compare()
        changes = DraftChanges.read(self._draft, comparison, copy.tree)
        self.files, self.diff = tuple(changes.summaries()), changes.unified(self._services.shows_contents)
        missed = unsaved
        if self.files or unsaved:
            images, missed = changes.before_images()
            missed += unsaved
            accesses = (*approved.accesses, *(unsaved_access(copy.workspace, path) for path in missed))
            approved = replace(approved, accesses=accesses)
            self._services.recorder.begin(self.name_in(approved, doubt=""), images, self._progress)
        token = self._progress.token
        if self.files and not unsaved and changes.can_undo:
            copy.hand_over(comparison.steps, self._draft.directory)
            missed = changes.retain(token.seq if token else 0, missed)
            if not missed:  # what did not fit into the journal either
                notes = (note for note in approved.notes if not isinstance(note, NotKept))
                approved = replace(approved, notes=tuple(notes))
        self._approved = self.name_in(approved, doubt="")
        if missed and token and token.seq:
            self.notes += (NotKept(paths=", ".join(map(escape, missed[:MOST_NAMED]))),)

    @property
    def is_recorded(self) -> bool:
        """Whether all changes of the command are known."""
        return self._approved is not None

    def finish(self, ran: Ran) -> Ran:
        """The call with the accesses that are known now."""
        return replace(ran, previous=self._approved) if self._approved else ran

    def close(self) -> None:
        """Settle a command that was stopped by an error."""
        if self._copy:
            self.settle()
            if self._approved:
                self._progress.reach(self._approved)
