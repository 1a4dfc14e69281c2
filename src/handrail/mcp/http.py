"""`handrail mcp --http`: the tools over streamable HTTP, by the official SDK (the extra `mcp`), in both eras.

The gate (`http_gate.py`) decides who comes in; behind it each principal has a desk (`http_calls.py`) with its own
sessions on its own root. On SIGTERM or SIGINT nothing new is taken, what runs is ended, and the sessions are closed.
"""

from __future__ import annotations

import argparse
import contextlib
import ipaddress
import os
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from handrail import __version__
from handrail.mcp import http_principals
from handrail.mcp.http_principals import OWNER, BadPrincipals, Principal, Principals
from handrail.mcp.options import Parser, WrongUsage, say
from handrail.text.shown import shown
from handrail.workspace import Root

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from handrail.mcp.http_calls import Desk
    from handrail.session import Session

_GRACE = 5

_ABOUT = """\
An MCP server over streamable HTTP, at /mcp. Every request needs the bearer token. It listens on loopback addresses
only, unless --allow-remote is said; put TLS in front of it then."""

_EXAMPLES = """\
examples:
  handrail mcp --http 127.0.0.1:8765 path/to/project
  handrail mcp --http 127.0.0.1:8765 path/to/project --token-file ~/.secrets/handrail --mode ask
  handrail mcp --http 127.0.0.1:8765 --principals principals.toml

exit codes: 0 ended by a signal, 2 it cannot start"""


class HttpError(Exception):
    """The server cannot start; the text says why."""


@dataclass(frozen=True, slots=True)
class Door:
    """Where to listen, and for whom."""

    host: str
    port: int
    principals: Principals
    hosts: Sequence[str] = ()
    origins: Sequence[str] = ()
    most_calls: int = 64
    roots: Sequence[Root] | None = None
    """More directories, for the one user of this machine; None: for several principals there are none."""
    structured: bool = False
    said: list[str] = field(default_factory=list)
    """What the person who starts it has to know."""


def main(words: Sequence[str]) -> int:
    """Run `handrail mcp` with these words; returns the exit code."""
    try:
        return run(parser().parse_intermixed_args(list(words)))
    except (HttpError, WrongUsage) as error:
        say(f"handrail mcp: {error}")
        return 2


def parser() -> argparse.ArgumentParser:
    from handrail.policy.secrets import MODES

    made = Parser("handrail mcp --http", _ABOUT, _EXAMPLES)
    made.add_argument("workspace", metavar="ROOT", nargs="?", help="the project (default: this directory)")
    made.add_argument("--http", metavar="HOST:PORT", required=True, help="where to listen; port 0 means any free one")
    made.add_argument("--dialect", metavar="D", help="names, schemas and wording of the tools (default: native)")
    made.add_argument("--mode", choices=MODES, help="what may be done without asking (default: accept-edits)")
    made.add_argument("--tools", metavar="NAMES", help="the tools to offer, separated by commas, or `all`")
    made.add_argument("--root", metavar="DIR", action="append", default=[], help="one more directory; repeatable")
    about = "one more directory to read only; repeatable"
    made.add_argument("--read-root", metavar="DIR", action="append", default=[], help=about)
    made.add_argument("--structured", action="store_true", help="also send results as structuredContent")
    token = made.add_mutually_exclusive_group()
    token.add_argument("--token", metavar="T", help="the bearer token (others can see it in the process list)")
    token.add_argument("--token-file", metavar="F", help="a file with the token; by default one is made and kept")
    token.add_argument("--principals", metavar="FILE", help="TOML: several principals, each with token and root")
    made.add_argument("--allow-origin", metavar="O", action="append", default=[], help="a browser's page; repeatable")
    made.add_argument("--allow-host", metavar="H", action="append", default=[], help="one more Host name; repeatable")
    made.add_argument("--allow-remote", action="store_true", help="listen on an address that others can reach")
    made.add_argument("--most-calls", metavar="N", type=int, default=64, help="calls at once for one principal (64)")
    return made


