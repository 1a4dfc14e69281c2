"""The run and commit steps: run the tool, then write its changes, all or none.

The tool runs without locks. They are taken to commit; if another program has changed a file meanwhile, the run is
repeated on its new contents.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from handrail.errors import ChangedSince, ToolError
from handrail.files.commit import commit as commit_files
from handrail.files.locks import Held
from handrail.files.versions import Saving, stamps
from handrail.pipeline.call_state import Approved, Done, Judged, Progress, Ran
from handrail.pipeline.context import ToolContext
from handrail.pipeline.prepare import FILE_ACTIONS
from handrail.pipeline.services import Services

T = TypeVar("T")
ATTEMPTS = 20
_OVERTAKEN = 3
"""After this many attempts the locks are taken before the run."""


def run_and_commit(approved: Approved, services: Services, progress: Progress) -> Done:
    """Run an approved call and commit its changes; again if another program changed the files meanwhile."""
    if not approved.previous.written_paths:
        if approved.may_change_files:
            from handrail.pipeline.before_images import save_before_images  # only needed for commands

            approved = progress.reach(save_before_images(approved, services.recorder, services.workspace, progress))
        with contextlib.closing(_open_context(approved, services)) as context:
            ran = progress.reach(run(approved, context, services))
        return progress.reach(Done(ran, (), progress.token))
    repeatable = approved.previous.tool.repeatable
    attempts = ATTEMPTS if repeatable else 1
    for attempt in range(attempts):
        # Files that are written in place are locked for the run too.
        lock_first = attempt >= _OVERTAKEN or services.settings.hard_links == "through" or not repeatable
        try:
            return _attempt(approved, services, progress, lock_first)
        except ChangedSince as error:
            if error.moment != "commit" or attempt == attempts - 1:
                raise
    raise AssertionError("unreachable")


def _attempt(approved: Approved, services: Services, progress: Progress, lock_first: bool) -> Done:
    judged, locks = approved.previous, services.locks
    writes = judged.written_paths
    with contextlib.ExitStack() as stack:
        context = stack.enter_context(contextlib.closing(_open_context(approved, services)))
        held = stack.enter_context(locks.hold(writes)) if lock_first else None
        before = stamps(writes)
        try:
            ran = progress.reach(run(approved, context, services))
        except ToolError:
            # Perhaps it saw half of the changes of another call.
            if held or (stamps(writes) == before and locks.free(writes)):
                raise
            raise _changed_meanwhile(approved) from None
        if not held and ran.staged.changes:
            held = stack.enter_context(locks.hold(writes))
        if not lock_first and (stamps(writes) != before or not (held or locks.free(writes))):
            raise _changed_meanwhile(approved)
        return commit(ran, held, services, progress)


def _changed_meanwhile(approved: Approved) -> ChangedSince:
    return ChangedSince(path=approved.accesses[0].target, moment="commit")


def run(approved: Approved, context: ToolContext, services: Services) -> Ran:
    """Run the tool. A change that it did not declare was neither judged nor locked: a fault of the tool."""
    judged = approved.previous
    work = partial(judged.tool.run, judged.args, context)
    outcome = _confine(judged, services, work) if judged.tool.repeatable else work()
    staged, writes = context.staged, judged.written_paths
    for change in staged.changes:
        if change.path.real not in writes:
            raise AssertionError(f"a change of {change.path.named!r} was staged but not declared")
    return Ran(approved, outcome, staged)


def commit(ran: Ran, held: Held | None, services: Services, progress: Progress) -> Done:
    """Write the staged changes under the locks that are ``held``; raises `NotAsShown` if a person saw others."""
    approved, staged = ran.previous, ran.staged
    judged, tracker, settings = approved.previous, services.tracker, services.settings
    if approved.consent:
        approved.consent.require_same(staged.proposed)
    done = Done(ran, (), progress.token)
    data: dict[str, object] = {}
    if held and staged.changes:
        services.recorder.begin(approved, staged.changes, progress)
        saving = Saving(settings.durable, settings.hard_links)
        versions = _confine(judged, services, lambda: commit_files(services.workspace, staged.changes, held, saving))
        done = progress.reach(Done(ran, tuple(staged.changes), progress.token))
        for change, hunks, version in zip(staged.changes, staged.hunks, versions, strict=True):
            tracker.wrote(change.path.real, version, hunks, change.after)
            data.setdefault("mtime_ms", version.mtime_ns // 1_000_000)
    if judged.parsed.entry.forgets:
        tracker.forget(*judged.written_paths)
    data |= {"diff": staged.diff(), "applied": bool(staged.changes)}
    return progress.reach(replace(done, data=data))


def _open_context(approved: Approved, services: Services) -> ToolContext:
    choice = approved.consent.choice if approved.consent else None
    return ToolContext(
        services, approved.previous, choice=choice, network=approved.network, approved=approved.by_person
    )


def _confine(judged: Judged, services: Services, work: Callable[[], T]) -> T:
    """Do ``work`` on files inside the sandbox of commands, where the settings ask for that."""
    if not services.settings.confine_files:
        return work()
    actions = {access.action for access in judged.accesses}
    if "run" in actions or actions.isdisjoint(FILE_ACTIONS):
        return work()
    return services.command_host().boundary.run(work)
