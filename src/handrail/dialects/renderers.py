"""Renderers: the shape in which a dialect gives a result to the model.

`text` is the plain text of the tool. `envelope` is one JSON object with status, data, text, error, stats and context,
the same for every tool. `object` is plain words too, but where a tool's entry names data, its success is one JSON
object of just these.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from handrail.frozen import frozen
from handrail.model import Call, Result
from handrail.text.display import replace_surrogates

_STATUS = {"ok": "success", "partial": "partial", "error": "error", "denied": "error"}


@frozen
class RenderContext:
    """Inputs of a renderer besides the result."""

    call: Call
    home: str
    """The directory that relative paths start from."""
    data: Mapping[str, str]
    """Names of the dialect -> our data; only these are shown."""
    codes: Mapping[str, str]
    quiet: Sequence[str] = ()
    """Notes that are left out."""


Renderer = Callable[[Result, RenderContext], Result]


def text(result: Result, _: RenderContext) -> Result:
    """The text of the tool, unchanged."""
    return result


def envelope(result: Result, context: RenderContext) -> Result:
    """One JSON object; absent data is left out."""
    data = _select_data(result.data, context)
    about_call: dict[str, object] = {"cwd": context.home, "params_input": dict(context.call.arguments)}
    if result.accesses and result.accesses[0].path:
        about_call["path_resolved"] = os.path.relpath(result.accesses[0].path, os.path.realpath(context.home))
    whole: dict[str, object] = {"status": _STATUS[result.status], "data": data, "text": result.text}
    if result.error:
        code = context.codes.get(result.error.code, "EXECUTION_ERROR")
        whole["error"] = {"code": code, "message": result.error.message}
    whole |= {"stats": {"time_ms": round(result.time_ms)}, "context": about_call}
    return _to_json(result, whole)


def object_of_data(result: Result, context: RenderContext) -> Result:
    """A success as the data that the tool's entry names; every tool has `ok` and `path` (absolute)."""
    if not context.data or not result.ok:
        return result
    target = result.accesses[0].target if result.accesses else ""
    known = {"ok": True, "path": os.path.normpath(os.path.join(context.home, target)), **result.data}
    whole = {name: value for name, value in _select_data(known, context).items() if value != []}
    notes = [note.text for note in result.notes if note.code not in context.quiet and note.text]
    if notes:
        whole["notes"] = notes
    return _to_json(result, whole)


def _select_data(known: Mapping[str, object], context: RenderContext) -> dict[str, object]:
    """Return the data to show under the dialect's names, without absent values."""
    chosen = {theirs: known.get(ours) for theirs, ours in context.data.items()}
    return {name: value for name, value in chosen.items() if value is not None and value is not False}


def _to_json(result: Result, whole: Mapping[str, object]) -> Result:
    text = replace_surrogates(json.dumps(whole, ensure_ascii=False, indent=2, default=repr))
    return replace(result, text=text, blocks=({"type": "text", "text": text}, *result.blocks[1:]))


RENDERERS: Mapping[str, Renderer] = {"text": text, "envelope": envelope, "object": object_of_data}
