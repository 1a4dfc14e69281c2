"""Serve over HTTP until a signal arrives: an endpoint for each principal, behind the check of access.

On SIGTERM or SIGINT no new request is accepted, running calls are ended, and the sessions are closed.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from starlette.middleware.cors import CORSMiddleware

from handrail import dialects
from handrail.errors import ToolError
from handrail.files.locks import state_directory
from handrail.frozen import frozen
from handrail.mcp.calls import CallService
from handrail.mcp.http import principals
from handrail.mcp.http.access import AccessCheck
from handrail.mcp.http.connections import TimedConnection
from handrail.mcp.http.endpoint import Endpoint
from handrail.mcp.http.principals import Principal, Principals
from handrail.mcp.sessions import CannotOpen
from handrail.mcp.tool_list import NoSuchOffer, list_specs
from handrail.pipeline.options import Setup
from handrail.pipeline.session import Session
from handrail.policy.files import PolicyError, load
from handrail.settings import config_file as config
from handrail.text.display import escape
from handrail.wire import http_server
from handrail.workspace import Root

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from handrail.model import Approve

_GRACE = 5
_NOT_SEPARATE = (
    "commands of {name} could read the files of the other principals: that needs namespaces "
    "(`handrail doctor` names what is missing); give each principal `tools` without commands, or start a server for "
    "each under its own user"
)


class HttpError(Exception):
    """The server cannot start; the text says why."""


@frozen
class HttpOptions:
    """The address to listen on, and the principals to serve."""

    host: str
    port: int
    principals: Principals
    hosts: Sequence[str] = ()
    origins: Sequence[str] = ()
    most_calls: int = 64
    roots: Sequence[Root] | None = None
    """More directories, for the one user of this machine; None: for several principals there are none."""
    structured: bool = False
    messages: list[str] = field(default_factory=list)
    """Messages for the person who starts the server."""


def open_socket(options: HttpOptions) -> socket.socket:
    """Bind the socket before anything else is prepared."""
    try:
        return http_server.open_socket(options.host, options.port)
    except OSError as error:
        raise HttpError(f"{escape(options.host)}:{options.port} cannot listen: {error.strerror}") from None


def serve(options: HttpOptions, sock: socket.socket, wrapped: Callable[[ASGIApp], ASGIApp] = lambda app: app) -> int:
    """Serve on this socket until a signal ends it."""
    try:
        with sock:
            asyncio.run(_serve(options, sock, wrapped))
    except NoSuchOffer as error:
        raise HttpError(str(error)) from None
    return 0


async def _serve(options: HttpOptions, sock: socket.socket, wrapped: Callable[[ASGIApp], ASGIApp]) -> None:
    services = _build_services(options)
    port = sock.getsockname()[1]
    hosts = _list_hosts(options, port)
    origins = [f"http://{host}" for host in hosts] + list(options.origins)
    apps = {
        one.name: Endpoint(list_specs(one.dialect, one.tools), services[one.name]) for one in options.principals.known
    }
    app: ASGIApp = AccessCheck(apps, options.principals, hosts, origins, lambda name: services[name].busy)
    if options.origins:  # a browser asks first, without the token
        app = CORSMiddleware(
            app,
            allow_origins=list(options.origins),
            allow_methods=["POST", "DELETE"],
            allow_headers=["*"],
            expose_headers=["Mcp-Session-Id", "WWW-Authenticate"],
        )

    host = f"[{options.host}]" if ":" in options.host else options.host

    async def stop() -> None:
        for service in services.values():
            service.stop()
        # Ends what is left too, such as jobs in the background.
        await asyncio.gather(*(asyncio.to_thread(service.close) for service in services.values()))

    started = f"handrail mcp: serving MCP at http://{host}:{port}/mcp"
    server = http_server.HttpServer(wrapped(app), _GRACE, lambda: _log(started), stop, http=TimedConnection)
    await server.serve(sockets=[sock])


def _build_services(options: HttpOptions) -> dict[str, CallService]:
    services = {
        one.name: CallService(_make_opener(one, options), options.structured, options.most_calls, one.name)
        for one in options.principals.known
    }
    try:
        for one in options.principals.known:
            if _needs_hiding(one, options.principals):
                with services[one.name].sessions.use(""):  # a machine without such a sandbox is reported at start-up
                    pass
    except CannotOpen as error:
        for service in services.values():
            service.close()
        raise HttpError(str(error)) from None
    return services


def _needs_hiding(principal: Principal, known: Principals) -> bool:
    """Whether only a sandbox can keep a principal out of the files of others: it runs commands as the same user."""
    tools = list_specs(principal.dialect, principal.tools)
    return len(known.known) > 1 and any(tool["hints"]["open_world"] for tool in tools)


def _make_opener(principal: Principal, options: HttpOptions) -> Callable[[Approve], Session]:
    """Open a session for one principal, as the command line does. Mistakes in files are reported at start-up."""
    try:
        known = config.load(os.environ)
        load(principal.root, os.environ, state_directory(known.settings.state))
    except (config.ConfigError, PolicyError) as error:
        raise HttpError(str(error)) from None

    needs_hiding = _needs_hiding(principal, options.principals)

    def opened(approve: Approve) -> Session:
        dialect = dialects.load(principal.dialect)
        try:
            session = Session(
                principal.root,
                dialect=dialect,
                setup=Setup(
                    offer=principal.tools,
                    roots=() if options.roots is None else [*known.roots, *options.roots],
                    rules=principals.make_separating_rules(principal, options.principals),
                ),
                mode=principal.mode,
                approve=approve,
                settings=known.settings,
            )
            if needs_hiding and not session.services.command_host().boundary.namespaced:
                session.close()
                raise CannotOpen(_NOT_SEPARATE.format(name=escape(principal.name)))
            return session
        except ValueError as error:  # a mistake in the rules, or a workspace that is gone
            raise CannotOpen(f"cannot open a session: {error}") from None
        except ToolError as error:
            raise CannotOpen(f"cannot open a session: {dialect.render_error(error)}") from None
        except OSError as error:
            place = escape(error.filename or "")
            raise CannotOpen(f"cannot open a session: {place}: {error.strerror}") from None

    return opened


def _list_hosts(options: HttpOptions, port: int) -> list[str]:
    """List the allowed Host headers. A name without a port matches any port."""
    bound = f"[{options.host}]" if ":" in options.host else options.host
    names = dict.fromkeys([bound, "localhost", "127.0.0.1", "[::1]"])
    unsaid = list(names) if port == 80 else []  # what nobody writes, because it goes without saying
    return [
        *(f"{name}:{port}" for name in names),
        *unsaid,
        *(one for host in options.hosts for one in (host, f"{host}:{port}")),
    ]


def _log(line: str) -> None:
    if sys.stderr is not None:
        sys.stderr.buffer.write(line.encode("utf-8", "replace") + b"\n")
        sys.stderr.buffer.flush()
