"""Policy: touches in, a verdict out. It sees what would be done to which resource, never which tool does it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from handrail.nouns import Touch, Verdict


class Policy(Protocol):
    """Decides one call, from what it will touch."""

    @property
    def hides(self) -> Sequence[str] | None:
        """Globs of all that may not be read, so that a search does not even open it; None if that is not known.

        What a search finds is judged all the same, path by path, unless this is empty.
        """

    def judge(self, touches: Sequence[Touch]) -> Verdict:
        """The strictest verdict over all touches."""


class WorkspacePolicy:
    """The default: files may be read and changed where the workspace allows it, and commands run if they are held.

    What lies outside the roots, and writing in a read-only root, is refused by the workspace before policy is asked. A
    command is asked about unless ``confined`` says that a kernel boundary holds it.
    """

    def __init__(self, confined: Callable[[], bool] = lambda: False) -> None:
        self._confined = confined

    hides: Sequence[str] = ()

    def judge(self, touches: Sequence[Touch]) -> Verdict:
        for touch in touches:
            if touch.tier == "destructive":
                return Verdict("deny", "workspace", f"{touch.target!r} is destructive ({touch.why})")
        if any(touch.action == "network" and not touch.by_command for touch in touches):
            return Verdict("deny", "workspace", "network is not allowed by the default policy")
        if any(touch.action == "run" for touch in touches) and not self._confined():
            return Verdict("ask", "workspace", "no boundary holds commands here (`handrail doctor` says why)")
        return Verdict("allow", "workspace", "files inside the workspace may be read and changed")
