"""The parse step: translate a call from the dialect's names to ours, and its arguments to typed ones.

Arguments are read leniently where they are unambiguous, and every mistake is reported at once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from handrail.dialects import Dialect
from handrail.errors import BadArguments, BadJson
from handrail.pipeline.call_state import Parsed, Received
from handrail.secrets.redaction import Redaction
from handrail.text.display import escape

if TYPE_CHECKING:
    from handrail.dialects import Spec, ToolEntry
    from handrail.tools.tool import Arguments


def read_arguments(arguments: Mapping[str, Any] | str | None) -> Mapping[str, Any]:
    """Arguments as a mapping; models and command lines also send them as a string of JSON."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError) as error:
            raise BadJson(why=str(error)) from None
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        raise BadJson(why="the arguments are not an object")
    return arguments


def parse(received: Received, dialect: Dialect, redaction: Redaction) -> Parsed:
    """The tool and its typed arguments; raises `UnknownTool` or `BadArguments`."""
    name = received.call.tool
    entry, ours, unknown = dialect.translate(name, redaction.restore(received.call.arguments))
    tool = dialect.tool(name)
    args = _parse_arguments(tool.args, ours, unknown, dialect.spec(name), entry)
    return Parsed(received, entry, tool, args, dialect.limits(name))


def _parse_arguments(
    args: type[Arguments], ours: Mapping[str, Any], unknown: Sequence[str], spec: Spec, entry: ToolEntry
) -> Arguments:
    """The arguments as the tool takes them; raises `BadArguments` with all that is wrong, in the dialect's names."""
    problems = [_report_unknown(name, list(spec.schema["properties"])) for name in unknown]
    for name in spec.schema.get("required", ()):  # a dialect may need what the tool itself could do without
        inner = entry.rename.get(name, name)
        if inner not in ours and not args.declared()[inner].is_required:
            problems.append(f"{name}: {_report_missing(spec.schema, [name])}")
    try:
        parsed = args.parse(ours)
    except ValueError as error:
        from pydantic_core import ValidationError  # a ValueError; the tool has imported pydantic-core

        if not isinstance(error, ValidationError):
            raise
        theirs = {inner: outer for outer, inner in entry.rename.items()}
        for one in error.errors(include_url=False):
            place = [theirs.get(str(part), str(part)) for part in one["loc"]]
            problems.append(f"{_place(place)}: {_problem(one, spec.schema, place)}")
    if problems:
        raise BadArguments(problems="\n".join(f"- {problem}" for problem in problems))
    return parsed


def _report_unknown(name: str, known: list[str]) -> str:
    import difflib  # slow to import, and only needed for mistakes

    near = difflib.get_close_matches(name, known, n=1)
    return f"{escape(name)}: unknown argument; " + (
        f"did you mean {near[0]}?" if near else f"the arguments are {', '.join(known)}"
    )


def _place(parts: list[str]) -> str:
    if not parts:  # a rule about the arguments together
        return "arguments"
    return escape(parts[0]) + "".join(f"[{part}]" if part.isdigit() else f".{escape(part)}" for part in parts[1:])


def _find_schema(schema: Mapping[str, Any], place: list[str]) -> Mapping[str, Any]:
    """The part of a schema that speaks of one argument, also inside a list of objects."""
    for part in place:
        schema = schema.get("items", {}) if part.isdigit() else schema.get("properties", {}).get(part, {})
    return schema


def _report_missing(schema: Mapping[str, Any], place: list[str]) -> str:
    wanted = _find_schema(schema, place)
    return f"missing; give {wanted.get('description', 'a value')} ({wanted.get('type', 'any')})"


def _problem(error: Any, schema: Mapping[str, Any], place: list[str]) -> str:
    if error["type"] == "missing":
        return _report_missing(schema, place)
    if error["type"] == "extra_forbidden":
        return "unknown argument"
    got = repr(error["input"])
    message = error["msg"][:1].lower() + error["msg"][1:]
    return f"{message}, got {got if len(got) <= 60 else got[:60] + '...'}"
