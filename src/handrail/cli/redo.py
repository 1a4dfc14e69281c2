"""`handrail redo`: redo what the newest undo took back."""

from __future__ import annotations

import argparse

from handrail.cli.common import CommandParser
from handrail.cli.undo import add_preview, take_back

_ABOUT = """\
Redo what the newest undo in this workspace took back. A second `handrail redo` redoes the undo before it.

After a new change, `handrail undo` with the number of an undo redoes it. Files that have changed since are left alone
and named."""

_EXAMPLES = """\
examples:
  handrail redo --dry-run      what would be redone
  handrail redo                take the newest undo back
  handrail undo 18             redo what undo 18 of `handrail log` took back

exit codes: 0 everything was redone, 1 something could not be redone, 2 wrong usage"""


def parser() -> argparse.ArgumentParser:
    parser = CommandParser("redo", _ABOUT, _EXAMPLES)
    add_preview(parser)
    return parser


def run(options: argparse.Namespace) -> int:
    return take_back(options, redo=True)
