"""The tools that the Responses API defines itself: `apply_patch`, `shell`, `local_shell`. For the dialect `codex`."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from handrail.integrations.common import GivenSession, RequestedCall, sync_session
from handrail.model import Result

if TYPE_CHECKING:
    from openai.types.responses import ResponseInputItemParam, ResponseOutputItem, ToolParam
    from openai.types.responses.response_apply_patch_tool_call import Operation

CALLS = ("apply_patch_call", "shell_call", "local_shell_call")
_HEADS = {"create_file": "*** Add File: ", "update_file": "*** Update File: ", "delete_file": "*** Delete File: "}
_NOT_IN_A_DIFF = (*_HEADS.values(), "*** Move to: ", "*** Begin Patch", "*** End Patch")
_OTHER_FILES = "Not done: a diff may change only the file of its operation. Send one operation per file."
_OTHER_USER = "Not run: commands always run as the user of this session. Leave out the user."


def tools(session: GivenSession) -> list[ToolParam]:
    """`apply_patch` and `shell`; a model that knows `local_shell` instead is answered too."""
    if not sync_session(session).dialect.entries.keys() >= {"apply_patch", "shell"}:
        raise ValueError('the hosted tools need a session with dialect="codex"')
    return [{"type": "apply_patch"}, {"type": "shell", "environment": {"type": "local"}}]


def tool_calls(call: ResponseOutputItem) -> Sequence[RequestedCall]:
    """Translate a hosted call into tool calls; into none if it asks for something impossible."""
    if call.type == "apply_patch_call":
        patch = _to_patch(call.operation)
        return [RequestedCall("apply_patch", {"input": patch}, call.call_id)] if patch else []
    if call.type == "shell_call":
        commands = [["bash", "-lc", command] for command in call.action.commands]
        limit = call.action.timeout_ms
        return [RequestedCall("shell", {"command": command, "timeout_ms": limit}, call.call_id) for command in commands]
    assert call.type == "local_shell_call"
    action = call.action
    if action.user:
        return []
    prefix = ["env", *(f"{name}={value}" for name, value in action.env.items())] if action.env else []
    arguments = {"command": [*prefix, *action.command], "timeout_ms": action.timeout_ms}
    return [RequestedCall("shell", {**arguments, "workdir": action.working_directory}, call.call_id)]


def _to_patch(operation: Operation) -> str:
    """The operation as a patch of one file; empty if there is more in it than its path says."""
    diff = "" if operation.type == "delete_file" else operation.diff
    lines = diff.removesuffix("\n").split("\n") if diff else []
    if "\n" in operation.path or any(line.startswith(_NOT_IN_A_DIFF) for line in lines):
        return ""
    return "\n".join(["*** Begin Patch", _HEADS[operation.type] + operation.path, *lines, "*** End Patch"])


def output(call: ResponseOutputItem, results: Sequence[Result]) -> ResponseInputItemParam:
    item: Any
    if call.type == "apply_patch_call":
        status = "completed" if results and results[0].ok else "failed"
        text = results[0].text if results else _OTHER_FILES
        item = {"type": "apply_patch_call_output", "call_id": call.call_id, "status": status, "output": text}
    elif call.type == "shell_call":
        item = {"type": "shell_call_output", "call_id": call.call_id, "output": [*map(_describe_outcome, results)]}
        if call.action.max_output_length is not None:  # the API wants it back, and cuts by it
            item["max_output_length"] = call.action.max_output_length
    else:
        assert call.type == "local_shell_call"
        text = results[0].text if results else _OTHER_USER
        # The types know `id` alone, the guide of the API `call_id` alone: both are the same.
        item = {"type": "local_shell_call_output", "id": call.call_id, "call_id": call.call_id, "output": text}
    typed: ResponseInputItemParam = item
    return typed


def _describe_outcome(result: Result) -> dict[str, object]:
    """How a command ended, with both its streams as one; 126, as shells have it, for one that was not run."""
    if not result.ok and "exit_code" not in result.data:
        return {"stdout": "", "stderr": result.text, "outcome": {"type": "exit", "exit_code": 126}}
    if result.data.get("timed_out"):
        return {"stdout": result.text, "stderr": "", "outcome": {"type": "timeout"}}
    code = result.data.get("exit_code", 0)  # a patch given as a command has none
    if code is None:
        code = 128 + signal.Signals[result.data["signal"]]
    return {"stdout": result.text, "stderr": "", "outcome": {"type": "exit", "exit_code": code}}
