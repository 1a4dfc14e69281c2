"""Hooks of rule files: commands that run before and after the calls that their rules speak of.

A hook gets the call as JSON on stdin. A hook before a call that exits with anything but 0 denies the call, and its
output is the reason; a hook that cannot be run denies the call too. A hook after a call changes nothing.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from handrail.errors import CallCancelled, Denied, ToolError
from handrail.json_types import JsonObject
from handrail.model import Access, Call, Result, as_json
from handrail.policy.files import Event, Hook
from handrail.policy.guards import RuleSet
from handrail.text.display import escape, escape_lines
from handrail.workspace import Workspace

if TYPE_CHECKING:
    from handrail.pipeline.call_state import Judged
    from handrail.shell.command_host import CommandHost, OwnCommandEnd

_MOST_REASON = 2_000


class RuleHooks:
    """The hooks of one session."""

    def __init__(self, hooks: Sequence[Hook], workspace: Workspace, command_host: Callable[[], CommandHost]) -> None:
        self._home = os.path.realpath(workspace.home)
        roots = [os.path.realpath(root.path) for root in workspace.roots if not root.alias]
        person = os.path.realpath(os.path.expanduser("~"))
        fold = sys.platform == "darwin"
        self._hooks = [(hook, RuleSet(hook.rules, roots, person, deep=True, fold=fold)) for hook in hooks]
        self._command_host = command_host

    def run_before(self, judged: Judged) -> None:
        """Run the hooks before a call; raises `Denied` if one refuses it or cannot be run."""
        for hook in self._find("before", judged.accesses):
            ended = self._run(hook, describe_call(judged.call, "before_call", self._home), judged.cancel)
            if judged.cancel and judged.cancel.is_set():
                raise CallCancelled
            if ended.reason or ended.exit_code != 0:
                why = describe_refusal(ended, hook.seconds)
                raise Denied(rule=f"hook `{escape(hook.command)}`", why=why, source=escape(hook.source), allow="")

    def run_after(self, call: Call, accesses: Sequence[Access], result: Result) -> None:
        """Run the hooks after a call; one that fails is only logged."""
        for hook in self._find("after", accesses):
            value = {**describe_call(call, "after_call", self._home), "result": as_json(result)}
            try:
                ended = self._run(hook, value, None)
            except (OSError, ToolError) as error:
                why = str(error)
            else:
                if not ended.reason and ended.exit_code == 0:
                    continue
                why = describe_refusal(ended, hook.seconds)
            import logging  # only where something is wrong

            logging.getLogger("handrail").warning("the hook %r of %s failed: %s", hook.command, hook.source, why)

    def _find(self, event: Event, accesses: Sequence[Access]) -> list[Hook]:
        return [
            hook
            for hook, rules in self._hooks
            if hook.event == event and (not hook.rules or any(rules.find(access) for access in accesses))
        ]

    def _run(self, hook: Hook, value: JsonObject, cancel: threading.Event | None) -> OwnCommandEnd:
        return self._command_host().run_own(
            hook.command,
            self._home,
            hook.seconds,
            confined=hook.confined,
            input=f"{json.dumps(value, default=repr)}\n".encode("ascii"),
            cancel=cancel,
        )


def describe_call(call: Call, event: str, workspace: str) -> dict[str, object]:
    """The JSON that a hook gets on stdin."""
    arguments = dict(call.arguments)
    return {"event": event, "id": call.id or None, "tool": call.tool, "arguments": arguments, "workspace": workspace}


def describe_refusal(ended: OwnCommandEnd, seconds: float) -> str:
    """Why a hook denies a call: what it printed, or how it ended."""
    if ended.reason == "timeout":
        return f"the hook did not end within {seconds:g} s"
    if ended.reason == "output":
        return "the hook printed too much"
    printed = escape_lines(ended.output.strip()[:_MOST_REASON])
    return printed or f"exit status {ended.exit_code}"
