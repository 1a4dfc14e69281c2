"""The hooks of each agent: what their input means, and how an answer is written."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal

from handrail.errors import ToolError
from handrail.frozen import frozen
from handrail.shell.patch_command import as_patch
from handrail.text.patches.patch import parse_patch

Kind = Literal["prompt", "before", "asked", "after", "failed", "stop", "other"]
_KINDS: dict[str, Kind] = {
    "UserPromptSubmit": "prompt",
    "PreToolUse": "before",
    "PermissionRequest": "asked",
    "PostToolUse": "after",
    "PostToolUseFailure": "failed",
    "Stop": "stop",
    # Gemini CLI's names.
    "BeforeAgent": "prompt",
    "BeforeTool": "before",
    "AfterTool": "after",
    "AfterAgent": "stop",
}


@frozen
class Contract:
    """What we know about one agent: its tools, hooks, shell and sandbox."""

    name: str
    """The agent, as the journal names it."""
    commands: Mapping[str, str]
    """The tools that run commands, each with the argument that holds the command."""
    edits: Mapping[str, str]
    """The tools that change files, each with the argument that names the file."""
    reads: Mapping[str, str] = field(default_factory=dict)
    """The tools that read one file, each with the argument that names it."""
    patches: Mapping[str, str] = field(default_factory=dict)
    """The tools that apply a patch, each with the argument that holds it."""
    names: Mapping[str, str] = field(default_factory=dict)
    """What its model calls our tools and arguments (see `Dialect.with_names`)."""
    read_only_modes: Sequence[str] = ("plan",)
    asks: bool = True
    """Whether a hook can make the agent ask the person."""
    wraps: bool = True
    """Whether its shell can hand a command to Handrail after the agent has allowed it."""
    has_flat_answers: bool = False
    """Whether the answer of a hook is one flat object (`decision`, `reason`), as in Gemini CLI."""
    has_mounted_sandbox: bool = False
    """Whether its own sandbox restricts nothing but mounts and the network, so that `/proc` shows all of it."""


CONTRACTS = {
    "claude": Contract(
        "claude-code",
        commands={"Bash": "command"},
        edits={"Edit": "file_path", "Write": "file_path", "MultiEdit": "file_path", "NotebookEdit": "notebook_path"},
        reads={"Read": "file_path"},
        names={
            "tool_read": "Read",
            "tool_edit": "Edit",
            "tool_write": "Write",
            "tool_notebook_edit": "NotebookEdit",
            "tool_bash": "Bash",
            "arg_bash_background": "run_in_background",
        },
    ),
    "codex": Contract(
        "codex",
        commands={"Bash": "command"},
        edits={},
        patches={"apply_patch": "command", "Bash": "command"},
        names={"tool_edit": "apply_patch", "tool_apply_patch": "apply_patch"},
        asks=False,
        has_mounted_sandbox=True,
    ),
    "opencode": Contract(
        "opencode",
        commands={"bash": "command"},
        edits={"edit": "filePath", "write": "filePath"},
        reads={"read": "filePath"},
        patches={"apply_patch": "patchText"},
        names={"tool_read": "read", "tool_edit": "edit", "tool_write": "write", "tool_bash": "bash"},
        asks=False,
    ),
    "gemini": Contract(
        "gemini-cli",
        commands={"run_shell_command": "command"},
        edits={"replace": "file_path", "write_file": "file_path"},
        reads={"read_file": "file_path"},
        names={"tool_read": "read_file", "tool_edit": "replace", "tool_write": "write_file"},
        asks=False,  # it can, but waits forever if nobody is there to answer
        wraps=False,
        has_flat_answers=True,
    ),
    "qwen": Contract(
        "qwen-code",
        commands={"run_shell_command": "command"},
        edits={"edit": "file_path", "write_file": "file_path", "notebook_edit": "notebook_path"},
        reads={"read_file": "file_path"},
        names={"tool_read": "read_file", "tool_edit": "edit", "tool_write": "write_file"},
        wraps=False,
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
    arguments: Mapping[str, object]
    call: str
    """The agent's own id of the tool call, or else a checksum of the tool and its arguments."""
    prompt: str
    mode: str
    subagent: str
    """The subagent that it comes from; empty for the agent itself."""
    fields: Mapping[str, object]

    @classmethod
    def parse(cls, agent: str, raw: bytes) -> HookEvent:
        """Read a hook's input; raises `ValueError`."""
        contract = CONTRACTS.get(agent)
        fields = json.loads(raw)
        if contract is None or not isinstance(fields, dict):
            raise ValueError("the agent is not known, or the input of its hook is no JSON object")
        given = fields.get("tool_input")
        arguments = given if isinstance(given, dict) else {}
        tool = str(fields.get("tool_name", ""))
        return cls(
            contract,
            _KINDS.get(str(fields.get("hook_event_name")), "other"),
            str(fields.get("session_id", "")),
            str(fields.get("cwd", "")),
            tool,
            arguments,
            str(fields.get("tool_use_id") or _name_call(tool, arguments)),
            str(fields.get("prompt", "")),
            str(fields.get("permission_mode", "")),
            str(fields.get("agent_id", "")),
            fields,
        )

    @property
    def command(self) -> str:
        """The command that the tool runs; empty for another tool."""
        return self._get_argument(self.contract.commands)

    @property
    def in_background(self) -> bool:
        """Whether the command is not waited for."""
        return bool(self.arguments.get(self.contract.names.get("arg_bash_background", "")))

    @property
    def edited(self) -> Sequence[str]:
        """The files that the tool changes."""
        if named := self._get_argument(self.contract.edits):
            return [named]
        text = self._get_argument(self.contract.patches)
        return _list_patched(text, self.tool in self.contract.commands) if text else ()

    @property
    def failure(self) -> str:
        """Why the tool failed; empty if it did not."""
        answer = self.fields.get("tool_response")
        error = self.fields.get("error") or (answer.get("error") if isinstance(answer, dict) else "")
        return str(error or "") or ("it failed" if self.kind == "failed" else "")

    @property
    def read(self) -> str:
        """The file that the tool reads; empty for another tool."""
        return self._get_argument(self.contract.reads)

    def _get_argument(self, names: Mapping[str, str]) -> str:
        value = self.arguments.get(names.get(self.tool, ""))
        return value if isinstance(value, str) else ""


