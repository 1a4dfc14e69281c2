"""Being asked from another process: a session that nobody sits in front of asks whoever has attached elsewhere.

    wire.py      the sockets in the user's state directory, who may be on the other side, and JSON lines
    forms.py     a prepared call and a person's answer as plain JSON, bounded in size
    asking.py    the side that asks: everybody who is attached, and the first answer counts
    desk.py      the side that is attached: takes questions, and gives answers back

`handrail approve` is the terminal on top of the desk. Light to import: sockets are loaded when something is asked.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from handrail.pipeline.approve import nobody
from handrail.pipeline.prepared import Answer, Prepared

if TYPE_CHECKING:
    from handrail.pipeline.session import Session

ATTACH = "handrail approve"
"""What a person runs in a terminal, to be asked."""


class Approvers:
    """The `approve` of a session with no person of its own: `Session(root, approve=Approvers.for_workspace(root))`.

    Who is attached is looked up at every question, for people come and go.
    """

    def __init__(self, state: str, workspace: str | os.PathLike[str], *, always: bool = True) -> None:
        self._state = state
        self._workspace = os.path.realpath(workspace)
        self._always = always
        """Whether an answer may be written down as a rule, which holds for everybody on this machine."""

    @classmethod
    def for_workspace(cls, workspace: str | os.PathLike[str]) -> Approvers:
        """Ask those who are attached for this directory, in the user's own state directory."""
        from handrail.files.locks import state_directory

        return cls(state_directory(), workspace)

    @classmethod
    def of(cls, session: Session, *, always: bool = True) -> Approvers:
        """Those who are attached for the workspace of a session."""
        from handrail.files.locks import state_directory

        return cls(state_directory(session.settings.state), session.workspace.home, always=always)

    def answer(self, prepared: Prepared) -> Answer | None:
        """What the first person says who answers; None if nobody is attached, or the call is cancelled meanwhile."""
        from handrail.approval import attached

        if self._always:
            return attached.answer(self._state, self._workspace, prepared)
        answer = attached.answer(
            self._state, self._workspace, replace(prepared, verdict=replace(prepared.verdict, allow=""))
        )
        return replace(answer, lasting="session") if answer and answer.lasting == "always" else answer

    def __call__(self, prepared: Prepared) -> Answer:
        """The same; raises `NeedsApproval` with how a person can attach if nobody has."""
        answer = self.answer(prepared)
        if answer is None and prepared.cancel and prepared.cancel.is_set():
            return Answer(False, "the call was cancelled")
        if answer is None:
            raise nobody(prepared.verdict, ATTACH)
        return answer
