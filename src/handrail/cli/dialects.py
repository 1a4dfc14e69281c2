"""`handrail dialects`: the dialects with their tools and their weight, and whether a folder of one's own is sound."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from handrail.cli.common import CommandParser, list_dialects, open_dialect
from handrail.cli.output import Screen, UsageError, as_document, warn, write
from handrail.cli.tools import estimate_tokens
from handrail.dialects import DialectError
from handrail.dialects.check import check
from handrail.dialects.folder import FolderPlace, find_folder
from handrail.text.display import escape

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    from handrail.dialects import Dialect
    from handrail.json_types import JsonObject

_ABOUT = """\
Dialects define the names, schemas and wording of the tools for a family of models.

  list         list every dialect with its tools and its size in tokens (the default)
  check PATH   check the dialect in this folder; report every mistake with file, line and fix"""

_EXAMPLES = """\
examples:
  handrail dialects
  handrail dialects check path/to/my-dialect
  handrail tools --dialect path/to/my-dialect

Tools after + are offered only if requested by name.
exit codes: 0 no problems, 1 the dialect has problems, 2 wrong usage"""


def parser() -> argparse.ArgumentParser:
    parser = CommandParser("dialects", _ABOUT, _EXAMPLES)
    parser.add_argument(
        "what", metavar="WHAT", nargs="?", choices=["list", "check"], default="list", help="list or check"
    )
    parser.add_argument("path", metavar="PATH", nargs="?", help="check: a dialect folder, or the name of a dialect")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def run(options: argparse.Namespace) -> int:
    if options.what == "check":
        if options.path is None:
            raise UsageError("dialects check needs the folder of a dialect; see `handrail dialects --help`")
        return _check(options.path, options.json)
    if options.path is not None:
        raise UsageError("dialects list takes no arguments; see `handrail dialects --help`")
    return _list(options.json)


def _list(as_json: bool) -> int:
    dialect_rows = [describe_dialect(open_dialect(name)) for name in list_dialects()]
    if as_json:
        write(as_document(dialect_rows))
        return 0
    screen = Screen(sys.stdout)
    for one in dialect_rows:
        head = f"{one['name']}: {len(one['core'])} tools, about {one['tokens']} tokens"
        more = len(one["tools"]) - len(one["core"])
        head += f" (all {len(one['tools'])}: {one['tokens_of_all']})" if more else ""
        names = " ".join(("" if name in one["core"] else "+") + name for name in one["tools"])
        rows = f"  {one['about']}\n  {names}\n"
        write(screen.render((head, "bold")) + screen.render((rows, "")))
    return 0


def describe_dialect(dialect: Dialect) -> JsonObject:
    """A dialect in numbers and names."""
    weights = {name: estimate_tokens(dialect.spec(name)) for name in dialect.entries}
    return {
        "name": dialect.name,
        "about": dialect.about,
        "core": list(dialect.core),
        "tools": weights,
        "tokens": sum(weights[name] for name in dialect.core),
        "tokens_of_all": sum(weights.values()),
    }


def _check(path: str, as_json: bool) -> int:
    try:
        place = find_folder(path)
    except DialectError:  # a folder without tools.toml is checked too
        place = FolderPlace(Path(path))
    if not os.path.isdir(place.path):
        raise UsageError(f"{escape(path)} is not a folder; give the folder with tools.toml and messages.toml")
    problems = check(place.path, installed=place.installed)
    if as_json:
        write(as_document([{"file": str(one.file), "line": one.line, "text": one.text} for one in problems]))
        return 1 if problems else 0
    for one in problems:
        warn(f"{escape(str(one.file))}:{one.line}: {escape(one.text)}")
    if problems:
        warn(f"{len(problems)} to fix")
        return 1
    loaded = describe_dialect(open_dialect(path))
    write(f"{escape(path)} is valid: {len(loaded['tools'])} tools, about {loaded['tokens']} tokens.\n")
    return 0
