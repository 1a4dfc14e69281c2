"""A call on its way through the corridor: what is known of it so far, for its result and its record."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from handrail.files.changes import Change
from handrail.journal import Token
from handrail.model import Access, Answer, Call, Result, Status, Verdict
from handrail.pipeline.approve import Consent
from handrail.tools.tool import Remark
from handrail.workspace import WorkPath, Workspace, itself

ON_FILES = ("read", "write", "delete")
Blocks = tuple[Mapping[str, Any], ...]


class Trail:
    """What is known of a call, however it ends."""

    def __init__(self, call: Call, cancel: threading.Event | None = None) -> None:
        self.call = call
        self.cancel = cancel
        self._started = time.perf_counter()
        self.tool_id = ""
        self.accesses: tuple[Access, ...] = ()
        self.verdict: Verdict | None = None
        self.consent: Consent | None = None
        self.rewritten: Answer | None = None
        """The answer of a person who has put other arguments in the place of the model's."""
        self.changes: Sequence[Change] = ()
        self.remarks: list[Remark] = []
        """What happened on the way, and the model must know."""
        self.traceback = ""
        self.token: Token | None = None

    def result(self, status: Status, text: str, more: Blocks = (), **rest: Any) -> Result:
        """What the call came to."""
        blocks = ({"type": "text", "text": text}, *more)
        taken = (time.perf_counter() - self._started) * 1000
        return Result(
            self.call.tool, status, text, blocks, accesses=self.accesses, time_ms=taken, id=self.call.id, **rest
        )


def require_declared(changes: Sequence[Change], writes: Sequence[str]) -> None:
    """What a tool did not declare was neither judged nor locked: a fault of the tool, and nothing is done."""
    for change in changes:
        if change.path.real not in writes:
            raise AssertionError(f"a change of {change.path.named!r} was staged, but not declared")


def locate(access: Access, paths: Mapping[str, WorkPath], workspace: Workspace) -> Access:
    """The touch with its real path. A path inside a command may lie anywhere: policy and the boundary judge that."""
    if access.action not in ON_FILES:
        return replace(access, place=paths[access.place].real) if access.place in paths else access
    if not access.by_command:
        return replace(access, path=paths[access.target].real)
    home, target = os.path.realpath(workspace.home), workspace.spelled(access.target)
    named = os.path.join(home, os.path.expanduser(target))
    real = os.path.realpath(named)
    if access.action == "delete" and not access.below and os.path.islink(named):
        return replace(access, path=itself(named))
    if access.into and os.path.isdir(real):
        return replace(access, target=os.path.join(access.target, access.into), path=os.path.join(real, access.into))
    return replace(access, path=real)
