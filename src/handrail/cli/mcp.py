"""`handrail mcp`: serve the tools over MCP on stdin and stdout.

Clients wait for the tool list, and some give up soon. So the usual command line is parsed here without argparse, which
is imported only for help and for options that are not understood. `install` and `--http` are in their own modules.
"""

from __future__ import annotations

import os
import sys
from functools import partial

from handrail.cli.minimal import Stop, UsageError, is_in_draft
from handrail.mcp import tool_list
from handrail.mcp.protocol import CannotOpen
from handrail.mcp.stdio.channel import Channel
from handrail.mcp.stdio.server import StdioServer

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from handrail.model import Approve
    from handrail.pipeline.any_session import AnySession

_ABOUT = """\
Serve the tools of a dialect over MCP on stdin and stdout, for any client of the Model Context Protocol (2024-11-05 to
2025-11-25, and 2026-07-28). Logs go to stderr.

Calls that need approval are asked through the client if it supports elicitation, otherwise where `handrail approve`
runs in a terminal. Without either the call is refused, and `handrail log` has a rule that would allow it.

`handrail mcp install CLIENT` writes the entry for a client; `handrail mcp --http HOST:PORT` serves over HTTP. Each has
its own --help."""

_EXAMPLES = """\
examples:
  handrail mcp path/to/project
  handrail mcp path/to/project --dialect claude --mode ask
  handrail mcp --tools Read,Grep,Glob --mode read-only
  handrail mcp install claude --print

exit codes: 0 when the client closes the connection, 2 wrong usage"""

_DEFAULT_MODE = "accept-edits"
_VALUED = {
    "--dialect": "dialect",
    "--mode": "mode",
    "--tools": "tools",
    "--root": "root",
    "--read-root": "read_root",
    "--draft": "draft",
    "--matching": "matching",
}


class Options:
    """The parsed command line."""

    def __init__(self) -> None:
        self.workspace = "."
        self.dialect = "native"
        self.mode = _DEFAULT_MODE
        self.tools = ""
        self.root: list[str] = []
        self.read_root: list[str] = []
        self.structured = False
        self.draft = ""
        self.matching: str | None = None
        self.at = ""


def main(words: Sequence[str], at: str = "") -> int:
    """Run `handrail mcp` with the words after it, for a workspace that may be elsewhere; returns the exit code."""
    if at:
        return run_at(words, at)
    if words and words[0] == "install":
        from handrail.cli.mcp_install import main as install

        return install(list(words[1:]))
    if any(word == "--http" or word.startswith("--http=") for word in words):
        from handrail.cli.mcp_http import main as serve

        return serve(list(words))
    options = parse_quickly(words) or _parse(words)
    if options.draft and not is_in_draft():
        from handrail.cli.draft import run_again

        return run_again(options.draft, options.workspace, ["mcp", *words])
    return run(options)


def run_at(words: Sequence[str], at: str) -> int:
    """Serve the tools of a workspace on another machine."""
    from handrail.cli.remote import refuse_local_options

    options = parse_quickly(words) or _parse(words)
    refuse_local_options(options)
    options.at = at
    return run(options)


def parse_quickly(words: Sequence[str]) -> Options | None:
    """The options of a command line without surprises; None if there is any doubt."""
    options, has_workspace, rest = Options(), False, list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if word == "--structured":
            options.structured = True
        elif name in _VALUED:
            if not equals:
                if not rest or rest[0].startswith("-"):
                    return None
                value = rest.pop(0)
            field = _VALUED[name]
            if field in ("root", "read_root"):
                getattr(options, field).append(value)
            else:
                setattr(options, field, value)
        elif word.startswith("-") or has_workspace:
            return None
        else:
            options.workspace, has_workspace = word, True
    # Every other mode is checked where the modes are known.
    known = options.mode == _DEFAULT_MODE or _is_mode(options.mode)
    return options if known and options.matching in (None, "dialect", "ladder") else None


def _is_mode(mode: str) -> bool:
    return mode in ("read-only", "ask", "full", "deny-asks")


def _parse(words: Sequence[str]) -> Options:
    options = Options()
    parser().parse_args(list(words), namespace=options)
    return options


def parser() -> argparse.ArgumentParser:
    from handrail.cli.common import (
        CommandParser,
        add_dialect,
        add_draft,
        add_matching,
        add_mode,
        add_roots,
        add_tools,
    )

    parser = CommandParser("mcp", _ABOUT, _EXAMPLES)
    parser.add_argument(
        "workspace", metavar="ROOT", nargs="?", default=".", help="the project (default: this directory)"
    )
    add_dialect(parser)
    add_matching(parser)
    add_mode(parser)
    add_tools(parser)
    add_roots(parser)
    add_draft(parser)
    about = "also send results as structuredContent; some clients then show the model only that"
    parser.add_argument("--structured", action="store_true", help=about)
    return parser


def run(options: Options) -> int:
    for option, place in (("ROOT", options.workspace), *(("--root", one) for one in options.root + options.read_root)):
        if not os.path.isdir(place):
            from handrail.cli.common import require_directory

            require_directory(option, place)
    names = [name.strip() for name in options.tools.split(",") if name.strip()]
    try:
        specs = tool_list.list_specs(options.dialect, names)
    except tool_list.NoSuchOffer as error:
        raise UsageError(str(error)) from None
    if os.isatty(0):
        sys.stderr.write("(MCP server: waiting for messages of a client on stdin; Ctrl-D ends it)\n")
    try:
        channel = Channel.of_process()
    except OSError as error:
        raise UsageError(f"stdin and stdout must be open for the client: {error.strerror}") from None
    opened = partial(_open_session, options)
    place = options.at or os.path.abspath(options.workspace)
    return StdioServer(channel, specs, place, opened, options.structured).run()


def _open_session(options: Options, approve: Approve) -> AnySession:
    from handrail.cli.common import open_session

    try:
        return open_session(options, approve)  # type: ignore[arg-type]  # argparse would have made the same
    except Stop as stop:
        raise CannotOpen(str(stop)) from None
