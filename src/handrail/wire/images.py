"""The images of a result: blocks with `base64` and `mime_type`."""

from __future__ import annotations

from collections.abc import Mapping

from handrail.json_types import JsonMapping
from handrail.model import Result


def get_images(result: Result) -> list[JsonMapping]:
    """Return the image blocks of a result, which come in addition to its text."""
    return [block for block in result.blocks if block["type"] == "image"]


def make_data_url(image: Mapping[str, object]) -> str:
    """Return an image block as a `data:` URL."""
    return f"data:{image['mime_type']};base64,{image['base64']}"
