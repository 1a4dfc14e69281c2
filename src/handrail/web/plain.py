"""A page that needs nothing else: for who may see nothing, or where there is no site to render it."""

from __future__ import annotations

import base64
import hashlib
from html import escape

from starlette.responses import HTMLResponse

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:34rem;margin:15vh auto 0;padding:0 1rem;color-scheme:light dark}"
    "code{font-size:.95em}"
)
_PAGE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title} · Handrail</title>
<style>{style}</style>
<h1>{title}</h1>
<p>{text}</p>
</html>
"""
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_POLICY = f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; frame-ancestors 'none'"


def make_plain_page(status: int, title: str, text: str) -> HTMLResponse:
    """A title and a sentence; words between backticks are commands."""
    parts = escape(text).split("`")
    body = "".join(f"<code>{part}</code>" if place % 2 else part for place, part in enumerate(parts))
    page = _PAGE.format(title=escape(title), style=_STYLE, text=body)
    return HTMLResponse(page, status, headers={"Content-Security-Policy": _POLICY})
