"""Failures of a call itself, and refusals."""

from __future__ import annotations

from typing import Any, ClassVar


class ToolError(Exception):
    """A call failed; ``facts`` say why."""

    code: ClassVar[str] = "internal_error"

    def __init__(self, **facts: Any) -> None:
        super().__init__(self.code, facts)
        self.facts: dict[str, Any] = facts
        self.wrap: str | None = None
        """The message around this one, for a failure inside a larger call."""

    def __str__(self) -> str:
        return f"{self.code}: " + ", ".join(f"{name}={value!r}" for name, value in self.facts.items())


class CallError(ToolError):
    """The call itself is wrong."""


class BadJson(CallError):
    code = "bad_json"


class UnknownTool(CallError):
    code = "unknown_tool"


class BadArguments(CallError):
    code = "bad_arguments"


class SessionOver(CallError):
    """The session was closed."""

    code = "session_over"


class CallCancelled(CallError):
    """The caller cancelled the call."""

    code = "cancelled"


class ToolFailed(CallError):
    """A function of the host's own raised an exception; ``why`` is its message."""

    code = "tool_failed"


class CallbackFailed(CallError):
    """A callback of the host raised an exception; ``callback`` is its name, ``why`` the message."""

    code = "callback_failed"


class Refusal(ToolError):
    """The call is not allowed; the result is `denied`."""


class OutsideWorkspace(Refusal):
    code = "outside_workspace"


class ReadOnlyRoot(Refusal):
    code = "read_only_root"


class Denied(Refusal):
    code = "denied"


class NeedsApproval(Refusal):
    code = "needs_approval"


class Dangerous(Refusal):
    """A command that no policy allows."""

    code = "dangerous"


class Bug(ToolError):
    """A fault of this program."""

    code = "internal_error"
