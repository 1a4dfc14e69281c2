"""`handrail mcp --http`: parse the options of the HTTP server and start it."""

from __future__ import annotations

import argparse
import contextlib
import ipaddress
import os
from collections.abc import Sequence

from handrail.cli.common import CommandParser, add_roots, find_state
from handrail.cli.output import UsageError, warn
from handrail.mcp.http import principals
from handrail.mcp.http.principals import OWNER, BadPrincipals, Principal, Principals
from handrail.mcp.http.serve import HttpError, HttpOptions, open_socket, serve
from handrail.policy.modes import MODES
from handrail.system_calls import hide_argument
from handrail.text.display import escape
from handrail.workspace import Root

_ABOUT = """\
Serve the tools over MCP with streamable HTTP, at /mcp. Every request needs the bearer token. The server listens on
loopback addresses only, unless --allow-remote is given; then put TLS in front of it."""

_EXAMPLES = """\
examples:
  handrail mcp --http 127.0.0.1:8765 path/to/project
  handrail mcp --http 127.0.0.1:8765 path/to/project --token-file ~/.secrets/handrail --mode ask
  handrail mcp --http 127.0.0.1:8765 --principals principals.toml

exit codes: 0 ended by a signal, 2 it cannot start"""


def main(words: Sequence[str]) -> int:
    """Run `handrail mcp` with these words; returns the exit code."""
    try:
        return run(parser().parse_intermixed_args(list(words)))
    except HttpError as error:
        raise UsageError(str(error)) from None


def parser() -> argparse.ArgumentParser:
    parser = CommandParser("mcp --http", _ABOUT, _EXAMPLES)
    parser.add_argument("workspace", metavar="ROOT", nargs="?", help="the project (default: this directory)")
    parser.add_argument(
        "--http", metavar="HOST:PORT", required=True, help="the address to listen on; port 0 picks a free one"
    )
    parser.add_argument("--dialect", metavar="D", help="names, schemas and wording of the tools (default: native)")
    parser.add_argument(
        "--mode", choices=MODES, help="the approval mode: what is allowed without asking (default: accept-edits)"
    )
    parser.add_argument("--tools", metavar="NAMES", help="the tools to offer, separated by commas, or `all`")
    add_roots(parser)
    parser.add_argument("--structured", action="store_true", help="also send results as structuredContent")
    token = parser.add_mutually_exclusive_group()
    token.add_argument("--token", metavar="T", help="the bearer token (visible in the process list during start-up)")
    token.add_argument("--token-file", metavar="F", help="a file with the token; by default one is created")
    token.add_argument(
        "--principals", metavar="FILE", help="a TOML file with several principals, each with token and root"
    )
    parser.add_argument(
        "--allow-origin", metavar="O", action="append", default=[], help="an allowed Origin header; repeatable"
    )
    parser.add_argument(
        "--allow-host", metavar="H", action="append", default=[], help="another allowed Host header; repeatable"
    )
    parser.add_argument("--allow-remote", action="store_true", help="allow an address that other machines can reach")
    parser.add_argument(
        "--most-calls", metavar="N", type=int, default=64, help="most concurrent calls of one principal (default: 64)"
    )
    return parser


def make_http_options(options: argparse.Namespace) -> HttpOptions:
    """Build the server options; raises `HttpError`."""
    host, port = _parse_address(options.http)
    messages = []
    if not _is_loopback(host):
        if not options.allow_remote:
            raise HttpError(
                f"{escape(host)} can be reached from other machines; if you want that, add --allow-remote, "
                "and put TLS in front of it"
            )
        messages.append("warning: other machines can reach this server, and the connection is not encrypted")
    roots = [*(Root(one) for one in options.root), *(Root(one, writable=False) for one in options.read_root)]
    if options.principals and any([options.workspace, options.dialect, options.mode, options.tools, roots]):
        raise HttpError("with --principals, the file sets root, dialect, mode and tools; leave them out here")
    try:
        known = (
            principals.load(options.principals, find_state())
            if options.principals
            else _build_single_principal(options, messages)
        )
    except BadPrincipals as error:
        raise HttpError(str(error)) from None
    return HttpOptions(
        host,
        port,
        known,
        options.allow_host,
        options.allow_origin,
        max(1, options.most_calls),
        None if options.principals else roots,
        options.structured,
        messages,
    )


def _build_single_principal(options: argparse.Namespace, messages: list[str]) -> Principals:
    """Build the single principal of the command line. Its token file is denied to its tools and commands."""
    owner = _build_owner(options, messages)
    return Principals([owner], [os.path.realpath(options.token_file)] if options.token_file is not None else [])


def _build_owner(options: argparse.Namespace, messages: list[str]) -> Principal:
    for place in (options.workspace or ".", *options.root, *options.read_root):
        if not os.path.isdir(place):
            raise HttpError(f"{escape(place) or repr(place)} is not a directory")
    if options.token is not None:
        digest = principals.check_token(options.token, "--token")
        hide_argument(options.token)
    elif options.token_file is not None:
        digest = principals.from_file(options.token_file)
    else:
        digest, path, token = principals.load_own_token(find_state())
        messages.append(f"token: {token} (stored in {escape(path)})" if token else f"the token is in {escape(path)}")
    tools = tuple(name.strip() for name in (options.tools or "").split(",") if name.strip())
    root = os.path.realpath(options.workspace or ".")
    return Principal(OWNER, digest, root, options.mode or "accept-edits", options.dialect or "native", tools)


def run(options: argparse.Namespace) -> int:
    """Serve until a signal ends it; raises `HttpError`."""
    server_options = make_http_options(options)
    for line in server_options.messages:
        warn(f"handrail mcp: {line}")
    return serve(server_options, open_socket(server_options))


def _parse_address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise HttpError(f"--http {escape(text)} is not HOST:PORT, such as 127.0.0.1:8765")
    return host, int(port)


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host.lower() == "localhost"
