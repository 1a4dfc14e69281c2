"""A call as a sentence: "edited src/app.py", "ran pytest -q"."""

from __future__ import annotations

import json
import os
from typing import NamedTuple

from handrail.journal.queries import FileRow, describe_undo
from handrail.journal.timeline import TimelineCall

_INFINITIVES = {"read": "read", "write": "write", "delete": "delete", "run": "run", "network": "reach", "call": "call"}
_PAST = {"read": "read", "write": "wrote", "delete": "deleted", "run": "ran", "network": "reached", "call": "called"}
_UNCHANGED = {"write": "left unchanged:", "delete": "left in place:"}
_OWN = {"Restore": "restored", "Draft": "kept a draft:", "Job": "changed in the background:"}
"""Verbs for the changes that no tool of a model makes."""
_MOST_TARGET = 300


class Sentence(NamedTuple):
    """What a call did, or wanted to do, to what."""

    verb: str
    target: str
    more: int = 0
    """Further targets."""

    def __str__(self) -> str:
        return f"{self.verb} {self.target}" + (f" and {self.more} more" if self.more else "")


def describe_call(call: TimelineCall) -> Sentence:
    """The sentence of a call; who made it is not in it."""
    row = call.row
    if call.row.is_undo:
        act, _, which = describe_undo(row.tool, row.arguments).partition(" of ")
        return Sentence({"undo": "undid", "redo": "redid"}.get(act, act), f"call {which}" if which else "nothing")
    did = {"denied": "wanted to", "error": "tried to"}.get(row.status, "")
    run = next((access[1] for access in row.accesses if access[0] == "run"), "")
    if not row.accesses and row.status == "denied":  # it was refused before it was known what it touches
        run = _find_text(row.arguments, "command")
    if run and row.tool not in _OWN and (call.row.command is not None or not call.files):
        return Sentence("ran" if not did or row.exit_code else f"{did} run", run[:_MOST_TARGET])
    if call.files and not did:
        return _describe_files(row.tool, call.files, row.workspace)
    if query := _find_text(row.arguments, "pattern", unless="replacement"):
        return Sentence(f"{did} search for".strip() if did else "searched for", query)
    if not row.accesses:
        return Sentence(f"{did} call" if did else "called", f"{row.tool} {_describe_arguments(row.arguments)}".strip())
    action, target, *path = row.accesses[0]
    shown = shorten(path[0] if path and path[0] else target, row.workspace)
    more = len({access[1] for access in row.accesses}) - 1
    if did:
        return Sentence(f"{did} {_INFINITIVES.get(action, action)}", shown, more)
    return Sentence((_UNCHANGED | _PAST if row.status == "unfinished" else _PAST | _UNCHANGED)[action], shown, more)


def _describe_files(tool: str, files: tuple[FileRow, ...], workspace: str) -> Sentence:
    verbs = {describe_change(file) for file in files}
    verb = verbs.pop() if len(verbs) == 1 else "changed"
    if len(files) == 1 and verb == "changed":
        verb = "edited"
    return Sentence(_OWN.get(tool, verb), *_name_files(files, workspace))


def _name_files(files: tuple[FileRow, ...], workspace: str) -> tuple[str, int]:
    first = shorten(files[0].path, workspace)
    if files[0].moved_from and len(files) == 1:
        return f"{shorten(files[0].moved_from, workspace)} to {first}", 0
    return first, len(files) - 1


def describe_change(file: FileRow) -> str:
    """What became of a file, in a word."""
    if file.moved_from:
        return "moved"
    if file.before == "":
        return "created"
    return "deleted" if file.after == "" else "changed"


def shorten(path: str, workspace: str) -> str:
    """A path below the workspace without the part they share."""
    if workspace and path.startswith(workspace.rstrip("/") + "/"):
        return path[len(workspace.rstrip("/")) + 1 :]
    return os.path.basename(path) or path if path == workspace else path


def _find_text(arguments: object, name: str, *, unless: str = "") -> str:
    """The text of an argument; empty if there is none, or another argument."""
    values = arguments if isinstance(arguments, dict) else {}
    value = values.get(name)
    return value[:_MOST_TARGET] if isinstance(value, str) and unless not in values else ""


def _describe_arguments(arguments: object) -> str:
    values = arguments if isinstance(arguments, dict) else {}
    return ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in values.items())[:_MOST_TARGET]
