"""Events of a session: typed objects for the host, from the start of a call to its result.

One source serves all listeners: the listener of a session, that of a single call (`AsyncSession.stream`), and the
`logging` module. Secrets are replaced by placeholders before an event is made.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from handrail.errors import CallbackFailed, ToolError
from handrail.frozen import frozen
from handrail.model import Call, Result


@frozen
class ToolStarted:
    """A call has started."""

    call: Call


@frozen
class ToolProgress:
    """A call is still running: once a second for a command, and whenever a function reports its progress."""

    call: Call
    message: str
    seconds: float
    """Since the call started, without the time for which a person was asked."""
    done: float | None = None
    total: float | None = None


@frozen
class ToolOutput:
    """Output of a running command: whole lines, cleaned as in the result."""

    call: Call
    text: str
    omitted: int = 0
    """Bytes before this text that were left out, because the command prints faster than the host listens."""


@frozen
class ToolFinished:
    """A call has ended and is recorded: the last event of each call."""

    call: Call
    result: Result


SessionEvent = ToolStarted | ToolProgress | ToolOutput | ToolFinished
OnEvent = Callable[[SessionEvent], object]
"""Gets each event. Output and progress come from other threads than the call's, one event at a time for each call."""


@frozen
class Events:
    """Reports the calls of one session to its host."""

    on_event: OnEvent | None = None

    def report_start(self, call: Call, on_event: OnEvent | None) -> None:
        _log("%s %s: started", call)
        self.send(ToolStarted(call), on_event)

    def report_end(self, call: Call, result: Result, on_event: OnEvent | None) -> None:
        _log("%s %s: %s in %.1f ms", call, result.status, result.time_ms)
        self.send(ToolFinished(call, result), on_event)

    def send(self, event: SessionEvent, on_event: OnEvent | None) -> None:
        """Give an event to the session's listener and to the call's own."""
        for listener in (self.on_event, on_event):
            if listener:
                try:
                    listener(event)
                except Exception as fault:  # a listener does not stop a call
                    import logging  # only where something is wrong

                    message = "on_event, a callback of the host program, failed"
                    logging.getLogger("handrail").error(message, exc_info=fault)


@contextmanager
def naming(callback: str) -> Iterator[None]:
    """Turn an exception of a host's callback into a failure of the call that names the callback."""
    try:
        yield
    except ToolError:
        raise
    except Exception as error:
        raise CallbackFailed(callback=callback, why=f"{type(error).__name__}: {error}") from error


def _log(message: str, call: Call, *facts: object) -> None:
    # Slow to import: a host that has not imported it does not read its records either.
    if "logging" in sys.modules:
        import logging

        logging.getLogger("handrail").debug(message, call.tool, call.id or "-", *facts)
