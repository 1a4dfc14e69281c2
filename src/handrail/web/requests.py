"""What a request asks for: numbers, filters, forms."""

from __future__ import annotations

import time
from urllib.parse import parse_qs

from starlette.requests import Request

from handrail.journal.browse import CallFilter
from handrail.journal.queries import CallRow, JournalReader
from handrail.text.display import escape, unescape
from handrail.wire.http_server import read_body

_MOST_FORM = 1 << 20
_MOST_SEARCH = 200
"""Characters of a search."""
_KIND = "application/x-www-form-urlencoded"
DAYS = {"1": "last 24 hours", "7": "last 7 days", "30": "last 30 days"}


def read_filter(request: Request) -> CallFilter:
    """The calls that the query of an address asks for."""
    values = request.query_params
    days = values.get("days", "")
    return CallFilter(
        session=values.get("session", ""),
        workspace=unescape(values.get("workspace", "")),
        tool=values.get("tool", ""),
        status=values.get("status", ""),
        client=values.get("agent", ""),
        file=unescape(values.get("file", "")),
        text=values.get("q", "").strip()[:_MOST_SEARCH],
        since=int(time.time() - int(days) * 86_400) * 10**9 if days in DAYS else 0,
    )


def write_filter(request: Request, wanted: CallFilter) -> dict[str, str]:
    """The query that `read_filter` reads; any name is safe in an address."""
    days = request.query_params.get("days", "")
    values = {
        "q": wanted.text,
        "agent": wanted.client,
        "file": escape(wanted.file),
        "days": days if days in DAYS else "",
        "workspace": escape(wanted.workspace),
        "session": wanted.session,
        "tool": wanted.tool,
        "status": wanted.status,
    }
    return {name: value for name, value in values.items() if value}


def find_call(reader: JournalReader | None, request: Request) -> CallRow | None:
    """The call whose number is in the path."""
    seq = request.path_params["seq"]
    return reader.find_call(seq) if reader and seq < 1 << 62 else None


def read_number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 19 else None


async def read_form(request: Request) -> dict[str, list[str]]:
    """The fields of a form; none if it is too long, or no form."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != _KIND:
        return {}
    body = await read_body(request, _MOST_FORM) or b""
    return parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=20_000)
