"""An HTTP proxy for one command, which connects to the hosts that the rules allow and to no others.

The command finds its address in `http_proxy` and `https_proxy`. Nothing listens there: a supervisor (`loopback.py`)
sees the command connect to that address, and puts one end of a connection to `FilterProxy` in the place of its socket.
The address is chosen at random among about 2^40, so that no other command can guess it.

The proxy knows CONNECT and plain HTTP. It checks the name and the port that a request is for, resolves the name itself,
and does not look into what is sent through a tunnel.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
import secrets
import select
import socket
import threading
from collections.abc import Callable, Iterator

from handrail.shell.effects.hosts import Host, is_loopback, parse_name

_MOST_HEAD = 65_536
_HEAD_SECONDS = 60.0
_CONNECT_SECONDS = 60.0
_MOST_AT_ONCE = 128
_PIECE = 65_536
_REQUEST = re.compile(rb"([A-Z]{1,20}) (\S{1,8192}) HTTP/1\.[01]")
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?", re.ASCII)
_DROPPED = (b"connection", b"keep-alive", b"host")
_NO_PROXY = "localhost,127.0.0.1,::1"


class _RefusedRequest(Exception):
    """A request that is answered by the proxy itself."""

    def __init__(self, status: str, why: str) -> None:
        super().__init__(why)
        self.status = status


class FilterProxy:
    """The proxy of one command."""

    def __init__(self, allows: Callable[[str], bool]) -> None:
        """``allows``: whether a host may be contacted, given as `host:port`."""
        numbers = [1 + secrets.randbelow(254), secrets.randbelow(256), 1 + secrets.randbelow(254)]
        self.address = ".".join(map(str, (127, *numbers))), 1024 + secrets.randbelow(64_512)
        self.refused: dict[str, None] = {}
        """The hosts that were asked for and are not allowed, each as `host:port`."""
        self._allows = allows
        self._free = threading.BoundedSemaphore(_MOST_AT_ONCE)

    def environment(self) -> dict[str, str]:
        """The variables by which programs find the proxy."""
        url = f"http://{self.address[0]}:{self.address[1]}"
        proxies = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), url)
        return {**proxies, "no_proxy": _NO_PROXY, "NO_PROXY": _NO_PROXY}

    def connect(self) -> socket.socket:
        """A new connection to the proxy."""
        if not self._free.acquire(blocking=False):
            raise ConnectionRefusedError
        try:
            ours, theirs = _connect_pair()
        except BaseException:
            self._free.release()
            raise
        threading.Thread(target=self._serve, args=(ours,), name="handrail-proxy", daemon=True).start()
        return theirs

    def _serve(self, client: socket.socket) -> None:
        try:
            with client, contextlib.suppress(OSError):
                try:
                    self._answer(client)
                except _RefusedRequest as refused:
                    client.sendall(_describe(refused))
        finally:
            self._free.release()

    def _answer(self, client: socket.socket) -> None:
        client.settimeout(_HEAD_SECONDS)
        head, rest = _read_head(client)
        request, _, fields = head.partition(b"\r\n")
        match = _REQUEST.fullmatch(request)
        if not match:
            raise _RefusedRequest("400 Bad Request", "this is not a request for an HTTP proxy")
        method, target = match[1], match[2].decode("latin-1")
        if method == b"CONNECT":
            host = _parse_authority(target, 0)
            with self._open(host) as server:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                _relay(client, server, rest)
            return
        scheme, _, behind = target.partition("://")
        if scheme.lower() != "http":
            raise _RefusedRequest("400 Bad Request", "only CONNECT and http:// addresses are relayed")
        end = next((at for at, sign in enumerate(behind) if sign in "/?#"), len(behind))
        host, path = _parse_authority(behind[:end], 80), behind[end:]
        path = path if path.startswith("/") else f"/{path}"
        kept = [line for line in fields.split(b"\r\n") if line and not _is_dropped(line)]
        lines = [b"%s %s HTTP/1.1" % (method, path.encode("latin-1")), b"Host: " + _format_host(host).encode()]
        lines += [*kept, b"Connection: close", b"", b""]
        with self._open(host) as server:
            server.sendall(b"\r\n".join(lines))
            _relay(client, server, rest)

    def _open(self, host: Host) -> socket.socket:
        if not self._allows(str(host)):
            self.refused[str(host)] = None
            why = f"{host} is not among the hosts that the rules allow; a rule for it is: allow Network({host})"
            raise _RefusedRequest(f"403 {host} is not allowed by a rule of Handrail", why)
        try:
            return connect_to(host)
        except OSError as error:
            raise _RefusedRequest("502 Bad Gateway", f"{host} cannot be reached: {error.strerror or error}") from None


def connect_to(host: Host) -> socket.socket:
    """Connect to a host. A name of the network that leads to this machine is refused: a rule for it does not mean that.

    The address is checked that the connection is made to, and the name is not resolved again.
    """
    failed: OSError = OSError("it has no address")
    for address in _find_addresses(host):
        place = ipaddress.ip_address(address[0].partition("%")[0])
        inward = place.is_loopback or place.is_unspecified or place.is_link_local or place.is_multicast
        mapped = place.ipv4_mapped if isinstance(place, ipaddress.IPv6Address) else None
        if (inward or (mapped and (mapped.is_loopback or mapped.is_link_local))) and not _is_named_so(host):
            failed = OSError(f"its name leads to {place}, which is of this machine")
            continue
        try:
            return socket.create_connection((address[0], host.port), _CONNECT_SECONDS)
        except OSError as error:
            failed = error
    raise failed


def _is_named_so(host: Host) -> bool:
    """Whether a rule that allows a host names this machine, or the address itself."""
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(host.name)
        return True
    return is_loopback(host.name)


def _find_addresses(host: Host) -> Iterator[tuple[str, int]]:
    for _, _, _, _, address in socket.getaddrinfo(host.name, host.port, type=socket.SOCK_STREAM):
        yield str(address[0]), int(address[1])


def _parse_authority(text: str, usual: int) -> Host:
    match = _AUTHORITY.fullmatch(text)
    name = parse_name(match[1]) if match else ""
    port = int(match[2] or usual) if match else 0
    if not name or not 0 < port < 65_536:
        raise _RefusedRequest("400 Bad Request", "the address of the request is not a host and a port")
    return Host(name, port)


def _format_host(host: Host) -> str:
    return str(host._replace(port=0) if host.port == 80 else host) if ":" not in host.name else str(host)


def _is_dropped(line: bytes) -> bool:
    name = line.partition(b":")[0].strip().lower()
    return name in _DROPPED or name.startswith(b"proxy-")


def _read_head(client: socket.socket) -> tuple[bytes, bytes]:
    """The head of a request without its empty line, and the bytes behind it."""
    received = b""
    while b"\r\n\r\n" not in received:
        piece = client.recv(_PIECE)
        if not piece or len(received) > _MOST_HEAD:
            raise _RefusedRequest("400 Bad Request", "the head of the request does not end")
        received += piece
    head, _, rest = received.partition(b"\r\n\r\n")
    return head, rest


def _relay(client: socket.socket, server: socket.socket, rest: bytes) -> None:
    """Copy bytes both ways until both sides have ended."""
    for one in (client, server):
        one.settimeout(None)
    server.sendall(rest)
    others = {client.fileno(): (client, server), server.fileno(): (server, client)}
    waiting = select.poll()
    for fd in others:
        waiting.register(fd, select.POLLIN)
    while others:
        for fd, _ in waiting.poll():
            source, target = others[fd]
            piece = source.recv(_PIECE)
            if piece:
                target.sendall(piece)
                continue
            waiting.unregister(fd)
            del others[fd]
            with contextlib.suppress(OSError):
                target.shutdown(socket.SHUT_WR)


def _describe(refused: _RefusedRequest) -> bytes:
    body = f"handrail: {refused}\n".encode()
    head = f"HTTP/1.1 {refused.status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode("ascii", "replace") + body


def _connect_pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of a TCP connection. Whoever else connects meanwhile is turned away."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(8)
        listener.settimeout(_CONNECT_SECONDS)
        theirs = socket.create_connection(listener.getsockname(), _CONNECT_SECONDS)
        try:
            while True:
                ours, peer = listener.accept()
                if peer == theirs.getsockname():
                    return ours, theirs
                ours.close()
        except BaseException:
            theirs.close()
            raise
