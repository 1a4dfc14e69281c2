"""`handrail log`: the calls in the journal, one a line."""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import asdict

from handrail.cli.common import CommandParser, find_state, open_config
from handrail.cli.output import Screen, UsageError, as_line, escape_for_terminal, warn, write
from handrail.journal import postgres_reader
from handrail.journal.browse import CallFilter, read_ended
from handrail.journal.queries import describe_undo, is_of_project
from handrail.journal.store import get_default_path
from handrail.settings.journal_address import JournalAddress, hide_password, is_database_url
from handrail.text.display import escape

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    from handrail.journal.queries import CallRow, JournalReader

_ABOUT = """\
List the recorded calls of this project, refusals included, newest last; --all lists those of all projects.

  show CALL [PATH]     one call with its diff and answer; or a file as it was right after it
  diff CALL..CALL      what changed between two calls
  stats                figures for each tool
  verify               check that nobody changed the journal

The first column is the number of the call, for `handrail log show` and `handrail undo`. Numbers give the order, even if
the clock was set back. `unfinished` marks a call that is still running or was killed. Calls of a script are indented.

--shared lists the calls of all machines that send theirs to the shared journal, in the order of their arrival."""

_EXAMPLES = """\
examples:
  handrail log                      the last 20 calls in this project
  handrail log --all                the last 20 calls in any project
  handrail log --follow             the same, then each new call as it ends
  handrail log --limit 0 --json     all of them, as JSON lines
  handrail log show 17              call 17 in full
  handrail log --shared             the last 20 calls of all machines

exit codes: 0 done, 1 the journal is damaged or cannot be read, 2 wrong usage"""

STYLES = {"ok": "green", "partial": "yellow", "error": "red", "denied": "magenta", "unfinished": "yellow"}
_PAUSE = 0.25


def parser() -> argparse.ArgumentParser:
    parser = CommandParser("log", _ABOUT, _EXAMPLES)
    parser.add_argument(
        "--follow", action="store_true", help="keep running and show each call as it ends; Ctrl-C stops"
    )
    parser.add_argument("--limit", metavar="N", type=int, default=20, help="the newest N calls (default 20; 0: all)")
    parser.add_argument("--session", metavar="S", default="", help="only the calls of this session")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    add_project(parser)
    add_journal(parser)
    return parser


def add_project(parser: argparse.ArgumentParser) -> None:
    """The options that say whose calls are meant: those of this project, of another one, or all."""
    parser.add_argument("--all", action="store_true", help="the calls of all projects")
    parser.add_argument(
        "-w", "--workspace", metavar="DIR", default=".", help="the project (default: the current directory)"
    )


def get_project(options: argparse.Namespace) -> str:
    """The project whose calls are meant; empty for all."""
    elsewhere = options.workspace == "." and is_shared(options)  # this directory says nothing about other machines
    return "" if options.all or options.session or elsewhere else os.path.realpath(options.workspace)


def add_journal(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--journal",
        metavar="FILE",
        help="the journal (default: journal/journal.db in the user's state directory), or the URL of a shared one",
    )
    parser.add_argument("--shared", action="store_true", help="the shared journal that the setting `journal` names")


def is_shared(options: argparse.Namespace) -> bool:
    """Whether a shared journal is meant."""
    return options.shared or is_database_url(options.journal)


def choose_journal(options: argparse.Namespace) -> str:
    """The path of the journal that is meant, or the URL of a shared one."""
    if options.shared:
        if options.journal is not None:
            raise UsageError("give either --journal or --shared")
        return configured_journal()
    if is_shared(options):
        return check_url(options.journal)
    return os.path.abspath(str(options.journal)) if options.journal is not None else get_default_path(find_state())


def configured_journal() -> str:
    """The URL of the shared journal that the configuration names."""
    if url := open_config().settings.journal:
        return url
    raise UsageError(
        "there is no shared journal: the setting `journal` is a URL such as postgresql://user@host/database"
    )


def check_url(url: str) -> str:
    """The URL of a shared journal that was given as an argument."""
    if hide_password(url) != url:
        raise UsageError(
            "a password in an argument can be seen by all users of this machine: leave it out, and put it into "
            "~/.pgpass, $PGPASSWORD or the setting `journal` of the configuration file"
        )
    try:
        JournalAddress.parse(url)
    except ValueError as error:
        raise UsageError(escape(str(error))) from None
    return url


def open_reader(options: argparse.Namespace) -> JournalReader:
    return postgres_reader.open_reader(choose_journal(options))


def run(options: argparse.Namespace) -> int:
    if options.limit < 0:
        raise UsageError("--limit must be 0 or more")
    with open_reader(options) as reader:
        return _log(reader, options)


def _log(reader: JournalReader, options: argparse.Namespace) -> int:
    newest = reader.read_newest_entry()
    screen = Screen(sys.stdout)
    project, shown = get_project(options), False
    for row in reader.iterate_calls(limit=options.limit or -1, session=options.session, project=project):
        shown = True
        if not _show_row(row, reader, screen, options.json):
            return 0
    if damage := reader.list_damage():
        warn(f"(the journal is damaged: {escape(damage[0].why)}; `handrail journal repair` keeps what can be read)")
    if project and not shown and newest:
        warn(f"(no calls in {escape(project)} yet; --all shows those of all projects)")
    while options.follow:
        time.sleep(_PAUSE)
        ended, newest = read_ended(reader, CallFilter(session=options.session), newest)
        for row in filter(None, map(reader.find_call, ended)):
            meant = not project or is_of_project(row.workspace, project)
            if meant and not _show_row(row, reader, screen, options.json):
                return 0
    return 0


def _show_row(row: CallRow, reader: JournalReader, screen: Screen, as_json: bool) -> bool:
    if as_json:
        return write(as_line(call_as_json(row, reader)) + "\n")
    code = f" {row.error}" if row.error else ""
    return write(
        screen.render(
            (f"{row.seq:>6}  ", "bold"),
            (
                f"{format_time(row.time)}  {row.session[:8]:8}  {f'{escape(row.host)[:16]:16}  ' if row.host else ''}",
                "dim",
            ),
            (f"{row.status + code:24} ", STYLES.get(row.status, "")),
            (f"{'  ' * row.in_script + row.tool:10} ", "cyan"),
            (_describe_target(row), ""),
        )
    )


def _describe_target(row: CallRow) -> str:
    """Describe the target of a call in one line."""
    about = describe_undo(row.tool, row.arguments) if row.rule == "undo" else ""
    targets = [*filter(None, [about]), *(f"{action} {escape(target)}" for action, target, *_ in row.accesses)]
    if not targets and isinstance(row.arguments, dict):
        targets = [f"{escape(key)}={escape(str(value))}" for key, value in row.arguments.items()]
    text = ", ".join(targets)
    return text if len(text) <= 100 else text[:97] + "..."


def format_time(nanoseconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(nanoseconds / 1e9))


def call_as_json(row: CallRow, reader: JournalReader) -> dict[str, object]:
    """A call as JSON values."""
    files = [{**asdict(one), "path": escape_for_terminal(one.path)} for one in reader.read_files(row.seq)]
    values = asdict(row)
    if row.number is None:  # not of a shared journal
        del values["host"], values["number"]
    return {**values, "files": files}
