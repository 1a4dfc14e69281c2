"""Tool definitions and results for Anthropic Messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from handrail.json_types import JsonObject

if TYPE_CHECKING:
    from handrail.dialects import Spec


def build_tool(spec: Spec) -> dict[str, object]:
    """Return a tool definition."""
    return {"name": spec.name, "description": spec.description, "input_schema": dict(spec.schema)}


def build_result_content(text: str, images: Sequence[Mapping[str, object]]) -> list[JsonObject]:
    """Return the content blocks of a tool result."""
    sources = [{"type": "base64", "media_type": image["mime_type"], "data": image["base64"]} for image in images]
    blocks = [{"type": "image", "source": source} for source in sources]
    return [{"type": "text", "text": text or "(nothing)"}, *blocks]
