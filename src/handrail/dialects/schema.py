"""The JSON schema of a tool's arguments, under the names that a dialect uses."""

from __future__ import annotations

from collections.abc import Mapping

from handrail.tools.arguments import Arguments


def build_schema(args: type[Arguments], rename: Mapping[str, str]) -> dict[str, object]:
    """The schema of ``args`` under the names that a dialect uses."""
    schema = args.json_schema()
    schema["properties"] = {rename.get(name, name): value for name, value in schema["properties"].items()}
    schema["required"] = [rename.get(name, name) for name in schema.get("required", ())]
    return schema
