"""`handrail call`: one tool call from a terminal or a script."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

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
from handrail.cli.output import UsageError, as_document, escape_for_terminal, on_terminal, show_diff, warn, write
from handrail.errors import ToolError
from handrail.model import as_json
from handrail.text.display import escape
from handrail.text.json_values import name_kind, parse_json

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    from handrail.dialects import Dialect
    from handrail.model import Result
    from handrail.pipeline.any_session import AnySession

_NOT_RUN = 125  # as `env` and `timeout` say that they could not start a command
_EXIT = {"ok": 0, "partial": 0, "error": 1, "denied": 3}

_ABOUT = """\
Make one tool call and print the result that a model would read.

Each call is a new session that has read nothing yet. An existing file can be changed only after it was read in the
same session, unless an Edit quotes whole lines of it exactly. With --read-first the file is read just before the call,
in the same session.
For several calls in one session use `handrail batch`.

Calls that need approval are asked at the terminal: the diff or the command is shown, and one key answers. Without a
terminal the question goes to `handrail approve`; if that does not run, the call is refused."""

_EXAMPLES = """\
examples:
  handrail call Read file_path=src/app.py offset=-20
  handrail call Edit --read-first --diff file_path=a.py old_string=foo new_string=bar
  handrail call Write '{"file_path": "notes.md", "content": "one\\ntwo\\n"}'
  handrail call MultiEdit --read-first file_path=a.py edits='[{"old_string": "1", "new_string": "2"}]'
  handrail call Bash --exit-code command='make test'
  generate-arguments | handrail call Edit - -w path/to/project --json

exit codes: 0 done (or partly: a note tells how to continue), 1 the tool failed, 2 wrong usage, 3 not allowed;
with --exit-code those of the command"""


def parser() -> argparse.ArgumentParser:
    parser = CommandParser("call", _ABOUT, _EXAMPLES)
    parser.add_argument("tool", metavar="TOOL", help="the tool's name in the dialect; `handrail tools` lists them")
    parser.add_argument(
        "words",
        metavar="ARGUMENT",
        nargs="*",
        default=[],
        help="key=value pairs (numbers and true/false are converted), one JSON object, or - for JSON on stdin",
    )
    add_workspace(parser)
    add_mode(parser)
    add_dialect(parser)
    add_matching(parser)
    parser.add_argument("--read-first", action="store_true", help="read the file first, so that it may be changed")
    parser.add_argument("--json", action="store_true", help="print the whole result as JSON")
    parser.add_argument("--diff", action="store_true", help="show what changed on stderr, as a unified diff")
    parser.add_argument(
        "--exit-code", action="store_true", help="for Bash: exit with the command's own code, or 125 if none was run"
    )
    return parser


def run(options: argparse.Namespace) -> int:
    attended = on_terminal(sys.stdin) and on_terminal(sys.stderr)
    with open_session(options, find_person() if attended else None) as session:
        _require_tool(session.dialect, options.tool)
        arguments = _parse_arguments(options.words, session.dialect, options.tool)
        if options.read_first:
            _read_first(session, options.tool, arguments)
        result = session.call(options.tool, arguments)
    if options.json:
        write(as_document(as_json(result)))
    else:
        text = escape_for_terminal(result.full_text) if on_terminal(sys.stdout) else result.full_text
        write(text if text.endswith("\n") else text + "\n")
    if options.diff:
        show_diff(result.data.get("diff", ""))
    if result.advice and not options.json:
        warn(escape(result.advice))
    if result.error and result.error.code == "not_seen" and not options.read_first:
        warn("(each `handrail call` is a new session that has read nothing yet: add --read-first)")
    return _read_exit_code(result) if options.exit_code else _EXIT[result.status]


def _read_exit_code(result: Result) -> int:
    """The exit code of the command that a call ran; 125 if it ran none."""
    code, signal = result.data.get("exit_code"), result.data.get("signal")
    if isinstance(signal, int):
        return 128 + signal
    return code if isinstance(code, int) else _NOT_RUN


def _require_tool(dialect: Dialect, tool: str) -> None:
    if tool in dialect.entries:
        return
    folded = {name.casefold(): name for name in dialect.entries}
    near = get_close_matches(tool.casefold(), folded, n=1)
    hint = f"did you mean {folded[near[0]]}?" if near else f"the tools are {', '.join(dialect.entries)}"
    raise UsageError(f"the dialect {escape(dialect.name)} has no tool {escape(tool)}; {hint}")


def _parse_arguments(words: Sequence[str], dialect: Dialect, tool: str) -> Mapping[str, object]:
    """The call's arguments, in whichever of the three ways they were given."""
    if words == ["-"]:
        return _parse_json(_read_stdin(), "stdin")
    if len(words) == 1 and words[0].lstrip()[:1] in ("{", "[", '"'):
        return _parse_json(os.fsencode(words[0]), "the argument")
    pairs: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if word == "-" or word.lstrip().startswith("{"):
            raise UsageError("give either one JSON object, - for JSON on stdin, or key=value pairs")
        if not equals or not key:
            first = next(iter(dialect.spec(tool).schema["properties"]), "key")
            raise UsageError(f"{_shorten(word)} is not of the form key=value; for example {first}={_shorten(word)}")
        if key in pairs:
            raise UsageError(f"{_shorten(key)} is given twice; give it once")
        pairs[key] = value
    return pairs


def _shorten(word: str) -> str:
    return escape(word if len(word) <= 60 else word[:60] + "...")


def _read_stdin() -> bytes:
    if sys.stdin is None:
        raise UsageError("stdin is closed")
    if on_terminal(sys.stdin):
        warn("(reading one JSON object from the terminal; Ctrl-D ends it)")
    raw = sys.stdin.buffer.read(MOST_INPUT + 1)
    if len(raw) > MOST_INPUT:
        raise UsageError(f"stdin is larger than {MOST_INPUT >> 20} MB; send less in one call")
    return raw


def _parse_json(raw: bytes, place: str) -> Mapping[str, object]:
    try:
        value = parse_json(raw)
    except ValueError as error:
        raise UsageError(f"{place} is not valid JSON: {error}; give one JSON object such as {_SAMPLE}") from None
    if not isinstance(value, dict):
        raise UsageError(f"{place} is {name_kind(value)}; give one JSON object such as {_SAMPLE}")
    return value


_SAMPLE = '{"file_path": "README.md"}'


def _read_first(session: AnySession, tool: str, arguments: Mapping[str, object]) -> None:
    """Read the file that the call names first. If that fails, the call itself will say why."""
    try:
        accesses = session.prepare(tool, arguments).accesses
    except ToolError:
        return
    target = next((access.target for access in accesses if access.action in ("read", "write")), None)
    reader = next((entry for entry in session.dialect.entries.values() if entry.id == "read"), None)
    if reader is None:
        raise UsageError(f"--read-first: the dialect {escape(session.dialect.name)} has no tool to read files")
    if target is not None:
        theirs = {ours: name for name, ours in reader.rename.items()}
        session.call(reader.name, {theirs.get("file_path", "file_path"): target, theirs.get("limit", "limit"): 1})
