"""The hooks of each agent: what their input means, and how an answer is written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Literal

from handrail.frozen import frozen

Kind = Literal["prompt", "before", "after", "failed", "stop", "end", "other"]
_KINDS: dict[str, Kind] = {
    "UserPromptSubmit": "prompt",
    "PreToolUse": "before",
    "PostToolUse": "after",
    "PostToolUseFailure": "failed",
    "Stop": "stop",
    "SessionEnd": "end",
}


@frozen
class Contract:
    """How one agent calls its own tools."""

    name: str
    """The agent, as the journal names it."""
    commands: Mapping[str, str]
    """The tools that run commands, each with the argument that holds the command."""
    edits: Mapping[str, str]
    """The tools that change files, each with the argument that names the file."""
    reads: Mapping[str, str] = field(default_factory=dict)
    """The tools that read one file, each with the argument that names it."""
    read_only_modes: Sequence[str] = ("plan",)


CONTRACTS = {
    "claude": Contract(
        "claude-code",
        commands={"Bash": "command"},
        edits={"Edit": "file_path", "Write": "file_path", "MultiEdit": "file_path", "NotebookEdit": "notebook_path"},
        reads={"Read": "file_path"},
    ),
}


@frozen
class HookEvent:
    """One event of an agent."""

    contract: Contract
    kind: Kind
    session: str
    cwd: str
    tool: str
    arguments: Mapping[str, Any]
    call: str
    """The agent's own id of the tool call."""
    prompt: str
    mode: str
    fields: Mapping[str, Any]

    @classmethod
    def parse(cls, agent: str, raw: bytes) -> HookEvent:
        """Read a hook's input; raises `ValueError`."""
        contract = CONTRACTS.get(agent)
        fields = json.loads(raw)
        if contract is None or not isinstance(fields, dict):
            raise ValueError("an unknown hook")
        arguments = fields.get("tool_input")
        return cls(
            contract,
            _KINDS.get(str(fields.get("hook_event_name")), "other"),
            str(fields.get("session_id", "")),
            str(fields.get("cwd", "")),
            str(fields.get("tool_name", "")),
            arguments if isinstance(arguments, dict) else {},
            str(fields.get("tool_use_id", "")),
            str(fields.get("prompt", "")),
            str(fields.get("permission_mode", "")),
            fields,
        )

    @property
    def command(self) -> str | None:
        """The command that the tool runs; None for another tool."""
        command = self.arguments.get(self.contract.commands.get(self.tool, ""))
        return command if isinstance(command, str) else None

    @property
    def edited(self) -> str:
        """The file that the tool changes; empty for another tool."""
        named = self.arguments.get(self.contract.edits.get(self.tool, ""))
        return named if isinstance(named, str) else ""

    @property
    def read(self) -> str:
        """The file that the tool reads; empty for another tool."""
        named = self.arguments.get(self.contract.reads.get(self.tool, ""))
        return named if isinstance(named, str) else ""


def decide(decision: Literal["deny", "ask"], why: str) -> bytes:
    """The answer of a hook that refuses a tool call, or has the person asked about it."""
    return _write({"permissionDecision": decision, "permissionDecisionReason": why})


def tell(line: str) -> bytes:
    """The answer of a hook that shows the person a line."""
    return json.dumps({"systemMessage": line}).encode() if line else b""


def _write(output: Mapping[str, Any]) -> bytes:
    return json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", **output}}).encode()
