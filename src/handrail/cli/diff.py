"""`handrail log diff`: what changed between two calls."""

from __future__ import annotations

import argparse
import sys

from handrail.cli.common import CommandParser
from handrail.cli.log import add_journal, open_reader
from handrail.cli.output import Screen, UsageError, paint_diff, write
from handrail.journal.call_changes import iterate_changing_calls
from handrail.journal.past_files import make_net_diff
from handrail.text.display import escape

_ABOUT = """\
Show what changed in the files of a project after one call and up to another, as one diff, whatever happened in between.

Only files that calls have changed are compared, in the workspace of the first call."""

_EXAMPLES = """\
examples:
  handrail log diff 17..25     what calls 18 to 25 changed, all together
  handrail log diff 17         what has changed since call 17, up to now

exit codes: 0 done, 1 the journal cannot be read, 2 wrong usage"""


def parser() -> argparse.ArgumentParser:
    parser = CommandParser("log diff", _ABOUT, _EXAMPLES)
    parser.add_argument("calls", metavar="CALL..CALL", help="numbers of calls in `handrail log`, or their ids")
    add_journal(parser)
    return parser


def run(options: argparse.Namespace) -> int:
    names = options.calls.removesuffix("..").split("..")
    if len(names) > 2 or not all(names):
        raise UsageError(f"{escape(options.calls)} is no range of calls; give CALL..CALL, or CALL for all since then")
    with open_reader(options) as reader:
        known = [(name, reader.find_call(name)) for name in names]
        for name, call in known:
            if call is None:
                raise UsageError(escape(reader.describe_unknown(name)))
        first, *later = [call for _, call in known if call]
        last, home = later[0].seq if later else None, first.workspace
        changes = iterate_changing_calls(reader, first=first.seq + 1, before=last and last + 1, workspace=home)
        if diff := make_net_diff(reader, list(changes), home, last):
            write(Screen(sys.stdout).render(*paint_diff(diff)))
    return 0
