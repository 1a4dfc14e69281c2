"""`handrail script`: run a Python program in which every tool is a function."""

from __future__ import annotations

import argparse
import json

from handrail.cli import call
from handrail.cli.common import CommandParser, add_dialect, add_matching, add_mode, add_workspace
from handrail.cli.output import UsageError

_ABOUT = """\
Run a short Python program in which every tool is a function: read(...), grep(...), edit(...), bash(...).

The program runs in a sandbox without a network, and reaches files only by these calls. All of them work in one draft,
so that each sees what earlier ones wrote. When the program has ended, its changes are kept together, asked about with
the whole diff, or dropped; one `handrail undo` takes all of them back."""

_EXAMPLES = """\
examples:
  handrail script rename.py -w path/to/project
  echo 'print(grep("TODO", output_mode="count"))' | handrail script -

exit codes: those of the program, or 125 if it was not run"""


def parser() -> argparse.ArgumentParser:
    parser = CommandParser("script", _ABOUT, _EXAMPLES)
    parser.add_argument("file", metavar="FILE", help="the program; - is stdin")
    add_workspace(parser)
    add_mode(parser)
    add_dialect(parser)
    add_matching(parser)
    parser.add_argument("--json", action="store_true", help="print the whole result as JSON")
    parser.add_argument("--diff", action="store_true", help="show what changed on stderr, as a unified diff")
    return parser


def run(options: argparse.Namespace) -> int:
    try:
        with open(0 if options.file == "-" else options.file, encoding="utf-8", closefd=options.file != "-") as file:
            code = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the program cannot be read: {error}") from None
    options.tool, options.words = "Script", [json.dumps({"code": code})]
    options.read_first, options.exit_code = False, True
    return call.run(options)