def door(options: argparse.Namespace) -> Door:
    """What the options ask for; raises `HttpError`."""
    host, port = _address(options.http)
    said = []
    if not _is_loopback(host):
        if not options.allow_remote:
            raise HttpError(
                f"{shown(host)} can be reached from other machines; say --allow-remote if that is meant, "
                "and put TLS in front of it"
            )
        said.append("warning: other machines can reach this server, and what is said is not encrypted")
    roots = [*(Root(one) for one in options.root), *(Root(one, writable=False) for one in options.read_root)]
    if options.principals and any([options.workspace, options.dialect, options.mode, options.tools, roots]):
        raise HttpError("with --principals the file says root, dialect, mode and tools of each; leave them out here")
    try:
        principals = (
            http_principals.load(options.principals) if options.principals else Principals([_owner(options, said)])
        )
    except BadPrincipals as error:
        raise HttpError(str(error)) from None
    return Door(
        host,
        port,
        principals,
        options.allow_host,
        options.allow_origin,
        max(1, options.most_calls),
        None if options.principals else roots,
        options.structured,
        said,
    )


def _owner(options: argparse.Namespace, said: list[str]) -> Principal:
    for place in (options.workspace or ".", *options.root, *options.read_root):
        if not os.path.isdir(place):
            raise HttpError(f"{shown(place) or repr(place)} is not a directory")
    if options.token is not None:
        digest = http_principals.checked_token(options.token, "--token")
    elif options.token_file is not None:
        digest = http_principals.from_file(options.token_file)
    else:
        digest, path, made = http_principals.own_token()
        said.append(f"token: {made} (kept in {shown(path)})" if made else f"the token is in {shown(path)}")
    tools = tuple(name.strip() for name in (options.tools or "").split(",") if name.strip())
    root = os.path.realpath(options.workspace or ".")
    return Principal(OWNER, digest, root, options.mode or "accept-edits", options.dialect or "native", tools)


def run(options: argparse.Namespace) -> int:
    """Serve until a signal ends it; raises `HttpError`."""
    try:
        import anyio  # noqa: F401 - the extra, as a whole
        import uvicorn  # noqa: F401

        import mcp  # noqa: F401
    except ImportError as error:
        raise HttpError(f"--http needs the extra: pip install 'handrail[mcp]' ({error.name} is missing)") from None
    asked = door(options)
    for line in asked.said:
        say(f"handrail mcp: {line}")
    return serve(asked, listening(asked))


def listening(asked: Door) -> socket.socket:
    """The socket, bound before anything else is made ready; port 0 means any free one."""
    family = socket.AF_INET6 if ":" in asked.host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((asked.host, asked.port))
        made.listen(128)
    except OSError as error:
        made.close()
        raise HttpError(f"{shown(asked.host)}:{asked.port} cannot be listened on: {error.strerror}") from None
    return made


def serve(asked: Door, sock: socket.socket, wrapped: Callable[[ASGIApp], ASGIApp] = lambda app: app) -> int:
    """Serve on this socket until a signal ends it."""
    import asyncio

    from handrail.mcp.offer import NoSuchOffer

    try:
        with sock:
            asyncio.run(_serve(asked, sock, wrapped))
    except NoSuchOffer as error:
        raise HttpError(str(error)) from None
    return 0


async def _serve(asked: Door, sock: socket.socket, wrapped: Callable[[ASGIApp], ASGIApp]) -> None:
    import anyio
    import anyio.to_thread
    import uvicorn
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from starlette.middleware.cors import CORSMiddleware

    from handrail.mcp.http_gate import MOST_BYTES, Gate

    desks = _desks(asked)
    manager = StreamableHTTPSessionManager(_server(desks), max_request_body_size=MOST_BYTES, max_sessions=1024)
    port = sock.getsockname()[1]
    hosts = _hosts(asked, port)
    origins = [f"http://{host}" for host in hosts] + list(asked.origins)
    app: ASGIApp = Gate(manager.handle_request, asked.principals, hosts, origins, asked.most_calls)
    if asked.origins:  # a browser asks first, without the token
        app = CORSMiddleware(
            app,
            allow_origins=list(asked.origins),
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["*"],
            expose_headers=["Mcp-Session-Id", "WWW-Authenticate"],
        )

    class Server(uvicorn.Server):
        """Ends calls before it waits for them, and leaves the end of the process to us."""

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            for server in self.servers:
                server.close()
            for desk in desks.values():
                desk.stop()
            with anyio.move_on_after(_GRACE):
                while any(desk.running for desk in desks.values()):
                    await anyio.sleep(0.02)
            for desk in desks.values():  # ends what is left, jobs in the background too
                await anyio.to_thread.run_sync(desk.sessions.close)
            await leaving.aclose()  # streams that only listen end here, and need not be waited for
            await super().shutdown(sockets)

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            with _handling(self.handle_exit):
                yield

    config = uvicorn.Config(
        wrapped(app),
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=_GRACE,
    )
    host = f"[{asked.host}]" if ":" in asked.host else asked.host
    say(f"handrail mcp: serving MCP at http://{host}:{port}/mcp")
    async with contextlib.AsyncExitStack() as leaving:
        await leaving.enter_async_context(manager.run())
        await Server(config).serve(sockets=[sock])


