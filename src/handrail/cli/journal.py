"""`handrail journal`: how far the local journal was sent to the shared one; send it; prepare the database; repair."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from glob import escape as escape_pattern
from glob import glob

from handrail.cli.common import CommandParser, find_state
from handrail.cli.log import check_url, configured_journal, format_time
from handrail.cli.output import as_document, on_terminal, write
from handrail.journal import JournalFailed
from handrail.journal.postgres import VERSION, PostgresDatabase
from handrail.journal.repair import repair_logs
from handrail.journal.shipping import LocalJournal, note_failure, ship_all
from handrail.journal.store import get_default_path
from handrail.json_types import JsonObject
from handrail.settings.journal_address import JournalAddress
from handrail.text.display import escape

_ABOUT = """\
The shared journal: a PostgreSQL database to which many machines send their journals, besides keeping them.

  status    how far the local journal was sent, what is outstanding, and why the last attempt failed
  ship      send what is outstanding now, and wait for it; --follow goes on
  migrate   create or upgrade the tables in the database; needs a role that may do that
  repair    set damaged logs of the local journal aside, and keep what can be read of them

Sessions send their records in the background, so none of these is needed where processes live for a while. The
journals of named drafts, and of the workspaces of fleets on this machine, are sent as well. The setting `journal` names
the database."""

_EXAMPLES = """\
examples:
  handrail journal status
  handrail journal ship
  handrail journal ship --follow                                 for a service beside short processes
  handrail journal migrate --to postgresql://owner@db/records    with the password in ~/.pgpass
  handrail journal repair                                        after `handrail log verify` found damage

exit codes: 0 done, 1 the database cannot be reached or refuses, 2 wrong usage"""

_LOOK = 1.0
"""Seconds between two looks with --follow."""
_LONGEST_PAUSE = 60.0


def parser() -> argparse.ArgumentParser:
    parser = CommandParser("journal", _ABOUT, _EXAMPLES)
    parser.add_argument(
        "what", metavar="WHAT", choices=sorted([*_ACTIONS, "repair"]), help="status, ship, migrate or repair"
    )
    parser.add_argument("--to", metavar="URL", help="the shared journal (default: the setting `journal`)")
    parser.add_argument("--follow", action="store_true", help="ship: keep running; Ctrl-C stops")
    parser.add_argument("--as-new", action="store_true", help="ship: register a copied journal under a new name")
    parser.add_argument("--json", action="store_true", help="status: print JSON")
    return parser


def run(options: argparse.Namespace) -> int:
    if options.what == "repair":
        return _repair()
    address = JournalAddress.parse(check_url(options.to) if options.to is not None else configured_journal())
    return _ACTIONS[options.what](options, address)


def _show_status(options: argparse.Namespace, address: JournalAddress) -> int:
    status = read_status(address)
    if options.json:
        write(as_document(status))
    else:
        write(f"{describe_status(status)}\n")
    return 0


def read_status(address: JournalAddress) -> dict[str, object]:
    """How far the local journals were sent, as they know that themselves: the database is not asked."""
    journals = [_read_journal_status(path, address) for path in _list_journals()]
    failed = max(journals, key=lambda one: float(one["failed"] if one["failure"] else 0), default={})
    return {
        "to": address.shown,
        "outstanding": sum(one["outstanding"] for one in journals),
        "shipped": max((one["shipped"] for one in journals), default=0.0),
        "failure": failed.get("failure", ""),
        "failed": failed.get("failed", 0.0),
        "journals": journals,
    }


def _read_journal_status(path: str, address: JournalAddress) -> JsonObject:
    local = LocalJournal(path, address)
    return {"journal": path, "outstanding": local.count_outstanding(), **asdict(local.read_state())}


def _list_journals() -> list[str]:
    """The journals of this user on this machine: those of named drafts and of workspaces of fleets as well."""
    state = find_state()
    places = [state, *sorted(glob(os.path.join(escape_pattern(state), "fleet", "*", "work", "*", "state")))]
    databases = {path for place in places for path in glob(os.path.join(escape_pattern(place), "journal", "*.db"))}
    logs = {path for place in places for path in glob(os.path.join(escape_pattern(place), "journal", "*.db.logs"))}
    return sorted(databases | {path.removesuffix(".logs") for path in logs}, key=lambda path: (path.count("/"), path))


def describe_status(status: JsonObject) -> str:
    """The status in words."""
    sent = f"last sent at {format_time(int(status['shipped'] * 1e9))}" if status["shipped"] else "not sent yet"
    parts = [f"{escape(status['to'])}: {sent}, {status['outstanding']} entries outstanding"]
    if status["failure"]:
        failed = format_time(int(status["failed"] * 1e9))
        parts.append(f"the last attempt failed at {failed}: {escape(status['failure'])}")
    return "; ".join(parts)


def _ship(options: argparse.Namespace, address: JournalAddress) -> int:
    pause = _LOOK
    while True:
        try:
            shipped = _ship_once(address, options.as_new)
        except JournalFailed as error:
            if not options.follow:
                raise
            print(f"{escape(error.journal)}: {escape(error.why)}", file=sys.stderr, flush=True)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            continue
        if shipped or not options.follow:
            write(f"{shipped} entries sent to {escape(address.shown)}\n")
        if not options.follow:
            return 0
        time.sleep(_LOOK)
        pause = _LOOK


def _ship_once(address: JournalAddress, as_new: bool) -> int:
    shipped, path = 0, get_default_path(find_state())
    try:
        with contextlib.closing(PostgresDatabase(address)) as database:
            for path in _list_journals():
                local = LocalJournal(path, address)
                if as_new:
                    local.renew_id()
                shipped += ship_all(local, database, _report_progress if on_terminal(sys.stderr) else None)
    except JournalFailed as error:
        with contextlib.suppress(JournalFailed):
            note_failure(LocalJournal(path, address), error.why, time.time())
        raise
    return shipped


def _report_progress(shipped: int, left: int) -> None:
    """Show how much was sent, on one line, for a person who waits."""
    print(f"\r{shipped:,} entries sent, {left:,} left ", end="" if left else "\n", file=sys.stderr, flush=True)


def _migrate(options: argparse.Namespace, address: JournalAddress) -> int:  # noqa: ARG001 - each action takes both
    with contextlib.closing(PostgresDatabase(address)) as database:
        steps = database.migrate()
    done = "are created or upgraded" if steps else "were ready"
    write(f"the tables of tenant {address.tenant} {done}: version {VERSION}\n")
    return 0


def _repair() -> int:
    left = 0
    for path in _list_journals():
        for one in repair_logs(path):
            left += one.set_aside == ""
            saved = f"{one.saved} entries kept, set aside as {escape(one.set_aside)}"
            write(f"{escape(one.log)}: {saved if one.set_aside else 'in use by a running session, left alone'}\n")
    return 1 if left else 0


_ACTIONS: dict[str, Callable[[argparse.Namespace, JournalAddress], int]] = {
    "status": _show_status,
    "ship": _ship,
    "migrate": _migrate,
}