def _list_patched(text: str, is_command: bool) -> list[str]:
    """The files that a patch names, or a command that applies one; empty if neither can be parsed."""
    directory = ""
    if is_command:
        call = as_patch(["bash", "-lc", text])
        if call is None:
            return []
        text, directory = call
    try:
        operations = parse_patch(text)
    except ToolError:
        return []
    return [os.path.join(directory, path) for one in operations for path in one.paths]


def _name_call(tool: str, arguments: Mapping[str, object]) -> str:
    text = json.dumps([tool, arguments], sort_keys=True) if tool else ""
    return f"{zlib.crc32(text.encode()):08x}" if text else ""


def decide(contract: Contract, decision: Literal["deny", "ask"], why: str) -> bytes:
    """The output of a hook that denies a tool call, or makes the agent ask the person."""
    if contract.has_flat_answers:
        return json.dumps({"decision": decision, "reason": why}).encode()
    output = {"hookEventName": "PreToolUse", "permissionDecision": decision, "permissionDecisionReason": why}
    return json.dumps({"hookSpecificOutput": output}).encode()


def inform(contract: Contract, lines: str) -> bytes:
    """The output of a `PostToolUse` hook that shows the model more lines; empty if the agent takes none."""
    if not lines or contract.has_flat_answers:
        return b""
    output = {"hookEventName": "PostToolUse", "additionalContext": lines}
    return json.dumps({"hookSpecificOutput": output}).encode()


def tell(line: str) -> bytes:
    """The output of a hook that shows the person one line."""
    return json.dumps({"systemMessage": line}).encode() if line else b""
