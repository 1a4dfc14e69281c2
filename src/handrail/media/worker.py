"""Run one task in the child process of `separate_process.py`."""

from __future__ import annotations

import os
from collections.abc import Iterable

from handrail.errors import ToolError
from handrail.json_types import JsonObject
from handrail.media import MediaLimits, outlines
from handrail.media.separate_process import confine, say

_INPUT, _OUTPUT, _ERRORS = 0, 1, 2


def main(task: JsonObject) -> None:
    """Do the task on standard input and answer in frames."""
    limits = MediaLimits(**task["limits"])
    confine(limits)
    with os.fdopen(os.dup(_OUTPUT), "wb") as out:
        os.dup2(_ERRORS, _OUTPUT)  # a library that prints must not get between the frames
        try:
            for head, raw in _answer_task(task, limits):
                say(out, head, raw)
        except ToolError as error:
            say(out, {"error": error.code, "facts": error.facts})
    os._exit(0)  # the answer is out: what a library does while it is taken down must not spoil it


def _answer_task(task: JsonObject, limits: MediaLimits) -> Iterable[tuple[JsonObject, bytes]]:
    if task["name"] == "outline":
        return outlines.answers(_INPUT, task["file"], task["start"], task["most"])
    if task["name"] == "image":
        from handrail.media import image_decoder  # imports an optional package

        return image_decoder.answers(_INPUT, task["size"], limits)
    from handrail.media import pdf_renderer  # imports optional packages

    return pdf_renderer.answers(_INPUT, task["size"], task["first"], task.get("last"), limits, task["name"] == "count")
