"""`handrail log verify`: whether the journal is whole."""

from __future__ import annotations

import argparse
import sys

from handrail.cli.common import CommandParser
from handrail.cli.log import add_journal, open_reader
from handrail.cli.output import Screen, as_line, write

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    from handrail.journal.queries import JournalReader

_ABOUT = """\
Check that nobody changed the journal: its rows form a chain of hashes, and each row that does not match is reported.

This detects rows that were changed, added or deleted, at the end as well. It cannot detect somebody who can write
all files of the journal, and recomputes every hash. --shared checks the chain of each machine."""

_EXAMPLES = """\
examples:
  handrail log verify
  handrail log verify --shared

exit codes: 0 whole, 1 damaged or cannot be read, 2 wrong usage"""


def parser() -> argparse.ArgumentParser:
    parser = CommandParser("log verify", _ABOUT, _EXAMPLES)
    parser.add_argument("--json", action="store_true", help="one JSON object for each row that does not match")
    add_journal(parser)
    return parser


def run(options: argparse.Namespace) -> int:
    with open_reader(options) as reader:
        return _verify(reader, options.json)


def _verify(reader: JournalReader, as_json: bool) -> int:
    broken = reader.list_broken()
    if as_json:
        for one in broken:
            write(as_line(one._asdict()) + "\n")
        if not broken:
            write(as_line({"seq": None, "why": None}) + "\n")
    elif broken:
        for one in broken:
            where = f"call {one.seq}: " if one.seq else ""
            write(Screen(sys.stdout).render(("broken  ", "bold red"), (f"{where}{one.why}", "")))
    else:
        count = reader.count_entries()
        write(Screen(sys.stdout).render(("whole   ", "green"), (f"{count} entries, every hash matches", "")))
    return 1 if broken else 0
