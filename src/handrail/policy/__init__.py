"""Policy: touches in, a verdict out. It sees what would be done to which resource, never which tool does it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from handrail.model import Access, Verdict


class Policy(Protocol):
    """Decides one call, from what it will touch."""

    @property
    def hides(self) -> Sequence[str] | None:
        """Globs of all that may not be read, so that a search does not even open it; None if that is not known.

        What a search finds is judged all the same, path by path, unless this is empty.
        """

    def judge(self, accesses: Sequence[Access]) -> Verdict:
        """The strictest verdict over all touches."""


class AllowAll:
    """Allows every call without asking: for sandboxes of the host's own. The workspace boundary still holds.

    No secret is guarded and every command runs, destructive ones included.
    """

    hides: Sequence[str] = ()

    def judge(self, accesses: Sequence[Access]) -> Verdict:  # noqa: ARG002 - a policy's signature
        return Verdict("allow", "AllowAll", "the host allows everything")
