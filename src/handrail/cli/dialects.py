"""`handrail dialects`: the dialects with their tools and their weight, and whether a folder of one's own is sound."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handrail.cli.common import CommandParser, open_dialect
from handrail.cli.output import Screen, UsageError, as_document, on_terminal, warn, write
from handrail.cli.tools import weight
from handrail.text.display import escape

if TYPE_CHECKING:
    from handrail.dialects import Dialect

_ABOUT = """\
The dialects: under which names, schemas and words a model gets the tools.

  list         every dialect with its tools and its weight in tokens (the default)
  check PATH   whether the dialect in this folder can be used: all that is wrong, with file, line and fix"""

_EXAMPLES = """\
examples:
  handrail dialects
  handrail dialects check path/to/my-dialect
  handrail tools --dialect path/to/my-dialect

A tool behind a + is offered only when it is asked for by name.
exit codes: 0 all is well, 1 something is wrong with the dialect, 2 wrong usage"""


def parser() -> argparse.ArgumentParser:
    made = CommandParser("dialects", _ABOUT, _EXAMPLES)
    made.add_argument(
        "what", metavar="WHAT", nargs="?", choices=["list", "check"], default="list", help="list or check"
    )
    made.add_argument("path", metavar="PATH", nargs="?", help="check: the folder of the dialect, or the name of one")
    made.add_argument("--json", action="store_true", help="print JSON")
    return made


def run(options: argparse.Namespace) -> int:
    if options.what == "check":
        if options.path is None:
            raise UsageError("dialects check takes the folder of a dialect; see `handrail dialects --help`")
        return _check(options.path, options.json)
    if options.path is not None:
        raise UsageError("dialects list takes nothing more; see `handrail dialects --help`")
    return _list(options.json)


def _list(as_json: bool) -> int:
    from handrail import dialects

    found = [about(open_dialect(name)) for name in dialects.names()]
    if as_json:
        write(as_document(found))
        return 0
    screen = Screen(sys.stdout) if on_terminal(sys.stdout) else None
    for one in found:
        head = f"{one['name']}: {len(one['core'])} tools, about {one['tokens']} tokens"
        more = len(one["tools"]) - len(one["core"])
        head += f" (all {len(one['tools'])}: {one['tokens_of_all']})" if more else ""
        names = " ".join(("" if name in one["core"] else "+") + name for name in one["tools"])
        rows = f"  {one['about']}\n  {names}\n"
        write(screen.worded((head, "bold")) + screen.worded((rows, "")) if screen else f"{head}\n{rows}")
    return 0


def about(dialect: Dialect) -> dict[str, Any]:
    """A dialect in numbers and names."""
    weights = {name: weight(dialect.spec(name)) for name in dialect.entries}
    return {
        "name": dialect.name,
        "about": dialect.about,
        "core": list(dialect.core),
        "tools": weights,
        "tokens": sum(weights[name] for name in dialect.core),
        "tokens_of_all": sum(weights.values()),
    }


def _check(path: str, as_json: bool) -> int:
    from handrail.dialects import DialectError
    from handrail.dialects.check import check
    from handrail.dialects.folder import FolderPlace, find_folder

    try:
        place = find_folder(path)
    except DialectError:  # a folder without tools.toml is checked too
        place = FolderPlace(Path(path))
    if not os.path.isdir(place.path):
        raise UsageError(f"there is no folder {escape(path)}; give the folder that holds tools.toml and messages.toml")
    problems = check(place.path, installed=place.installed)
    if as_json:
        write(as_document([{"file": str(one.file), "line": one.line, "text": one.text} for one in problems]))
        return 1 if problems else 0
    for one in problems:
        warn(f"{escape(str(one.file))}:{one.line}: {escape(one.text)}")
    if problems:
        warn(f"{len(problems)} to fix")
        return 1
    loaded = about(open_dialect(path))
    write(f"{escape(path)} is sound: {len(loaded['tools'])} tools, about {loaded['tokens']} tokens. Well made.\n")
    return 0
