"""A prepared call and a person's answer as plain JSON.

What goes over the wire is bounded: long lines, long diffs and long lists are cut, what is missing is said in
`shortened`, and a file of which not all hunks are sent can only be wanted as a whole. What comes back is taken only if
it has exactly the shape of an answer: whatever else it may be, it is no yes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import SimpleNamespace
from typing import Any, cast

from handrail.approval.unix_socket import Broken
from handrail.errors import ToolError
from handrail.model import Access, Call, Verdict
from handrail.pipeline.context import Proposed
from handrail.pipeline.prepared import Answer, Prepared
from handrail.text import lines
from handrail.text.diff import MOST_CHARS, Hunk, LeftOut

_MOST = 2_000_000
"""Characters of a question, all in all."""
_MOST_TOUCHES = 500
_MOST_FILES = 500
_MOST_TARGET = 100_000
_MOST_ARGUMENTS = 200_000
_MOST_TEXT = 1_000_000
"""Characters of a file that can still be changed in an editor."""
_MOST_ROW = MOST_CHARS - 100
"""So that a line that is cut here is not cut again where it is shown."""
_TOUCH = ("action", "target", "by_command", "tier", "why", "doubt", "place")
_VERDICT = ("decision", "rule", "why", "source", "allow")


@dataclass(frozen=True, slots=True)
class Question:
    """What another process asks."""

    prepared: Prepared
    """As much of it as can be shown; it cannot be run."""
    workspace: str
    shortened: Sequence[str]
    """What is not shown."""


class _Room:
    """What may still be said."""

    def __init__(self) -> None:
        self.left = _MOST
        self.shortened: list[str] = []

    def cut(self, text: str, most: int, what: str) -> str:
        most = max(0, min(most, self.left))
        self.left -= min(len(text), most)
        if len(text) <= most:
            return text
        self.shortened.append(f"{len(text) - most} characters of {what}")
        return f"{text[:most]} [{len(text) - most} characters more]"


def question(prepared: Prepared, workspace: str) -> dict[str, Any]:
    """A call that asks, to be sent."""
    room = _Room()
    accesses = _touches(prepared, room)
    arguments = _arguments(prepared, room)
    command = getattr(prepared.args, "command", None)
    return {
        "tool": room.cut(prepared.call.tool, 1000, "the tool's name"),
        "arguments": arguments,
        "command": command if arguments is not None and isinstance(command, str) else None,
        "touches": accesses,
        "verdict": {name: room.cut(getattr(prepared.verdict, name), 20_000, "the rule") for name in _VERDICT},
        "files": _files(prepared, room),
        "workspace": workspace,
        "shortened": room.shortened,
    }


def _touches(prepared: Prepared, room: _Room) -> list[dict[str, Any]]:
    found = sorted(prepared.accesses, key=lambda access: access.action == "read")  # what only looks is left out first
    if len(found) > _MOST_TOUCHES:
        room.shortened.append(f"{len(found) - _MOST_TOUCHES} of {len(found)} effects")
    return [
        {name: getattr(access, name) for name in _TOUCH}
        | {"target": room.cut(access.target, _MOST_TARGET, f"what it would {access.action}")}
        for access in found[:_MOST_TOUCHES]
    ]


def _arguments(prepared: Prepared, room: _Room) -> dict[str, Any] | None:
    """Only needed to change a command; too much of them is not sent, and then it cannot be changed."""
    arguments = dict(prepared.call.arguments)
    try:
        size = len(json.dumps(arguments, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return None
    if size > min(_MOST_ARGUMENTS, room.left):
        return None
    room.left -= size
    return arguments


def _files(prepared: Prepared, room: _Room) -> list[dict[str, Any]]:
    try:
        proposed = prepared.proposed()
    except ToolError:  # why it cannot be shown may itself tell too much; what is touched may be told
        named = ", ".join(f"{access.action} {access.target[:200]}" for access in prepared.accesses[:20])
        room.shortened.append(f"what would change; the call wants to {named}")
        return []
    if len(proposed) > _MOST_FILES:
        room.shortened.append(f"{len(proposed) - _MOST_FILES} of {len(proposed)} files")
    return [_file(one, room) for one in proposed[:_MOST_FILES]]


def _file(one: Proposed, room: _Room) -> dict[str, Any]:
    path = room.cut(one.path, 10_000, "a name")
    found = [_hunk(hunk, room) for hunk in one.hunks]
    sent = [hunk for hunk in found if hunk]
    whole = len(sent) == len(found) and path == one.path
    if not whole:
        missing = one.hunks[len(sent) :]
        room.shortened.append(f"{len(missing)} of {len(found)} changed places of {path}")
        old, new = sum(hunk.old_count for hunk in missing), sum(hunk.new_count for hunk in missing)
        first = missing[0] if missing else Hunk(1, 1, ())
        sent.append(
            {
                "old_first": first.old_first,
                "new_first": first.new_first,
                "rows": [],
                "left_out": [len(missing), old, new],
            }
        )
    text = one.text if whole and len(one.text) <= min(_MOST_TEXT, room.left) else ""
    room.left -= len(text)
    return {
        "path": path,
        "created": one.before is None,
        "deleted": one.after is None,
        "hunks": sent,
        "text": text,
        "parts": one.parts and whole,
    }


def _hunk(hunk: Hunk, room: _Room) -> dict[str, Any] | None:
    """None if there is no room for it, nor for any after it."""
    rows = [[sign, _row(row)] for sign, row in hunk.rows]
    size = sum(len(row) + 10 for _, row in rows) + 60
    if size > room.left:
        room.left = 0
        return None
    room.left -= size
    rest = hunk.left_out
    left_out = [rest.places, rest.old_count, rest.new_count] if rest else None
    return {"old_first": hunk.old_first, "new_first": hunk.new_first, "rows": rows, "left_out": left_out}


def _row(row: str) -> str:
    body = lines.body(row)
    if len(body) <= MOST_CHARS:
        return row
    return f"{body[:_MOST_ROW]} [{len(body) - _MOST_ROW} characters more]{lines.ending(row)}"


def asked(value: Mapping[str, Any]) -> Question:
    """What was sent; raises `Broken` if it is no question."""
    try:
        return _asked(value)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Broken from None


def _asked(value: Mapping[str, Any]) -> Question:
    call = Call(_text(value["tool"]), _arguments_of(value["arguments"]))
    accesses = tuple(Access(**{name: _plain(access[name]) for name in _TOUCH}) for access in value["touches"])
    verdict = Verdict(**{name: _text(value["verdict"][name]) for name in _VERDICT})  # type: ignore[arg-type]
    files = tuple(_proposed(one) for one in value["files"])
    args = cast("Any", SimpleNamespace(command=value["command"]))
    prepared = Prepared(call, cast("Any", None), args, None, accesses, {}, verdict, _not_here, lambda: files)
    return Question(prepared, _text(value["workspace"]), [_text(one) for one in value["shortened"]])


def _not_here() -> str:
    raise AssertionError("what another process asks is shown file by file")


def _proposed(one: Mapping[str, Any]) -> Proposed:
    before = None if _flag(one["created"]) else b""
    after = None if _flag(one["deleted"]) else b""
    found = [
        Hunk(
            _number(hunk["old_first"]),
            _number(hunk["new_first"]),
            tuple((_text(sign), _text(row)) for sign, row in hunk["rows"]),
            LeftOut(*map(_number, hunk["left_out"])) if hunk["left_out"] else None,
        )
        for hunk in one["hunks"]
    ]
    return Proposed(_text(one["path"]), before, after, found, _text(one["text"]), _flag(one["parts"]))


def answer(given: Answer) -> dict[str, Any]:
    """A person's answer, to be sent back."""
    return asdict(given)


def answered(value: Any, asked: Mapping[str, Any]) -> Answer:
    """What was sent back; raises `Broken` if it is no answer, or not one to what was ``asked``."""
    said = _answered(value)
    files = {one["path"]: one for one in asked["files"]}
    chosen = all(path in files and files[path]["parts"] for path in said.hunks or ())
    if not chosen or any(path not in files or not files[path]["text"] for path in said.contents or ()):
        raise Broken
    return said


def _answered(value: Any) -> Answer:
    try:
        hunks, contents, arguments = value["hunks"], value["contents"], value["arguments"]
        if value["lasting"] not in ("once", "session", "always"):
            raise Broken
        return Answer(
            _flag(value["yes"]),
            _text(value["reason"]),
            value["lasting"],
            None if hunks is None else {_text(path): [_number(one) for one in hunks[path]] for path in hunks},
            None if contents is None else {_text(path): _text(contents[path]) for path in contents},
            None if arguments is None else _arguments_of(arguments),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Broken from None


def _arguments_of(value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise TypeError
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError
    return value


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool) else _text(value)
