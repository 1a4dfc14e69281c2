"""Policy: touches in, a verdict out. It sees what would be done to which resource, never which tool does it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from handrail.nouns import Touch, Verdict


class Policy(Protocol):
    """Decides one call, from what it will touch."""

    def judge(self, touches: Sequence[Touch]) -> Verdict:
        """The strictest verdict over all touches."""


class WorkspacePolicy:
    """The default: reading, writing and deleting files is allowed where the workspace allows it, all else is denied.

    What lies outside the roots, and writing in a read-only root, is refused by the workspace before policy is asked.
    """

    def judge(self, touches: Sequence[Touch]) -> Verdict:
        for touch in touches:
            if touch.action not in ("read", "write", "delete"):
                return Verdict("deny", "workspace", f"{touch.action} is not allowed by the default policy")
        return Verdict("allow", "workspace", "files inside the workspace may be read and changed")
