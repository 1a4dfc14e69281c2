"""`handrail log show`: one call of the journal in full, or a file as it was after it."""

from __future__ import annotations

import argparse
import json
import os
import sys

from handrail.cli.common import CommandParser
from handrail.cli.log import STYLES, add_journal, call_as_json, format_time, open_reader
from handrail.cli.output import (
    Screen,
    Stop,
    UsageError,
    as_document,
    escape_for_terminal,
    on_terminal,
    paint_diff,
    write,
)
from handrail.journal.past_files import ContentsGone, read_past
from handrail.journal.queries import list_children
from handrail.text.display import escape
from handrail.workspace import resolve_parent

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    from handrail.journal.queries import CallRow, FileRow, JournalReader

_ABOUT = """\
Show one call: its arguments (secrets are masked), the verdict with its rule, the changed files, the diff and the
beginning of the result. With PATH, print that file as it was right after the call."""

_EXAMPLES = """\
examples:
  handrail log show 17            by its number in `handrail log`
  handrail log show toolu_01AB    by the id that the model's framework gave it
  handrail log show 17 --json
  handrail log show 17 a.py       a.py as it was after call 17"""


def parser() -> argparse.ArgumentParser:
    parser = CommandParser("log show", _ABOUT, _EXAMPLES)
    parser.add_argument("call", metavar="CALL", help="the number of the call in `handrail log`, or its id")
    parser.add_argument("path", metavar="PATH", nargs="?", help="a file: print it as it was right after the call")
    parser.add_argument("--json", action="store_true", help="print it as JSON")
    add_journal(parser)
    return parser


def run(options: argparse.Namespace) -> int:
    with open_reader(options) as reader:
        row = reader.find_call(options.call)
        if row is None:
            raise UsageError(escape(reader.describe_unknown(options.call)))
        if options.path:
            return _print_file(reader, row.seq, options.path)
        write(as_document(call_as_json(row, reader)) if options.json else _render_call(row, reader))
    return 0


def _print_file(reader: JournalReader, seq: int, name: str) -> int:
    try:
        raw = read_past(reader, resolve_parent(os.path.abspath(name)), seq)
    except ContentsGone as error:
        raise Stop(f"{escape(name)} cannot be shown as of call {seq}: {error}") from None
    if raw is None:
        raise Stop(f"{escape(name)}: there was no such file after call {seq}")
    if on_terminal(sys.stdout):
        write(escape_for_terminal(raw.decode("utf-8", "replace")))
    else:
        sys.stdout.buffer.write(raw)
    return 0


def _render_call(row: CallRow, reader: JournalReader) -> str:
    screen = Screen(sys.stdout)
    code = f" {row.error}" if row.error else ""
    took = f", {row.duration:.1f} ms" if row.duration is not None else ""
    ended = f", exit code {row.exit_code}" if row.exit_code is not None else ""
    parts = [
        screen.render((f"{row.seq}  {row.tool}  ", "bold"), (row.status + code, STYLES.get(row.status, ""))),
        screen.render(
            (f"at {format_time(row.time)}, session {row.session or '-'}, {row.dialect or '-'}{took}{ended}", "dim")
        ),
        screen.render((f"in {escape(row.workspace) or '-'}{_describe_machine(row)}", "dim")),
        _format_section(screen, "arguments", json.dumps(row.arguments, indent=2, ensure_ascii=False)),
    ]
    accesses = "\n".join(f"{action} {escape(target)}" for action, target, *_ in row.accesses)
    parts.append(_format_section(screen, "accesses", accesses))
    if row.decision:
        where = f" ({row.source})" if row.source else ""
        parts.append(_format_section(screen, "verdict", f"{row.decision} by {row.rule}{where}: {row.why}"))
    calls = "\n".join(f"{one.seq}  {one.tool}  {one.status}" for one in list_children(reader, row))
    parts.append(_format_section(screen, "calls", calls))
    files = reader.read_files(row.seq)
    parts.append(_format_section(screen, "files", "\n".join(map(_format_file, files))))
    if row.diff:
        parts.append(screen.render(("\ndiff\n", "bold")) + screen.render(*paint_diff(row.diff)))
    parts.append(_format_section(screen, "answer", row.output or ""))
    parts.append(_format_section(screen, "traceback", row.traceback or ""))
    return "".join(parts)


def _describe_machine(row: CallRow) -> str:
    return f", on {escape(row.host)}, where it is call {row.number}" if row.number is not None else ""


def _format_section(screen: Screen, title: str, text: str) -> str:
    return screen.render((f"\n{title}\n", "bold")) + screen.render((text, "")) if text else ""


def _format_file(row: FileRow) -> str:
    def state(digest: str | None, mode: int | None) -> str:
        if not digest:
            return "not known" if digest is None else "no file"
        return digest[:12] + (f" {mode:04o}" if mode is not None else "")

    moved = f", moved from {escape(row.moved_from)}" if row.moved_from else ""
    return f"{escape(row.path)}: {state(row.before, row.before_mode)} -> {state(row.after, row.after_mode)}{moved}"
