"""Renderers: the shape in which a dialect hands a result to the model.

`text` is the plain words of the tool. `envelope` is one JSON object with status, data, text, error, stats and context,
the same for every tool.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from handrail.nouns import Call, Result

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


Renderer = Callable[[Result, Frame], Result]


def text(result: Result, _: Frame) -> Result:
    """As the tool said it."""
    return result


def envelope(result: Result, frame: Frame) -> Result:
    """One JSON object; what is not said is left out."""
    named = {theirs: result.data.get(ours) for theirs, ours in frame.data.items()}
    data = {name: value for name, value in named.items() if value is not None and value is not False}
    context: dict[str, Any] = {"cwd": frame.home, "params_input": dict(frame.call.arguments)}
    if result.touches and result.touches[0].path:
        context["path_resolved"] = os.path.relpath(result.touches[0].path, os.path.realpath(frame.home))
    whole: dict[str, Any] = {"status": _STATUS[result.status], "data": data, "text": result.text}
    if result.error:
        code = frame.codes.get(result.error.code, "EXECUTION_ERROR")
        whole["error"] = {"code": code, "message": result.error.message}
    whole |= {"stats": {"time_ms": round(result.time_ms)}, "context": context}
    said = json.dumps(whole, ensure_ascii=False, indent=2, default=repr)
    return replace(result, text=said, blocks=({"type": "text", "text": said}, *result.blocks[1:]))


RENDERERS: Mapping[str, Renderer] = {"text": text, "envelope": envelope}
