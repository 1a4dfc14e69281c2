"""The judge step: the policy decides on the resolved accesses, and a preview becomes possible."""

from __future__ import annotations

import contextlib
from functools import cache

from handrail.errors import ReadOnlyRoot
from handrail.pipeline.call_state import Declared, Judged, Resolved, StagedChanges
from handrail.pipeline.context import ToolContext
from handrail.pipeline.services import Services


def judge(resolved: Resolved, services: Services) -> Judged:
    """The verdict on a call: allow, ask or deny. Raises `ReadOnlyRoot` for a change below a root that is only read."""
    for access in resolved.accesses:
        if access.action in ("write", "delete") and not access.by_command:
            root = resolved.paths[access.target].root
            if not root.writable:
                raise ReadOnlyRoot(path=access.target, root=root.path)
    verdict = services.approvals.verdict(resolved.accesses)

    @cache  # the answer of a person binds to the changes that were shown
    def dry_run() -> StagedChanges:
        if not judged.tool.repeatable:
            return StagedChanges((), (), ())
        with contextlib.closing(ToolContext(services, judged, dry=True)) as context:
            judged.tool.run(judged.args, context)
        return context.staged

    judged = Judged(resolved, verdict, dry_run)
    return judged


def seek(judged: Judged, services: Services) -> Declared | None:
    """The accesses that a tool finds only by reading files, added to the others; None for a tool that needs none."""
    find = judged.tool.seek
    if not find or judged.verdict.decision == "deny":
        return None
    with contextlib.closing(ToolContext(services, judged, dry=True)) as context:
        more = find(judged.args, context)
    return Declared(judged.parsed, (*judged.accesses, *more))
