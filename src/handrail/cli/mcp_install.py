"""`handrail mcp install`: write the server's entry into a client's configuration, or remove it."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Mapping, Sequence

from handrail.cli.common import CommandParser
from handrail.cli.output import UsageError, warn, write
from handrail.errors import ToolError
from handrail.mcp.install.entry import NAME, ClientKind, InstallError, InstallReport, ServerEntry, clients
from handrail.mcp.install.json_file import Broken
from handrail.text.display import escape

_ABOUT = """\
Add Handrail's MCP server to the configuration of a client. Every byte outside the entry stays; an older entry is
replaced; --undo restores the file."""

_EXAMPLES = """\
examples:
  handrail mcp install claude                        for all your projects
  handrail mcp install vscode --scope project        into .vscode/mcp.json of this directory
  handrail mcp install codex path/to/project --mode read-only
  handrail mcp install opencode --print              show the entry, change nothing
  handrail mcp install claude --undo

exit codes: 0 done, 1 the file was not changed, 2 wrong usage"""


def main(words: Sequence[str]) -> int:
    """Run `handrail mcp install` with the words after it; returns the exit code."""
    try:
        report = run(parser().parse_intermixed_args(list(words)))
    except (InstallError, UsageError) as error:
        warn(f"handrail mcp install: {error}")
        return 2 if isinstance(error, UsageError) else 1
    write(report.out)
    if report.aside:
        warn(report.aside)
    return 0


def parser() -> argparse.ArgumentParser:
    from handrail.policy.modes import MODES

    parser = CommandParser("mcp install", _ABOUT, _EXAMPLES)
    parser.add_argument("client", choices=list(clients()), help="whose configuration to write")
    parser.add_argument(
        "root", metavar="ROOT", nargs="?", help="the workspace (default: the directory that the client works in)"
    )
    parser.add_argument("--dialect", metavar="D", help="names, schemas and wording of the tools (default: native)")
    parser.add_argument(
        "--mode", choices=MODES, help="the approval mode: what is allowed without asking (default: accept-edits)"
    )
    parser.add_argument("--scope", choices=["user", "project"], help="for all your projects, or for this one")
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--print", dest="show", action="store_true", help="print the entry, change nothing")
    either.add_argument("--undo", action="store_true", help="remove the entry")
    return parser


def run(options: argparse.Namespace, environ: Mapping[str, str] | None = None) -> InstallReport:
    """Install, show or undo; raises `InstallError`."""
    environ = os.environ if environ is None else environ
    if options.root is not None and not os.path.isdir(options.root):
        raise InstallError(f"ROOT {escape(options.root) or repr('')} is not a directory")
    client = clients()[options.client]
    scope = options.scope or client.default
    places = client.places(scope, os.path.abspath(options.root or "."), environ)
    path = next((place for place in places if os.path.exists(place)), places[0])
    entry = ServerEntry(client, scope, path, _command(options, client))
    if options.show:
        return entry.show()
    try:
        return entry.remove() if options.undo else entry.install()
    except Broken as error:
        raise InstallError(f"{escape(path)} was not changed: {error}") from None
    except OSError as error:
        raise InstallError(f"{escape(error.filename or path)}: {error.strerror}") from None
    except ToolError as error:
        from handrail import dialects

        raise InstallError(dialects.load("native").render_error(error)) from None


def _command(options: argparse.Namespace, client: ClientKind) -> list[str]:
    """The command line that the client has to run."""
    words = [*_executable(), "mcp"]
    if options.root is not None:
        words.append(os.path.abspath(options.root))
    elif client.root:
        words.append(client.root)
    for option in ("dialect", "mode"):
        if value := getattr(options, option):
            words += [f"--{option}", value]
    return words


def _executable() -> list[str]:
    """This program, in a form that works from any directory and with any PATH."""
    if os.path.basename(sys.argv[0]) in (NAME, f"{NAME}.exe") and (program := shutil.which(sys.argv[0])):
        return [os.path.abspath(program)]
    # -P: the client starts this inside a project, and a folder `handrail` there must not be taken for the program.
    return [sys.executable, "-P", "-m", NAME]
