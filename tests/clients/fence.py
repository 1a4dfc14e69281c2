"""A proxy that lets nothing out: what a client wants from the internet is refused, and written down."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Fence:
    """A context manager; `wanted` says which hosts were asked for."""

    def __init__(self) -> None:
        self.wanted: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def parse_request(self) -> bool:
                """Refuse as soon as it is known what is wanted, whatever the method is."""
                if super().parse_request():
                    outer.wanted.append(self.path)
                    self.send_error(403, "offline")
                return False

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def environment(self) -> dict[str, str]:
        """What sends a program here for everything that is not on loopback."""
        url = f"http://127.0.0.1:{self._server.server_address[1]}"
        given = {"HTTP_PROXY": url, "HTTPS_PROXY": url, "ALL_PROXY": url, "NO_PROXY": "127.0.0.1,localhost"}
        return {**given, **{name.lower(): value for name, value in given.items()}, "npm_config_registry": url}

    def __enter__(self) -> Fence:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
