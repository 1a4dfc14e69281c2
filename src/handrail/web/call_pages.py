"""The pages of one call, and undo and redo of one or several."""

from __future__ import annotations

import json
from collections.abc import Sequence

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from handrail.journal.queries import CallRow
from handrail.journal.timeline import TimelineCall, open_turn, read_calls
from handrail.web import diffs, pictures
from handrail.web.requests import find_call, read_form
from handrail.web.restoring import preview_undo, run_undo
from handrail.web.site import Site

_GONE = "No such call", "This call is not in the journal. Old calls are removed when the journal reaches its limit."
_MOST_OPEN = 400
"""Rows of a diff that are shown at once; larger ones are folded file by file."""
_MOST_CALLS = 1_000
"""Calls that one undo may name."""


class CallPages:
    def __init__(self, site: Site) -> None:
        self._site = site

    def show(self, request: Request) -> Response:
        with self._site.reader() as reader:
            row = find_call(reader, request)
            if reader is None or row is None:
                return self._site.message(404, *_GONE)
            (call,) = read_calls(reader, [row])
            turn = open_turn(reader, row)
        views = diffs.parse_diff(row.diff or "")
        return self._site.page(
            "call.html",
            call=call,
            turn=turn,
            views=views,
            folded=sum(view.rows for view in views) > _MOST_OPEN,
            pictures=pictures.list_pictures(row),
            arguments=json.dumps(row.arguments, indent=2, ensure_ascii=False),
            side_by_side=request.query_params.get("view") == "split",
        )

    def show_diff(self, request: Request) -> Response:
        """The diff of a call without a page around it."""
        with self._site.reader() as reader:
            row = find_call(reader, request)
        if row is None:
            return self._site.message(404, *_GONE)
        return self._site.page("fragment.html", workspace=row.workspace, views=diffs.parse_diff(row.diff or ""))

    def show_picture(self, request: Request) -> Response:
        with self._site.reader() as reader:
            row = find_call(reader, request)
        kind, raw = pictures.read_picture(row, request.path_params["number"]) if row else ("", b"")
        if not kind:
            return self._site.message(404, "No such picture", "The file is no picture, or is no longer there.")
        return Response(raw, media_type=kind, headers={"Cache-Control": "no-store"})

    def show_undo(self, request: Request) -> Response:
        calls = self._find_calls([str(request.path_params["seq"])])
        return self._preview(calls)

    async def undo(self, request: Request) -> Response:
        return await run_in_threadpool(lambda: self._undo(self._find_calls([str(request.path_params["seq"])])))

    def show_undo_of_several(self, request: Request) -> Response:
        return self._preview(self._find_calls(request.query_params.getlist("call")))

    async def undo_several(self, request: Request) -> Response:
        form = await read_form(request)
        return await run_in_threadpool(lambda: self._undo(self._find_calls(form.get("call", []))))

    def _preview(self, calls: Sequence[TimelineCall]) -> Response:
        if not calls:
            return self._site.message(404, *_GONE)
        preview = preview_undo(self._site, _list_rows(calls))
        return self._site.page("undo.html", calls=calls, preview=preview, views=preview.views)

    def _undo(self, calls: Sequence[TimelineCall]) -> Response:
        if not calls:
            return self._site.message(404, *_GONE)
        return self._site.page("undone.html", calls=calls, preview=run_undo(self._site, _list_rows(calls)))

    def _find_calls(self, numbers: Sequence[str]) -> list[TimelineCall]:
        """The calls of these numbers in one workspace; none if one of them is not there."""
        wanted = {int(one) for one in numbers[:_MOST_CALLS] if one.isascii() and one.isdecimal() and len(one) < 19}
        with self._site.reader() as reader:
            rows = [row for seq in sorted(wanted, reverse=True) if reader and (row := reader.find_call(seq))]
            whole = len(rows) == len(numbers) and len({row.workspace for row in rows}) == 1
            return read_calls(reader, rows) if reader and whole else []


def _list_rows(calls: Sequence[TimelineCall]) -> list[CallRow]:
    return [call.row for call in calls]
