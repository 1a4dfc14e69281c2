"""Commands that run in no draft: the answer and the journal say that undo is not promised."""

from __future__ import annotations

from dataclasses import replace

from handrail.journal import NoJournal
from handrail.pipeline.call_state import Approved, Progress, Ran
from handrail.pipeline.finish import Recorder
from handrail.pipeline.services import Services

_NO_DRAFT = "it runs in no draft"
_RUNS_ON = "it may run in the background"


def begin_command(approved: Approved, recorder: Recorder, progress: Progress) -> None:
    """Record a command before it runs, where nothing may change without a record."""
    if getattr(recorder.journal, "required", False):
        recorder.begin(approved, [], progress)


def note_irreversible(ran: Ran, services: Services) -> Ran:
    """Say why the changes of a command cannot be undone, unless it is known to make none."""
    approved = ran.previous
    judged = approved.previous
    command = next((access for access in approved.accesses if access.action == "run"), None)
    if command is None or not judged.tool.drafted or isinstance(services.recorder.journal, NoJournal):
        return ran
    if command.tier == "read_only":
        return ran
    may_run_on = not judged.tool.drafted(judged.args)
    why = _RUNS_ON if may_run_on else services.command_host().no_drafts or _NO_DRAFT
    return replace(ran, previous=replace(approved, irreversible=why))
