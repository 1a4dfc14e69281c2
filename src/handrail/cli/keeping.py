"""Keep the changes of a draft from the command line, and say what became of them."""

from __future__ import annotations

import sys

from handrail.cli.output import Screen, Stop, on_terminal, paint_diff, warn, write
from handrail.drafts.changes import describe_failure
from handrail.drafts.keep import DraftConflict
from handrail.errors import JournalFailed
from handrail.model import Call
from handrail.pipeline.any_session import AnySession
from handrail.pipeline.draft_changes import DraftChanges, describe_conflicts, keep_and_record


def keep_changes(session: AnySession, changes: DraftChanges, call: Call, code: int = 0, hint: str = "") -> DraftChanges:
    """Keep changes, and record them as a call; raises `Stop` if nothing was kept."""
    try:
        kept = keep_and_record(session.journal, session.origin, changes, call, code)
    except DraftConflict as error:
        why = f"because the workspace has changed meanwhile: {describe_conflicts(error)}"
        raise Stop(f"nothing was kept, {why}{hint}") from None
    except JournalFailed as error:
        raise Stop(f"nothing was kept, because it cannot be recorded: {error.why}") from None
    except OSError as error:
        raise Stop(f"nothing was kept: {describe_failure(error)}") from None
    for line in kept.describe_merge():
        warn(line)
    if kept.warning:
        warn(f"the changes cannot be undone: the journal could not be written ({kept.warning})")
    elif kept.missed:
        warn(f"{len(kept.missed)} of these changes cannot be undone: they are too large or too many for the journal")
    if kept.changes.copied_megabytes:
        warn(f"applying the changes copied {kept.changes.copied_megabytes} MB: the workspace is on overlayfs")
    return kept.changes


def describe_counts(changes: DraftChanges) -> str:
    """How many files were created, changed and deleted."""
    return ", ".join(f"{count} {how}" for how, count in changes.counts.items() if count)


def print_diff(diff: str) -> None:
    """A diff on stdout: in colours on a terminal, as it is elsewhere."""
    write(Screen(sys.stdout).render(*paint_diff(diff)) if diff and on_terminal(sys.stdout) else diff)
