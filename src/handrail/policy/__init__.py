"""Policy: judges accesses to resources, whichever tool makes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # the modes are in this package, and help lists them: it imports little
    from handrail.model import Access, Verdict

PROJECT = "handrail.toml"
"""The file with the rules of a project, in its directory."""


class Policy(Protocol):
    """Judge one call by its accesses."""

    @property
    def hides(self) -> Sequence[str] | None:
        """Globs of files that may not be read, so that searches skip them; None if they are not known.

        Matches of a search are also judged, path by path, unless this is empty.
        """

    def judge(self, accesses: Sequence[Access]) -> Verdict:
        """The strictest verdict over all touches."""


class AllowAll:
    """Allows every call without asking: for sandboxes of the host's own. The workspace boundary still holds.

    No secret is guarded and every command runs, destructive ones included.
    """

    hides: Sequence[str] = ()

    def judge(self, accesses: Sequence[Access]) -> Verdict:  # noqa: ARG002 - a policy's signature
        from handrail.model import Verdict

        return Verdict("allow", "AllowAll", "the host allows everything")
