"""JSON schemas for models, derived from arguments: inlined, without titles, nulls and what goes without saying."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

_UNSAID = ("title", "minLength", "maxLength", "minimum", "exclusiveMinimum")
"""What a model need not read: a text that is empty or a number below zero is refused with a sentence that says so."""


def schema_of(args: type[BaseModel], rename: Mapping[str, str]) -> dict[str, Any]:
    """The schema of ``args`` under the names that a dialect uses."""
    found = args.model_json_schema()
    definitions = found.pop("$defs", {})
    schema: dict[str, Any] = _plain(found, definitions)
    schema.pop("description", None)
    schema["properties"] = {rename.get(name, name): value for name, value in schema["properties"].items()}
    schema["required"] = [rename.get(name, name) for name in schema.get("required", ())]
    return schema


def _plain(node: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(node, list):
        return [_plain(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        target = {**definitions[node["$ref"].rsplit("/", 1)[1]], **{k: v for k, v in node.items() if k != "$ref"}}
        return _plain(target, definitions)
    choices = [choice for choice in node.get("anyOf", ()) if choice != {"type": "null"}]
    if len(choices) == 1:  # an optional argument: may be left out, need not be null
        node = {**choices[0], **{key: value for key, value in node.items() if key != "anyOf"}}
    named = "properties" in node
    return {
        key: {name: _plain(item, definitions) for name, item in value.items()}
        if named and key == "properties"
        else _plain(value, definitions)
        for key, value in node.items()
        if key not in _UNSAID and not (key == "default" and not value)
    }
