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
    open_session,
)
from handrail.cli.output import Stop, UsageError, on_terminal, warn, write
from handrail.text.display import escape
from handrail.tools.shared.call_lines import WANTED, read_calls

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    from typing import IO

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
        try:
            for line in read_calls(stream.readline, MOST_INPUT):
                if not isinstance(line, str):
                    line = line.answer(session.call(line.tool, line.arguments, id=line.id))
                if not write(line):
                    break
        except OSError as error:
            raise Stop(f"{escape(options.file)} reading failed: {error.strerror}") from None
    return 0


@contextlib.contextmanager
def _open_input(name: str) -> Iterator[IO[bytes]]:
    if name == "-":
        if sys.stdin is None:
            raise UsageError("stdin is closed; give a file")
        if on_terminal(sys.stdin):
            warn(f"(reading calls from the terminal, one a line, such as {WANTED}; Ctrl-D ends)")
        yield sys.stdin.buffer
        return
    try:
        stream = open(name, "rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise UsageError(f"{escape(name)} cannot be read: {error.strerror}; name a file of JSON lines, or -") from None
    with stream:
        yield stream
