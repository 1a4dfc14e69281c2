"""Calls as lines of JSON, answered one by one: `handrail batch`, and the functions of a script.

in:   {"id": any JSON value, optional, "tool": "Read", "arguments": {...}}
out:  {"id", "tool", "status", "text", "blocks", "data", ...}: see `as_json`
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from handrail.json_types import JsonObject
from handrail.model import Failure, Result, as_json
from handrail.text.display import escape, replace_surrogates
from handrail.text.json_values import as_line, name_kind, parse_json, write_json

WANTED = '{"id": 1, "tool": "Read", "arguments": {"file_path": "README.md"}}'


class Malformed(Exception):
    """An invalid line: the error code, the reason, and the id and tool if they are valid."""

    def __init__(self, code: str, why: str, id: str = "null", tool: str = "") -> None:
        super().__init__(why)
        self.code = code
        self.id = id
        self.tool = tool


@dataclass(frozen=True, slots=True)
class CallLine:
    """A line that asks for a call."""

    tool: str
    arguments: JsonObject
    name: str
    """The id of the line, as JSON."""

    @property
    def id(self) -> str:
        """The id as the session gets it: a text as it is, null as no id, anything else as JSON."""
        value = parse_json(self.name.encode())
        return "" if value is None else replace_surrogates(value) if isinstance(value, str) else self.name

    def answer(self, result: Result) -> str:
        return _render_result(self.name, result)


def read_calls(read_line: Callable[[int], bytes], most: int) -> Iterator[CallLine | str]:
    """The calls that lines ask for; for an invalid line, its answer. A line may have up to ``most`` bytes."""
    while line := read_line(most + 1):
        if len(line) > most and not line.endswith(b"\n"):
            while (rest := read_line(1 << 20)) and not rest.endswith(b"\n"):
                pass
            size = f"{most >> 20} MB"
            yield _render_error(Malformed("bad_json", f"The line is longer than {size} and was skipped. Send less."))
        elif line.strip():
            try:
                yield _parse_line(line)
            except Malformed as error:
                yield _render_error(error)


def _parse_line(line: bytes) -> CallLine:
    try:
        value = parse_json(line)
        name = write_json(value.get("id")) if isinstance(value, dict) else "null"
    except ValueError as error:
        raise Malformed("bad_json", f"The line is not valid JSON: {error}. Send one object a line: {WANTED}") from None
    if not isinstance(value, dict):
        raise Malformed("bad_arguments", f"The line is {name_kind(value)}. Send one object a line: {WANTED}")
    tool, arguments = value.get("tool"), value.get("arguments")
    if not isinstance(tool, str) or not tool:
        what = "is missing" if "tool" not in value else "is empty" if tool == "" else f"is {name_kind(tool)}"
        raise Malformed("bad_arguments", f'"tool" {what}. Give the name of a tool: {WANTED}', name)
    unknown = [key for key in value if key not in ("id", "tool", "arguments")]
    if "arguments" not in value and unknown:
        named = ", ".join(f'"{escape(key[:60])}"' for key in unknown[:3])
        raise Malformed("bad_arguments", f'"arguments" is missing, and {named} is not known. {WANTED}', name, tool)
    if arguments is not None and not isinstance(arguments, dict):
        raise Malformed("bad_arguments", f'"arguments" is {name_kind(arguments)}. Send an object: {WANTED}', name, tool)
    return CallLine(tool, arguments or {}, name)


def refuse(tool: str, code: str, text: str) -> Result:
    """The answer to a call that is not made."""
    return Result(tool, "error", text, ({"type": "text", "text": text},), error=Failure(code, text))


def _render_error(error: Malformed) -> str:
    return _render_result(error.id, refuse(error.tool, error.code, str(error)))


def _render_result(name: str, result: Result) -> str:
    """The answer as a line. The id goes back exactly as it came, even if it holds half a character."""
    answer = as_json(result)
    del answer["id"]
    return f'{{"id": {name}, {as_line(answer)[1:]}\n'
