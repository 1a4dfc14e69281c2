"""`handrail mcp install`: write the server's entry into a client's configuration, or remove it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence

from handrail.cli.common import CommandParser, find_state
from handrail.cli.failures import explain_failures
from handrail.cli.output import Stop, warn, write
from handrail.mcp import tool_list
from handrail.mcp.http import principals
from handrail.mcp.install.entry import (
    NAME,
    ClientKind,
    InstallError,
    InstallReport,
    ServerEntry,
    choose_place,
    load_clients,
)
from handrail.policy.modes import MODES
from handrail.programs import find_program
from handrail.text.display import escape

_ABOUT = """\
Add Handrail's MCP server to the configuration of a client: the dialect native, with forgiving edits. Every byte outside
the entry stays; an older entry is replaced; --undo restores the file."""

_EXAMPLES = """\
examples:
  handrail mcp install claude                        for all your projects
  handrail mcp install vscode --scope project        into .vscode/mcp.json of this directory
  handrail mcp install codex path/to/project --mode read-only
  handrail mcp install claude --only --allow         Handrail's tools instead of Claude Code's own
  handrail mcp install cursor --http http://127.0.0.1:8765/mcp
  handrail mcp install opencode --print              show the entry, change nothing
  handrail mcp install claude --undo

exit codes: 0 done, 1 the file was not changed, 2 wrong usage"""


def main(words: Sequence[str]) -> int:
    """Run `handrail mcp install` with the words after it; returns the exit code."""
    try:
        report = run(parser().parse_intermixed_args(list(words)))
    except InstallError as error:
        raise Stop(str(error)) from None
    write(report.out)
    if report.aside:
        warn(report.aside)
    return 0


def parser() -> argparse.ArgumentParser:
    parser = CommandParser("mcp install", _ABOUT, _EXAMPLES)
    parser.add_argument("client", choices=list(load_clients()), help="whose configuration to write")
    parser.add_argument(
        "root", metavar="ROOT", nargs="?", help="the workspace (default: the directory that the client works in)"
    )
    parser.add_argument("--dialect", metavar="D", help="names, schemas and wording of the tools (default: native)")
    parser.add_argument(
        "--mode", choices=MODES, help="the approval mode: what is allowed without asking (default: accept-edits)"
    )
    parser.add_argument(
        "--matching",
        choices=("dialect", "ladder"),
        help="how edits are matched: forgiving (ladder, the default), or as the dialect's document says",
    )
    parser.add_argument(
        "--only",
        action="store_true",
        help="also turn the client's own file and shell tools off, where it has a setting",
    )
    about = "also let the client run our tools without a question of its own: Handrail asks, as its mode says"
    parser.add_argument("--allow", action="store_true", help=about)
    about = "connect to a server that runs already (`handrail mcp --http`), with its token"
    parser.add_argument("--http", metavar="URL", default="", help=about)
    parser.add_argument("--token-file", metavar="F", help="token file for --http")
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
    client = load_clients()[options.client]
    entry = _describe_entry(options, client, environ)
    if options.show:
        return entry.show()
    with explain_failures(entry.path, InstallError):
        return entry.remove() if options.undo else entry.install()


def _describe_entry(options: argparse.Namespace, client: ClientKind, environ: Mapping[str, str]) -> ServerEntry:
    scope, project = options.scope or client.default, os.path.abspath(options.root or ".")
    places = client.places(scope, project, environ)
    if not places:
        raise InstallError(f"{client.name} has no configuration for one project: leave --scope out")
    if options.http and not client.http:
        raise InstallError(f"{client.name} starts its servers itself: leave --http out")
    if client.needs_root and options.root is None and scope == "user" and not options.http and not options.undo:
        raise InstallError(f"{client.name} does not start servers in a project: give ROOT")
    if options.allow and options.mode == "full":
        raise InstallError("with --mode full Handrail asks nothing: then --allow would leave no question at all")
    return ServerEntry(
        client,
        scope,
        choose_place(places),
        _build_command(options, project if client.needs_root else client.root),
        client.settings_place(scope, project, environ),
        options.only,
        options.allow,
        [spec["name"] for spec in tool_list.list_specs(options.dialect or "native")],
        options.http,
        _read_token(options),
    )


def _read_token(options: argparse.Namespace) -> str:
    """The token of the HTTP server, from its file."""
    if not options.http or options.undo:
        return ""

    path = options.token_file or principals.load_own_token(find_state())[1]
    try:
        with open(path, encoding="ascii") as file:
            token = file.read().strip()
        principals.check_token(token, path)
    except (OSError, ValueError, principals.BadPrincipals) as error:
        raise InstallError(f"no token in {escape(path)}: {error}") from None
    return token


def _build_command(options: argparse.Namespace, root: str) -> list[str]:
    """The command line that the client has to run; ``root`` if none is given."""
    words = [*_find_executable(), "mcp"]
    if options.root is not None:
        words.append(os.path.abspath(options.root))
    elif root:
        words.append(root)
    for option, value in (
        ("dialect", options.dialect),
        ("mode", options.mode),
        ("matching", options.matching or "ladder"),
    ):
        if value:
            words += [f"--{option}", value]
    return words


def _find_executable() -> list[str]:
    """This program, in a form that works from any directory and with any PATH."""
    program = sys.argv[0] if "/" in sys.argv[0] else find_program(sys.argv[0])
    if program and os.path.basename(program) in (NAME, f"{NAME}.exe") and os.access(program, os.X_OK):
        return [os.path.abspath(program)]
    # -P: the client starts this inside a project, and a folder `handrail` there must not be taken for the program.
    return [sys.executable, "-P", "-m", NAME]