def _desks(asked: Door) -> dict[str, Desk]:
    from handrail.mcp.asking import Seals
    from handrail.mcp.http_calls import Desk
    from handrail.mcp.sessions import Sessions

    seals = Seals()
    return {
        one.name: Desk(one, Sessions(_opener(one, asked)), seals, asked.structured) for one in asked.principals.known
    }


def _opener(principal: Principal, asked: Door) -> Callable[[], Session]:
    """Opens a session as the command line does, for one principal. A mistake in a file is told now, not to a model."""
    from handrail import config
    from handrail.files.locks import state_directory
    from handrail.journal.store import SqliteJournal, default_path
    from handrail.mcp.http_calls import approve
    from handrail.policy.files import PolicyError, load
    from handrail.session import Session

    try:
        known = config.load(os.environ)
        rules = load(principal.root, os.environ, state_directory(known.settings.state))
        rules += http_principals.apart(principal, asked.principals)
    except (config.ConfigError, PolicyError) as error:
        raise HttpError(str(error)) from None

    def opened() -> Session:
        settings = known.settings
        journal = None
        if settings.journaling != "off":
            path = default_path(state_directory(settings.state))
            journal = SqliteJournal(path, required=settings.journaling == "require", budget=settings.journal_bytes)
        return Session(
            principal.root,
            dialect=principal.dialect,
            roots=() if asked.roots is None else [*known.roots, *asked.roots],
            mode=principal.mode,
            rules=rules,
            approve=approve,
            journal=journal,
            settings=settings,
        )

    return opened


def _server(desks: dict[str, Desk]) -> Any:
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server
    from mcp_types import (
        CallToolRequestParams,
        CallToolResult,
        InputRequiredResult,
        ListToolsResult,
        PaginatedRequestParams,
    )

    from handrail.mcp.http_gate import PRINCIPAL

    def desk_of(ctx: ServerRequestContext[Any, Any]) -> Desk:
        assert ctx.request is not None
        return desks[ctx.request.scope[PRINCIPAL].name]

    async def listed(ctx: ServerRequestContext[Any, Any], _: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult.model_validate({"tools": desk_of(ctx).tools})

    async def called(
        ctx: ServerRequestContext[Any, Any], params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        made = await desk_of(ctx).call(ctx, params)
        if "inputRequests" in made:
            return InputRequiredResult.model_validate(made)
        return CallToolResult.model_validate(made)

    return Server("handrail", version=__version__, on_list_tools=listed, on_call_tool=called)


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise HttpError(f"--http {shown(text)} is not HOST:PORT, such as 127.0.0.1:8765")
    return host, int(port)


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host.lower() == "localhost"


def _hosts(asked: Door, port: int) -> list[str]:
    """What a client may call this server. A name without a port means any that was given with it."""
    bound = f"[{asked.host}]" if ":" in asked.host else asked.host
    names = dict.fromkeys([bound, "localhost", "127.0.0.1", "[::1]"])
    return [f"{name}:{port}" for name in names] + [one for host in asked.hosts for one in (host, f"{host}:{port}")]


@contextlib.contextmanager
def _handling(handler: Callable[[int, Any], None]) -> Iterator[None]:
    """SIGTERM and SIGINT mean a clean end while this lasts, wherever the main thread can be told."""
    try:
        old = {one: signal.signal(one, handler) for one in (signal.SIGTERM, signal.SIGINT)}
    except ValueError:  # not the main thread: whoever runs us there ends us
        yield
        return
    try:
        yield
    finally:
        for one, before in old.items():
            signal.signal(one, before)
