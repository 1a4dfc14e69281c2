"""Commands of the person that run before and after the calls of an agent, and can deny a call.

A hook is written as `TOOLS: COMMAND`, where TOOLS are names with `*` and `|`. The command gets the call as JSON on
stdin, in the shape of `handrail batch`; afterwards also its result. A hook before a call that exits with anything but 0
denies the call, and what it printed is the reason.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from handrail.cli.output import UsageError
from handrail.errors import Denied
from handrail.frozen import frozen
from handrail.model import Call, Result, as_json
from handrail.text.display import escape

_SECONDS = 60
_MOST_REASON = 2_000


@frozen
class ToolHook:
    """A command and the tools whose calls it is run for."""

    tools: tuple[str, ...]
    command: str

    def concerns(self, tool: str) -> bool:
        return any(fnmatchcase(tool, pattern) for pattern in self.tools)


def parse_hook(text: str) -> ToolHook:
    """Read `TOOLS: COMMAND`; raises `UsageError`."""
    tools, colon, command = text.partition(":")
    names = tuple(name.strip() for name in tools.split("|"))
    if not colon or not command.strip() or not all(names):
        raise UsageError(f"the hook {escape(text)!r} must be TOOLS: COMMAND, such as 'Edit|Write: ./check-path'")
    return ToolHook(names, command.strip())


class Hooks:
    """The hooks of a session: its `before_call` and `after_call`."""

    def __init__(self, before: Sequence[str], after: Sequence[str], workspace: str) -> None:
        self._before = [parse_hook(text) for text in before]
        self._after = [parse_hook(text) for text in after]
        self._workspace = workspace

    def before_call(self, call: Call) -> None:
        """Run the hooks of a call; raises `Denied` if one refuses it or cannot be run."""
        for hook in self._before:
            if hook.concerns(call.tool):
                code, printed = self._run(hook, _describe(call))
                if code:
                    why = escape(printed.strip()) or f"exit status {code}"
                    raise Denied(rule="hook", why=why, source=f"hook `{escape(hook.command)}`", allow="")

    def after_call(self, call: Call, result: Result) -> None:
        """Run the hooks of a call that has ended; what they return changes nothing."""
        for hook in self._after:
            if hook.concerns(call.tool):
                self._run(hook, {**_describe(call), "result": as_json(result)})

    def _run(self, hook: ToolHook, value: dict[str, Any]) -> tuple[int, str]:
        try:
            ended = subprocess.run(  # noqa: S602 - the person's own command, from their configuration
                hook.command,
                shell=True,
                cwd=self._workspace,
                input=json.dumps(value).encode("ascii"),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return 1, f"the hook did not end within {_SECONDS} s"
        except OSError as error:
            return 1, f"the hook cannot be started: {error.strerror}"
        return ended.returncode, ended.stdout.decode("utf-8", "replace")[:_MOST_REASON]


def _describe(call: Call) -> dict[str, Any]:
    return {"id": call.id or None, "tool": call.tool, "arguments": dict(call.arguments)}
