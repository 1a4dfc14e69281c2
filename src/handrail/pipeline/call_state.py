"""A call on its way through the corridor: what is known of it so far, for its result and its record."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from handrail.files.commit import Change
from handrail.journal import Token
from handrail.model import Call, Result, Status, Touch, Verdict
from handrail.pipeline.approve import Consent
from handrail.pipeline.prepared import Answer
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
        self.touches: tuple[Touch, ...] = ()
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
            self.call.tool, status, text, blocks, touches=self.touches, time_ms=taken, id=self.call.id, **rest
        )


def require_declared(changes: Sequence[Change], writes: Sequence[str]) -> None:
    """What a tool did not declare was neither judged nor locked: a fault of the tool, and nothing is done."""
    for change in changes:
        if change.path.real not in writes:
            raise AssertionError(f"a change of {change.path.named!r} was staged, but not declared")


def locate(touch: Touch, paths: Mapping[str, WorkPath], workspace: Workspace) -> Touch:
    """The touch with its real path. A path inside a command may lie anywhere: policy and the boundary judge that."""
    if touch.action not in ON_FILES:
        return replace(touch, place=paths[touch.place].real) if touch.place in paths else touch
    if not touch.by_command:
        return replace(touch, path=paths[touch.target].real)
    home, target = os.path.realpath(workspace.home), workspace.spelled(touch.target)
    named = os.path.join(home, os.path.expanduser(target))
    real = os.path.realpath(named)
    if touch.action == "delete" and not touch.below and os.path.islink(named):
        return replace(touch, path=itself(named))
    if touch.into and os.path.isdir(real):
        return replace(touch, target=os.path.join(touch.target, touch.into), path=os.path.join(real, touch.into))
    return replace(touch, path=real)
