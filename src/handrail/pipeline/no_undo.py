"""Commands that run in no draft: the answer and the journal say that undo is not promised."""

from __future__ import annotations

from dataclasses import replace

from handrail.errors import SessionOver
from handrail.journal import NoJournal
from handrail.model import CommandAccess
from handrail.pipeline.call_state import Approved, Progress, Ran
from handrail.pipeline.finish import Recorder
from handrail.pipeline.services import Services
from handrail.shell.tree_listing import MOST_OTHER_ENTRIES

_NO_DRAFT = "it runs in no draft"
_TOO_MANY = (
    f"background jobs are not followed in a workspace with more than {MOST_OTHER_ENTRIES:,} files and directories"
)


def begin_command(approved: Approved, recorder: Recorder, progress: Progress) -> None:
    """Record a command before it runs, where nothing may change without a record."""
    if getattr(recorder.journal, "required", False):
        recorder.begin(approved, [], progress)


def note_irreversible(ran: Ran, services: Services) -> Ran:
    """Say why the changes of a command cannot be undone, unless it is known to make none."""
    approved = ran.previous
    judged = approved.previous
    command = next((access for access in approved.accesses if isinstance(access, CommandAccess)), None)
    changes_files = command is not None and command.tier != "read_only"
    if not changes_files or not judged.tool.drafted or isinstance(services.recorder.journal, NoJournal):
        return ran
    try:
        host, is_job = services.command_host(), not judged.tool.drafted(judged.args)
    except SessionOver:  # the session was closed while the command ran
        return ran
    if is_job and not host.changes.too_many_entries:  # its changes are recorded when it ends
        return ran
    why = _TOO_MANY if is_job else host.drafts.why_none or _NO_DRAFT
    return replace(ran, previous=replace(approved, irreversible=why))
