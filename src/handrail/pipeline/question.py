"""Build the `Question` about a judged call: the proposed changes as diffs, or the command as lines to read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from handrail.model import FileDiff, Question, Verdict
from handrail.pipeline.call_state import Judged, ObservedChanges, Proposed
from handrail.text.diff import format_header, format_hunk
from handrail.text.display import escape, escape_lines, replace_surrogates

_MOST_ASKED = 50
_MOST_WORDS = 200


def ask_about(
    judged: Judged, proposed: Sequence[Proposed] | None, *, workspace: str = "", session: str = ""
) -> Question:
    """The question about a call. ``proposed`` is None where the changes cannot be computed, or may not be shown."""
    files = tuple(map(file_diff, proposed or ()))
    command = judged.command
    return Question(
        judged.call,
        judged.accesses,
        _with_advice(judged.verdict, judged.verdict.why),
        files,
        command,
        "" if command is None else _find_command_argument(judged, command),
        _list_accesses(judged) if command is None else f"$ {escape_lines(command)}\n",
        workspace,
        session,
        shortened=("what would change",) if command is None and proposed is None else (),
        cancel=judged.cancel,
    )


def ask_about_changes(
    judged: Judged, verdict: Verdict, changes: ObservedChanges, *, workspace: str = "", session: str = ""
) -> Question:
    """The question whether the changes that a command has made in a draft are kept."""
    commands = [access for access in judged.accesses if access.action == "run"]
    left = changes.not_shown
    words = escape(" ".join((judged.command or "").split()))
    name = f"`{words if len(words) <= _MOST_WORDS else words[:_MOST_WORDS] + '...'}`" if words else "the command"
    return Question(
        judged.call,
        (*commands, *changes.asked[:_MOST_ASKED]),
        _with_advice(verdict, f"{name} has run. Keep its changes? {verdict.why}"),
        tuple(map(file_diff, changes.proposed)),
        summary=_list_accesses(judged),
        workspace=workspace,
        session=session,
        shortened=(f"{left} more {'path' if left == 1 else 'paths'} that would change",) if left else (),
        cancel=judged.cancel,
    )


def _with_advice(verdict: Verdict, why: str) -> Verdict:
    """The verdict as a person reads it."""
    return replace(verdict, why="; ".join(filter(None, (why, verdict.advice))))


def _list_accesses(judged: Judged) -> str:
    """List the accesses of a call, one a line; for a tool of the host's own also its arguments."""
    lines = [f"{access.action} {escape(access.target)}" for access in judged.accesses]
    if any(access.action == "call" for access in judged.accesses):
        lines.append(f"with {escape(json.dumps(dict(judged.call.arguments), ensure_ascii=False, default=str))}")
    return "".join(line + "\n" for line in lines)


def file_diff(proposed: Proposed) -> FileDiff:
    """A proposed change as text."""
    created, deleted = proposed.before is None, proposed.after is None
    return FileDiff(
        proposed.path,
        format_header(escape(proposed.path), created, deleted),
        tuple(replace_surrogates(format_hunk(hunk)) for hunk in proposed.hunks),
        replace_surrogates(proposed.description),
        created,
        deleted,
        _decode(proposed.before),
        proposed.text or _decode(proposed.after),
        proposed.parts,
        bool(proposed.text),
    )


def _decode(raw: bytes | None) -> str | None:
    try:
        return None if raw is None else raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def _find_command_argument(judged: Judged, command: str) -> str:
    """The name of the argument that holds the command; a list of words holds it as its last."""
    if getattr(judged.args, "command", None) != command:
        return ""
    arguments = judged.call.arguments
    last = {name: value[-1] if isinstance(value, list) and value else value for name, value in arguments.items()}
    return next((name for name, value in last.items() if value == command), "")
