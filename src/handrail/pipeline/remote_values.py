"""The values of a remote session as JSON: results, events, errors, specs, reports, and rules.

Nothing is unpickled: neither side runs code of the other. A value that is not of the expected shape raises
`ValueError`, which ends the request it belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any, TypeVar, get_args

from handrail.dialects import Dialect, DialectError, Spec
from handrail.drafts.changes import FileSummary
from handrail.drafts.compare import ChangedOutside
from handrail.drafts.keep import DraftConflict
from handrail.drafts.store import NoDraft
from handrail.errors import ToolError, iterate_failures
from handrail.journal.undo import CannotUndo, Restored, UndoConflict, UndoReport
from handrail.journal.undo_selection import UnknownCall
from handrail.model import (
    Call,
    Failure,
    Note,
    Result,
    Status,
    access_as_json,
    read_access,
)
from handrail.pipeline.events import SessionEvent, ToolFinished, ToolOutput, ToolProgress, ToolStarted
from handrail.policy.files import PolicyError, PolicyFile, parse
from handrail.policy.modes import MODES
from handrail.policy.stricter import Restriction
from handrail.tools.tool import Hints

T = TypeVar("T")

_ERRORS: Mapping[str, type[Exception]] = {
    kind.__name__: kind
    for kind in (ValueError, TypeError, LookupError, OSError, PolicyError, DialectError, NoDraft, UnknownCall)
}
"""Exceptions of a session that the client raises as what they are."""
EXPECTED: tuple[type[Exception], ...] = (ToolError, CannotUndo, DraftConflict, *_ERRORS.values())
"""What a method of a session may raise; anything else is a bug."""


class RemoteFailed(RuntimeError):
    """The server failed in a way that has no class of its own here; the text names its exception."""


def read(kind: Callable[[Any], T], value: object) -> T:
    """Read a value with a function of this module; raises `ValueError` for another shape."""
    try:
        return kind(value)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"the other side sent a value that cannot be read: {error!r}") from None


def fail(dialect: Dialect, call: Call, error: Exception) -> Result:
    """The result of a call that could not be made."""
    code, text = "connection_lost", f"{type(error).__name__}: {error}"
    if isinstance(error, ToolError):
        error.facts.setdefault("tool", call.tool)
        code, text = error.code, dialect.render_error(error)
    failure, block = Failure(code, text), {"type": "text", "text": text}
    return Result(call.tool, "error", text, (block,), error=failure, id=call.id)


def result_as_json(result: Result) -> dict[str, object]:
    return {
        "tool": result.tool,
        "status": result.status,
        "text": result.text,
        "blocks": [dict(block) for block in result.blocks],
        "data": dict(result.data),
        "notes": [[note.code, note.text] for note in result.notes],
        "error": [result.error.code, result.error.message] if result.error else None,
        "accesses": [access_as_json(access) for access in result.accesses],
        "time_ms": result.time_ms,
        "id": result.id,
        "advice": result.advice,
    }


def read_result(value: Any) -> Result:
    if value["status"] not in get_args(Status):
        raise ValueError("a result without a status")
    return Result(
        str(value["tool"]),
        value["status"],
        str(value["text"]),
        tuple(dict(block) for block in value["blocks"]),
        dict(value["data"]),
        tuple(Note(str(code), str(text)) for code, text in value["notes"]),
        Failure(*map(str, value["error"])) if value["error"] else None,
        tuple(map(read_access, value["accesses"])),
        float(value["time_ms"]),
        str(value["id"]),
        str(value["advice"]),
    )


def event_as_json(event: SessionEvent) -> dict[str, object]:
    if isinstance(event, ToolOutput):
        return {"type": "output", "text": event.text, "omitted": event.omitted}
    if isinstance(event, ToolProgress):
        facts = {"message": event.message, "seconds": event.seconds, "done": event.done, "total": event.total}
        return {"type": "progress", **facts}
    return {"type": "started", "arguments": dict(event.call.arguments)}


def read_event(value: Any, call: Call) -> SessionEvent:
    """An event of a call; the last one, `ToolFinished`, is made of the result."""
    if value["type"] == "output":
        return ToolOutput(call, str(value["text"]), int(value["omitted"]))
    if value["type"] == "progress":
        return ToolProgress(call, str(value["message"]), float(value["seconds"]), value["done"], value["total"])
    return ToolStarted(replace(call, arguments=dict(value["arguments"])))


def is_sent(event: SessionEvent) -> bool:
    """Whether an event is a message of its own: the result is one already."""
    return not isinstance(event, ToolFinished)


def error_as_json(error: BaseException) -> dict[str, object]:
    if isinstance(error, ToolError):
        facts = {name: value for name, value in error.facts.items() if isinstance(value, str | int | float | None)}
        return {"code": error.code, "facts": facts, "text": str(error)}
    number = error.errno if isinstance(error, OSError) else None
    name = next((kind.__name__ for kind in type(error).__mro__ if kind.__name__ in _ERRORS), type(error).__name__)
    if isinstance(error, CannotUndo):
        name = "CannotUndo"
    if isinstance(error, DraftConflict):
        return {"name": "DraftConflict", "text": str(error), "conflicts": [asdict(one) for one in error.conflicts]}
    return {"name": name, "text": str(error), "errno": number, "strerror": getattr(error, "strerror", None)}


def read_error(value: Any) -> Exception:
    text = str(value["text"])[:4000]
    if "code" in value:
        kind = next((one for one in iterate_failures() if one.code == value["code"]), None)
        return kind(**dict(value["facts"])) if kind else RemoteFailed(text)
    name = value["name"]
    if name == "CannotUndo":
        return CannotUndo(text.removesuffix("; nothing can be undone"))
    if name == "DraftConflict":
        return DraftConflict([ChangedOutside(**one) for one in value["conflicts"]])
    known = _ERRORS.get(name)
    if known is None:
        return RemoteFailed(f"{name}: {text}")
    if issubclass(known, OSError) and isinstance(value["errno"], int):
        return known(value["errno"], str(value["strerror"]))
    return known(text)


def spec_as_json(spec: Spec) -> dict[str, object]:
    return asdict(spec)


def read_spec(value: Any) -> Spec:
    hints = Hints(**{name: bool(flag) for name, flag in value["hints"].items()})
    return Spec(str(value["name"]), str(value["description"]), dict(value["schema"]), hints)


def read_report(value: Any) -> UndoReport:
    return UndoReport(
        tuple(map(int, value["calls"])),
        tuple(Restored(one["path"], one["how"]) for one in value["restored"]),
        tuple(UndoConflict(one["path"], one["why"]) for one in value["conflicts"]),
        tuple(map(str, value["missing"])),
        tuple(map(str, value["unknown"])),
        str(value["warning"]),
    )


def read_summaries(value: Any) -> list[FileSummary]:
    return [FileSummary(str(one["path"]), one["how"], int(one["added"]), int(one["removed"]), str(one["description"]))
            for one in value]  # fmt: skip


def restriction_as_json(restriction: Restriction) -> dict[str, object]:
    """A restriction with the text of its rules, which the other side parses for its own paths."""
    rules = [{"path": one.path, "origin": one.origin, "text": one.text} for one in restriction.rules]
    return {"mode": restriction.mode, "rules": rules}


def read_restriction(value: Any, root: str) -> Restriction:
    """Raises `PolicyError` for rules that do not hold here."""
    if value["mode"] not in MODES:
        raise ValueError(f"unknown mode {value['mode']!r}; the modes are {', '.join(MODES)}")
    return Restriction(value["mode"], tuple(_read_rules(one, root) for one in value["rules"]))


def _read_rules(value: Any, root: str) -> PolicyFile:
    origin = value["origin"]
    if origin not in ("system", "user"):
        raise ValueError("rules of an unknown origin")
    return parse(str(value["text"]), f"client:{value['path']}", origin, root)
