"""Events of a session: callbacks of the host before and after each call, and records for the `logging` module."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

from handrail.model import Call, Result

BeforeCall = Callable[[Call], object]
"""Gets each call before its first step. An exception stops the call, which then fails with an internal error."""
AfterCall = Callable[[Call, Result], object]
"""Gets each call and its result, after it was recorded. An exception reaches whoever made the call."""


@dataclass(frozen=True, slots=True)
class Events:
    """Reports the calls of one session to its host. Secrets are already replaced by placeholders."""

    before: BeforeCall | None = None
    after: AfterCall | None = None

    def report_start(self, call: Call) -> None:
        _log("%s %s: started", call)
        if self.before:
            self.before(call)

    def report_end(self, call: Call, result: Result) -> None:
        _log("%s %s: %s in %.1f ms", call, result.status, result.time_ms)
        if self.after:
            self.after(call, result)


def _log(message: str, call: Call, *facts: object) -> None:
    # Slow to import: a host that has not imported it does not read its records either. The import waits for another
    # thread that is importing it just now.
    if "logging" in sys.modules:
        import logging

        logging.getLogger("handrail").debug(message, call.tool, call.id or "-", *facts)
