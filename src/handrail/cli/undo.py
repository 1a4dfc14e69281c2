"""`handrail undo`: undo the changes of calls."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import asdict

from handrail.cli.common import CommandParser, add_workspace, list_roots, open_config, require_directories
from handrail.cli.log import add_journal, choose_journal, is_shared, open_reader
from handrail.cli.output import Screen, Stop, UsageError, as_document, write
from handrail.cli.remote import connect
from handrail.errors import ConnectionLost, ToolError
from handrail.journal import JournalFailed
from handrail.journal.undo import CannotUndo, UnknownCall, open_undo, undo
from handrail.text.display import escape

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    from handrail.journal.undo import UndoReport
    from handrail.json_types import JsonObject

_ABOUT = """\
Undo the newest change in this workspace, or a call, a turn, a file or a session: contents, modes, moves, creations and
deletions, byte for byte. A second `handrail undo` goes one step further back.

Lines that have changed again since are left alone and shown. An undo is recorded like any call: `handrail redo` redoes
the newest one, and `handrail undo` with its number redoes any. Git is never touched."""

_EXAMPLES = """\
examples:
  handrail undo --dry-run      what would be undone
  handrail undo                the newest change
  handrail undo 17             call 17 of `handrail log`
  handrail undo --since 17     call 17 and all after it in the same workspace
  handrail undo --turn         all that the agent changed since your last prompt
  handrail undo --file a.py    the newest change of one file, or in one directory
  handrail undo --session 3f9a1c20

exit codes: 0 everything was undone, 1 something could not be undone, 2 wrong usage"""


def parser() -> argparse.ArgumentParser:
    parser = CommandParser("undo", _ABOUT, _EXAMPLES)
    parser.add_argument("call", metavar="CALL", nargs="?", help="the number of the call in `handrail log`, or its id")
    parser.add_argument("--since", metavar="CALL", help="this call and all after it")
    parser.add_argument("--session", metavar="S", help="all calls of a session")
    parser.add_argument("--turn", action="store_true", help="all changes since the prompt before the newest one")
    parser.add_argument("--file", metavar="PATH", default="", help="the newest change of this file or directory")
    add_preview(parser)
    return parser


def add_preview(parser: argparse.ArgumentParser) -> None:
    """The options that undo and redo share."""
    parser.add_argument("--dry-run", action="store_true", help="only report what would be done")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    add_workspace(parser)
    add_journal(parser)


def run(options: argparse.Namespace) -> int:
    given = [value for value in (options.call, options.since, options.session, options.turn, options.file) if value]
    if len(given) > 1:
        raise UsageError("give only one of CALL, --since, --session, --turn and --file")
    file = os.path.abspath(options.file) if options.file and not hasattr(options, "at") else options.file
    return take_back(
        options, call=options.call, since=options.since, session=options.session, turn=options.turn, file=file
    )


def take_back(options: argparse.Namespace, **which: object) -> int:
    """Undo or redo what ``which`` selects, and report it."""
    require_directories(options)
    report = _undo_calls(options, which)
    if options.json:
        write(as_document({**asdict(report), "dry_run": options.dry_run}))
    else:
        write(_render_report(report, options.dry_run))
    return 1 if report.conflicts or report.missing else 0


def _undo_calls(options: argparse.Namespace, which: JsonObject) -> UndoReport:
    if is_shared(options):
        raise _explain_shared(options, which.get("call"))
    settings = open_config().settings
    try:
        if hasattr(options, "at"):  # on another machine
            with connect(options, "native", (), None, None) as session:
                return session.undo(any_session=True, dry_run=options.dry_run, **which)
        path = choose_journal(options)
        with open_undo(path, options.workspace, list_roots(options), settings) as (journal, context):
            return undo(journal, context, dry_run=options.dry_run, **which)
    except UnknownCall as error:
        raise UsageError(escape(str(error))) from None
    except CannotUndo as error:
        raise Stop(f"{escape(error.journal)}: {escape(str(error))}") from None
    except JournalFailed:  # explained at the end, as in every command
        raise
    except ConnectionLost as error:
        raise Stop(
            f"the connection broke; `handrail log` there says whether it was done: {escape(str(error))}"
        ) from None
    except ToolError as error:
        raise Stop(f"nothing was undone: {escape(str(error))}") from None


def _explain_shared(options: argparse.Namespace, call: str | None) -> UsageError:
    """An undo works on files, and these are on the machine that made the call."""
    way = "`handrail log show CALL --shared` names the machine and the number of the call there"
    if call is not None:
        with open_reader(options) as reader:
            row = reader.find_call(call)
        if row is None:
            return UsageError(f"unknown call {escape(call)}; `handrail log --shared` lists them")
        host, place = escape(row.host), escape(row.workspace)
        way = (
            f"it is call {row.number} on {host}: run `handrail undo {row.number} -w {place}` there, or "
            f'handrail.connect("ssh://{host}{place}").undo(call={row.number})'
        )
    return UsageError(f"a shared journal is only read, and undo works beside the files; {way}")


def describe_report(report: UndoReport, verb: str = "") -> list[tuple[str, str, str]]:
    """What was done to each file, as a few words, the file, and a colour."""
    rows = [(verb + one.outcome, escape(one.path), "green") for one in report.restored]
    rows += [("left alone", f"{escape(one.path)}: {one.why}", "yellow") for one in report.conflicts]
    rows += [("not kept", f"{escape(path)}: its old contents are not in the journal", "red") for path in report.missing]
    rows += [("not known", f"other effects of `{escape(one)}` are not undone", "yellow") for one in report.unknown]
    return rows


def _render_report(report: UndoReport, dry: bool) -> str:
    screen, verb = Screen(sys.stdout), "would be " if dry else ""
    parts = [
        screen.render((f"{words:{len(verb) + 15}} ", style), (text, ""))
        for words, text, style in describe_report(report, verb)
    ]
    if not parts:
        parts.append(screen.render(("nothing to do: everything is already as before", "")))
    if report.warning:
        parts.append(screen.render((f"the undo could not be recorded: {report.warning}", "red")))
    return "".join(parts)
