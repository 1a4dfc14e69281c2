"""The Gemini protocol for the scripted model: `streamGenerateContent`, and `generateContent` for questions aside."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from handrail_demo.scripted_server import Line, Seen


def streamed(seen: Seen, line: Line) -> Iterator[str]:
    parts = _parts(seen, line)
    for part in parts[:-1]:
        yield f"data: {json.dumps(_reply([part]))}\n\n"
    yield f"data: {json.dumps(_reply(parts[-1:], finish='STOP'))}\n\n"


def whole(seen: Seen, line: Line) -> Iterator[str]:
    yield json.dumps(_reply(_parts(seen, line), finish="STOP"))


PROTOCOLS = {":streamGenerateContent": streamed, ":generateContent": whole}


def _parts(seen: Seen, line: Line) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = [{"text": line.text}] if line.text else []
    calls = [
        {"functionCall": {"id": f"call_{seen.number}_{number}", "name": name, "args": arguments}}
        for number, (name, arguments) in enumerate(line.uses)
    ]
    return parts + calls


def _reply(parts: list[dict[str, Any]], finish: str | None = None) -> dict[str, Any]:
    candidate = {
        "index": 0,
        "content": {"role": "model", "parts": parts},
        **({"finishReason": finish} if finish else {}),
    }
    usage = {"promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted"}
