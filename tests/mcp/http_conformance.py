"""The HTTP door as the conformance suite can reach it: the suite sends no token, so one is put into every request.

The suite calls tools by names of its own. Where one of ours does what such a tool has to do, a dialect gives it that
name: one that fails without arguments, and one that a rule asks about.
`python -m tests.mcp.http_conformance ROOT` says where it serves, and ends with SIGTERM.
"""

from __future__ import annotations

import sys
from pathlib import Path

from starlette.types import ASGIApp, Receive, Scope, Send

from handrail.cli import mcp_http as command
from handrail.mcp.http.serve import open_socket, serve
from tests.mcp.http_server import TOKEN


def with_token(app: ASGIApp) -> ASGIApp:
    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        token = (b"authorization", f"Bearer {TOKEN}".encode("ascii"))
        await app({**scope, "headers": [*scope["headers"], token]}, receive, send)

    return wrapped


FAILS = "test_error_handling"
ASKED = (
    "test_input_required_result_request_state",
    "test_input_required_result_tampered_state",
    "test_streaming_elicitation",
    "test_logging_tool",
)
DIALECT = f'[tools.{FAILS}]\nid = "read"\n' + "".join(f'[tools.{name}]\nid = "ls"\n' for name in ASKED)


def main() -> int:
    root = Path(sys.argv[1])
    dialect = root / "dialect"
    dialect.mkdir()
    (dialect / "tools.toml").write_text(DIALECT, encoding="utf-8")
    (dialect / "messages.toml").write_text("", encoding="utf-8")
    (root / "handrail.toml").write_text('rules = ["ask LS"]\n', encoding="utf-8")
    words = ["--token", TOKEN, "--dialect", str(dialect), "--tools", "all", str(root)]
    options = command.parser().parse_args(["--http", "127.0.0.1:0", *words])
    asked = command.make_http_options(options)
    return serve(asked, open_socket(asked), with_token)


if __name__ == "__main__":
    sys.exit(main())
