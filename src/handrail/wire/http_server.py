"""Settings that the HTTP servers of Handrail have in common: the browser page and the MCP server."""

from __future__ import annotations

from typing import Any

import uvicorn


def configure_server(app: Any, grace: int, **settings: Any) -> uvicorn.Config:
    """A quiet server without WebSockets; ``grace``: seconds that requests have to end when the server is to end."""
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=grace,
        **settings,
    )
