"""`handrail batch`: one session over JSON lines, the stable contract for drivers in any language.

Each input line gets one output line before the next one is read, so that a driver may wait for every result. An
invalid line gets an error line, and the session continues.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator

from handrail.cli.common import (
    MOST_INPUT,
    CommandParser,
    add_dialect,
    add_matching,
    add_mode,
    add_workspace,
    find_person,
    name_kind,
    open_session,
    parse_json,
    write_json,
)
from handrail.cli.output import Stop, UsageError, as_line, on_terminal, warn, write
from handrail.text.display import escape, replace_surrogates

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    from typing import IO, Any

    from handrail.model import Result
    from handrail.pipeline.any_session import AnySession

_WANTED = '{"id": 1, "tool": "Read", "arguments": {"file_path": "README.md"}}'

_ABOUT = """\
Run one session over JSON lines: each input line is a call, each output line its result, written before the next call
is read.

in:   {"id": any JSON value, optional, "tool": "Read", "arguments": {...}}
out:  {"id", "tool", "status": "ok"|"partial"|"error"|"denied", "text", "blocks", "data", "notes",
       "error": {"code", "message"} or null, "accesses", "stats": {"time_ms"}}

Calls that need approval are asked where `handrail approve` runs, or here with --ask; otherwise they are refused.
Input is UTF-8, output ASCII. Blank lines are skipped. An invalid line gets the error code bad_json or bad_arguments,
and the session continues. A line may have up to 64 MB."""

_EXAMPLES = """\
examples:
  handrail batch calls.jsonl -w path/to/project
  echo '{"tool": "Read", "arguments": {"file_path": "README.md"}}' | handrail batch

exit codes: 0 at the end of the input, also if calls failed; 2 wrong usage; 130 interrupted"""


class Malformed(Exception):
    """An invalid line: the error code, the reason, and the id and tool if they are valid."""

    def __init__(self, code: str, why: str, id: str = "null", tool: str = "") -> None:
        super().__init__(why)
        self.code = code
        self.id = id
        self.tool = tool


def parser() -> argparse.ArgumentParser:
    parser = CommandParser("batch", _ABOUT, _EXAMPLES)
    parser.add_argument("file", metavar="FILE", nargs="?", default="-", help="JSON lines; - or nothing is stdin")
    add_workspace(parser)
    add_mode(parser)
    add_dialect(parser)
    add_matching(parser)
    parser.add_argument("--ask", action="store_true", help="ask at the terminal for calls that need approval")
    return parser


def run(options: argparse.Namespace) -> int:
    asker = find_person() if options.ask else None
    if options.ask and asker is None:
        raise UsageError("--ask needs a terminal; without --ask, calls that need approval are refused")
    with _open_input(options.file) as stream, open_session(options, asker) as session:
        for line in _read_lines(stream, options.file):
            if not write(_describe_limit() if line is None else _answer(session, line)):
                break
    return 0


@contextlib.contextmanager
def _open_input(name: str) -> Iterator[IO[bytes]]:
    if name == "-":
        if sys.stdin is None:
            raise UsageError("stdin is closed; give a file")
        if on_terminal(sys.stdin):
            warn(f"(reading calls from the terminal, one a line, such as {_WANTED}; Ctrl-D ends)")
        yield sys.stdin.buffer
        return
    try:
        stream = open(name, "rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise UsageError(f"{escape(name)} cannot be read: {error.strerror}; name a file of JSON lines, or -") from None
    with stream:
        yield stream


def _read_lines(stream: IO[bytes], name: str) -> Iterator[bytes | None]:
    """Every line that is not blank; None for one that is too long. Never reads past the line that it gives."""
    try:
        while line := stream.readline(MOST_INPUT + 1):
            if len(line) > MOST_INPUT and not line.endswith(b"\n"):
                while (rest := stream.readline(1 << 20)) and not rest.endswith(b"\n"):
                    pass
                yield None
            elif line.strip():
                yield line
    except OSError as error:
        raise Stop(f"{escape(name)} reading failed: {error.strerror}") from None


def _answer(session: AnySession, line: bytes) -> str:
    try:
        name, tool, arguments = _parse_line(line)
    except Malformed as error:
        return _render_error(error)
    return _render_result(name, session.call(tool, arguments, id=_call_id(name)))


def _parse_line(line: bytes) -> tuple[str, str, dict[str, Any]]:
    """The id, as JSON again, the tool and the arguments."""
    try:
        value = parse_json(line)
        name = write_json(value.get("id")) if isinstance(value, dict) else "null"
    except ValueError as error:
        raise Malformed("bad_json", f"The line is not valid JSON: {error}. Send one object a line: {_WANTED}") from None
    if not isinstance(value, dict):
        raise Malformed("bad_arguments", f"The line is {name_kind(value)}. Send one object a line: {_WANTED}")
    tool, arguments = value.get("tool"), value.get("arguments")
    if not isinstance(tool, str) or not tool:
        what = "is missing" if "tool" not in value else "is empty" if tool == "" else f"is {name_kind(tool)}"
        raise Malformed("bad_arguments", f'"tool" {what}. Give the name of a tool: {_WANTED}', name)
    unknown = [key for key in value if key not in ("id", "tool", "arguments")]
    if "arguments" not in value and unknown:
        named = ", ".join(f'"{escape(key[:60])}"' for key in unknown[:3])
        raise Malformed("bad_arguments", f'"arguments" is missing, and {named} is not known. {_WANTED}', name, tool)
    if arguments is not None and not isinstance(arguments, dict):
        raise Malformed(
            "bad_arguments", f'"arguments" is {name_kind(arguments)}. Send an object: {_WANTED}', name, tool
        )
    return name, tool, arguments or {}


def _call_id(written: str) -> str:
    """The id of a line as the session gets it: a text as it is, null as no id, anything else as JSON."""
    value = parse_json(written.encode())
    return "" if value is None else replace_surrogates(value) if isinstance(value, str) else written


def _describe_limit() -> str:
    return _render_error(
        Malformed("bad_json", f"The line is longer than {MOST_INPUT >> 20} MB and was skipped. Send less.")
    )


def _render_error(error: Malformed) -> str:
    from handrail.model import Failure, Result

    text = str(error)
    block = {"type": "text", "text": text}
    return _render_result(error.id, Result(error.tool, "error", text, (block,), error=Failure(error.code, text)))


def _render_result(name: str, result: Result) -> str:
    """The answer as a line. The id goes back exactly as it came, even if it holds half a character."""
    from handrail.model import as_json

    answer = as_json(result)
    del answer["id"]
    return f'{{"id": {name}, {as_line(answer)[1:]}\n'
