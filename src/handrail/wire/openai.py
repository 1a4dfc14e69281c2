"""Tool definitions and results for OpenAI: Chat Completions and Responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from handrail.json_types import JsonObject
from handrail.wire.images import make_data_url

if TYPE_CHECKING:
    from handrail.dialects import Spec


def build_chat_tool(spec: Spec) -> dict[str, object]:
    """Return a tool definition for Chat Completions."""
    function = {"name": spec.name, "description": spec.description, "parameters": dict(spec.schema)}
    return {"type": "function", "function": function}


def build_chat_image_message(call_id: str, images: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Return a user message with the images of a call, because a tool message holds text only."""
    return {"role": "user", "content": build_chat_content(f"Shown by {call_id}:", images)}


def build_chat_content(text: str, images: Sequence[Mapping[str, object]]) -> list[JsonObject]:
    """Return the content of a user message with images for Chat Completions."""
    urls = [{"type": "image_url", "image_url": {"url": make_data_url(image)}} for image in images]
    return [{"type": "text", "text": text}, *urls]


def build_response_content(text: str, images: Sequence[Mapping[str, object]]) -> list[JsonObject]:
    """Return the content of a user message with images for Responses."""
    parts = [{"type": "input_image", "image_url": make_data_url(image)} for image in images]
    return [{"type": "input_text", "text": text}, *parts]


def build_response_tool(spec: Spec) -> dict[str, object]:
    """Return a tool definition for Responses. It is not strict: that would make every argument required."""
    definition = {"name": spec.name, "description": spec.description, "parameters": dict(spec.schema)}
    return {"type": "function", **definition, "strict": False}


def build_function_output(call_id: str, text: str, images: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Return the input item that answers a function call in Responses."""
    output = build_response_content(text, images) if images else text
    return {"type": "function_call_output", "call_id": call_id, "output": output}
