"""Remember calls that were refused on a suspicion, so that the same call is made when it is sent again.

They are files in the state directory, because some clients start a process for every call.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os

from handrail.errors import BadHunk, Placeholder, ToolError
from handrail.model import Call

_MOST_KEPT = 200


class RefusedCalls:
    """The suspicious calls of one workspace."""

    def __init__(self, state: str, workspace: str) -> None:
        self._directory = os.path.join(state, "refused")
        self._workspace = workspace

    def note(self, call: Call, error: ToolError) -> None:
        """Remember a call if it was refused for a line that looks like a placeholder."""
        if not isinstance(error, Placeholder) and not (isinstance(error, BadHunk) and error.placeholder):
            return
        with contextlib.suppress(OSError):  # then it is refused again
            os.makedirs(self._directory, 0o700, exist_ok=True)
            os.close(os.open(self._find_path(call), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._remove_oldest()

    def has(self, call: Call) -> bool:
        """Whether exactly this call was refused before."""
        return os.path.exists(self._find_path(call))

    def _find_path(self, call: Call) -> str:
        words = json.dumps([self._workspace, call.tool, dict(call.arguments)], sort_keys=True, default=repr)
        return os.path.join(self._directory, hashlib.sha256(words.encode("ascii")).hexdigest())

    def _remove_oldest(self) -> None:
        with os.scandir(self._directory) as entries:
            kept = sorted(entries, key=lambda entry: entry.stat(follow_symlinks=False).st_mtime_ns)
        for entry in kept[:-_MOST_KEPT]:
            os.unlink(entry.path)
