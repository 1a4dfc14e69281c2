"""Tool definitions and results in the shapes of MCP, for the server and for SDKs.

Pure functions from plain values to plain values; no SDK, no session, nothing heavy. A spec is an entry of a dialect's
`specs.json`: {"name", "id", "core", "hints", "description", "inputSchema"}.

The model reads only text and image blocks, because a client that finds `structuredContent` may show the model only
that. Data for programs is in `_meta`, under `RESULT_KEY`.
"""

from __future__ import annotations

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from handrail.json_types import JsonMapping, JsonObject
    from handrail.model import Result

RESULT_KEY = "handrail/result"
FRESHNESS = {"ttlMs": 300_000, "cacheScope": "private"}
"""How long a client may keep the list of tools: it does not change while the server lives."""
ALWAYS_LOAD = {"anthropic/alwaysLoad": True}
"""Tells a client that defers tools until they are searched for that this one is always wanted."""


_CODED = {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]}
OUTPUT_SCHEMA = {
    "type": "object",
    "properties": {
        "status": {"type": "string", "enum": ["ok", "partial", "error", "denied"]},
        "data": {"type": "object", "description": "facts of the call, by the tool"},
        "notes": {"type": "array", "items": _CODED},
        "error": {**_CODED, "type": ["object", "null"]},
        "time_ms": {"type": "number"},
    },
    "required": ["status", "data", "notes", "error"],
}
"""What `structuredContent` looks like, for every tool."""

ADDED = ("wait_for_previous",)
"""Arguments that some clients add to every call for their own use."""


def drop_client_arguments(arguments: Mapping[str, object] | None) -> JsonObject:
    """Drop the arguments that the client has added for itself."""
    return {name: value for name, value in (arguments or {}).items() if name not in ADDED}


def build_definition(spec: JsonMapping, structured: bool = False) -> JsonObject:
    """Return a tool as `tools/list` reports it; ``structured``: results will have `structuredContent`."""
    title = make_title(spec["name"])
    result = {
        "name": spec["name"],
        "title": title,
        "description": spec["description"],
        "inputSchema": spec["inputSchema"],
        "annotations": {"title": title, **convert_hints(spec["hints"])},
    }
    if structured:
        result["outputSchema"] = OUTPUT_SCHEMA
    if spec["core"]:
        result["_meta"] = ALWAYS_LOAD
    return result


def convert_hints(hints: Mapping[str, bool]) -> dict[str, bool]:
    """Return the hints of a tool under MCP's names."""
    return {
        "readOnlyHint": hints["read_only"],
        "destructiveHint": hints["destructive"],
        "idempotentHint": hints["idempotent"],
        "openWorldHint": hints["open_world"],
    }


def make_title(name: str) -> str:
    """A tool's name for people: `MultiEdit` and `multi_edit` are both "Multi edit", `LS` stays."""
    words: list[str] = []
    for part in name.replace("-", "_").split("_"):
        start = 0
        for at in range(1, len(part)):
            if part[at].isupper() and part[at - 1].islower():
                words.append(part[start:at])
                start = at
        words.append(part[start:])
    parts = [word if word.isupper() and len(word) > 1 else word.lower() for word in words if word]
    text = " ".join(parts)
    return text[:1].upper() + text[1:]


def call_result(result: Result, structured: bool = False) -> JsonObject:
    """Return a result as the result of `tools/call`."""
    facts = build_structured_content(result)
    response: dict[str, object] = {"content": build_content(result.blocks, result.text), "isError": not result.ok}
    if structured:
        response["structuredContent"] = facts
    response["_meta"] = {RESULT_KEY: facts}
    return response


def build_failed_result(text: str, code: str) -> dict[str, object]:
    """Return a failure that happened before there was a result."""
    facts = {"status": "error", "data": {}, "notes": [], "error": {"code": code}}
    return {"content": [{"type": "text", "text": text}], "isError": True, "_meta": {RESULT_KEY: facts}}


def build_structured_content(result: Result) -> dict[str, object]:
    """Return the facts of a result for programs; the text has the sentences."""
    return {
        "status": result.status,
        "data": dict(result.data),
        "notes": [{"code": note.code, "text": note.text} for note in result.notes],
        "error": {"code": result.error.code} if result.error else None,
        "time_ms": round(result.time_ms, 3),
    }


def build_content(blocks: Iterable[Mapping[str, object]], text: str) -> list[dict[str, object]]:
    """Return the blocks in MCP's shape. An image always has a text beside it; there is at least one block."""
    converted: list[JsonObject] = []
    for block in blocks:
        if block["type"] == "image":
            converted.append({"type": "image", "data": block["base64"], "mimeType": block["mime_type"]})
        else:
            converted.append({"type": "text", "text": block["text"]})
    if not any(block["type"] == "text" and block["text"].strip() for block in converted):
        images = sum(block["type"] == "image" for block in converted)
        summary = text or ("(an image)" if images == 1 else f"({images} images)" if images else "")
        converted = [{"type": "text", "text": summary}, *(block for block in converted if block["type"] == "image")]
    return converted
