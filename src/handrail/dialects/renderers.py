"""Renderers: the shape in which a dialect hands a result to the model.

`text` is the plain words of the tool. `envelope` is one JSON object with status, data, text, error, stats and context,
the same for every tool. `object` is plain words too, but where a tool's entry names data, its success is one JSON
object of just these.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from handrail.model import Call, Result
from handrail.text.display import replace_surrogates

_STATUS = {"ok": "success", "partial": "partial", "error": "error", "denied": "error"}


@dataclass(frozen=True, slots=True)
class Frame:
    """What a renderer needs to know besides the result."""

    call: Call
    home: str
    """The directory that relative paths start from."""
    data: Mapping[str, str]
    """Which of our data are shown, under which names."""
    codes: Mapping[str, str]
    quiet: Sequence[str] = ()
    """Notes that are not said."""


Renderer = Callable[[Result, Frame], Result]


def text(result: Result, _: Frame) -> Result:
    """As the tool said it."""
    return result


def envelope(result: Result, frame: Frame) -> Result:
    """One JSON object; what is not said is left out."""
    data = _named(result.data, frame)
    context: dict[str, Any] = {"cwd": frame.home, "params_input": dict(frame.call.arguments)}
    if result.accesses and result.accesses[0].path:
        context["path_resolved"] = os.path.relpath(result.accesses[0].path, os.path.realpath(frame.home))
    whole: dict[str, Any] = {"status": _STATUS[result.status], "data": data, "text": result.text}
    if result.error:
        code = frame.codes.get(result.error.code, "EXECUTION_ERROR")
        whole["error"] = {"code": code, "message": result.error.message}
    whole |= {"stats": {"time_ms": round(result.time_ms)}, "context": context}
    return _as_json(result, whole)


def as_object(result: Result, frame: Frame) -> Result:
    """A success as the data that the tool's entry names; `ok` and `path` (absolute) are known for every tool."""
    if not frame.data or not result.ok:
        return result
    target = result.accesses[0].target if result.accesses else ""
    known = {"ok": True, "path": os.path.normpath(os.path.join(frame.home, target)), **result.data}
    whole = {name: value for name, value in _named(known, frame).items() if value != []}
    notes = [note.text for note in result.notes if note.code not in frame.quiet and note.text]
    if notes:
        whole["notes"] = notes
    return _as_json(result, whole)


def _named(known: Mapping[str, Any], frame: Frame) -> dict[str, Any]:
    """What is shown of the data, under the dialect's names; what is not there is left out."""
    named = {theirs: known.get(ours) for theirs, ours in frame.data.items()}
    return {name: value for name, value in named.items() if value is not None and value is not False}


def _as_json(result: Result, whole: Mapping[str, Any]) -> Result:
    said = replace_surrogates(json.dumps(whole, ensure_ascii=False, indent=2, default=repr))
    return replace(result, text=said, blocks=({"type": "text", "text": said}, *result.blocks[1:]))


RENDERERS: Mapping[str, Renderer] = {"text": text, "envelope": envelope, "object": as_object}
