"""Tool definitions and results for OpenAI: Chat Completions and Responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from handrail.wire.images import data_url

if TYPE_CHECKING:
    from handrail.dialects import Spec


def chat_tool(spec: Spec) -> dict[str, Any]:
    """Return a tool definition for Chat Completions."""
    function = {"name": spec.name, "description": spec.description, "parameters": dict(spec.schema)}
    return {"type": "function", "function": function}


def chat_image_message(call_id: str, images: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a user message with the images of a call, because a tool message holds text only."""
    urls = [{"type": "image_url", "image_url": {"url": data_url(image)}} for image in images]
    return {"role": "user", "content": [{"type": "text", "text": f"Shown by {call_id}:"}, *urls]}


def response_tool(spec: Spec) -> dict[str, Any]:
    """Return a tool definition for Responses. It is not strict: that would make every argument required."""
    definition = {"name": spec.name, "description": spec.description, "parameters": dict(spec.schema)}
    return {"type": "function", **definition, "strict": False}


def function_output(call_id: str, text: str, images: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the input item that answers a function call in Responses."""
    parts = [{"type": "input_image", "image_url": data_url(image)} for image in images]
    output = [{"type": "input_text", "text": text}, *parts] if parts else text
    return {"type": "function_call_output", "call_id": call_id, "output": output}
