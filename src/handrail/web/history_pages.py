"""The pages over many calls: statistics, the history of a file, the export of a session."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from handrail.journal import browse
from handrail.journal.call_changes import has_session
from handrail.text.display import unescape
from handrail.web.export import export_session
from handrail.web.requests import read_form, read_number
from handrail.web.restoring import restore
from handrail.web.site import Site
from handrail.web.statistics import make_plots


class HistoryPages:
    def __init__(self, site: Site) -> None:
        self._site = site

    def show_statistics(self, request: Request) -> Response:  # noqa: ARG002
        with self._site.reader() as reader:
            plots = make_plots(reader) if reader else []
            edited = browse.list_edited_files(reader) if reader else []
        return self._site.page("statistics.html", plots=plots, edited=edited)

    def show_file(self, request: Request) -> Response:
        path = unescape(request.query_params.get("path", ""))
        before = read_number(request.query_params.get("before"))
        with self._site.reader() as reader:
            events = browse.read_file_history(reader, path, before=before) if reader else []
        return self._site.page("file.html", path=path, events=events)

    async def restore_file(self, request: Request) -> Response:
        """Give a file the contents that it had before a call."""
        form = await read_form(request)
        path, seq = unescape(form.get("path", [""])[0]), read_number(form.get("before", [""])[0])

        def run() -> Response:
            with self._site.reader() as reader:
                events = browse.read_file_history(reader, path, before=(seq or 0) + 1, limit=1) if reader else []
                row = reader.find_call(seq or 0) if reader else None
            if row is None or not events or events[0].seq != seq or not events[0].before:
                return self._site.message(404, "Nothing was restored", "There is no such version of this file.")
            return self._site.message(200, "Restore", restore(self._site, events[0], path, row.workspace))

        return await run_in_threadpool(run)

    def export(self, request: Request) -> Response:
        session = request.path_params["session"]
        with self._site.reader() as reader:
            if reader is None or not has_session(reader, session):
                return self._site.message(404, "No such session", "This session is not in the journal.")
        plain = "".join(char for char in session if char.isascii() and char.isalnum())[:40]
        headers = {"Content-Disposition": f'attachment; filename="handrail-{plain}.html"'}
        parts = (part.encode("utf-8", "replace") for part in export_session(self._site, session))
        return StreamingResponse(parts, media_type="text/html; charset=utf-8", headers=headers)
