"""The pages: each function takes a request and returns a page, or a part of one."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs, urlencode

import anyio
import anyio.to_thread
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from handrail.journal import JournalFailed, browse
from handrail.journal.browse import BriefCall, CallFilter, CallPage, CallSources
from handrail.journal.queries import UNFINISHED, CallRow, FileRow, JournalReader
from handrail.journal.undo_plan import has_changed
from handrail.model import Answer
from handrail.text.display import escape, unescape
from handrail.web import diffs, drafts, pictures
from handrail.web.drafts import DraftChoice, DraftProblem
from handrail.web.export import export_session
from handrail.web.questions import PageQuestion
from handrail.web.restoring import preview_undo, restore, run_undo
from handrail.web.site import Site
from handrail.web.statistics import make_plots

_PAUSE = 0.3
"""Seconds between two looks at the journal and the questions."""
_BEAT = 15.0
"""Seconds after which a stream with no news says that it is alive."""
_MOST_FORM = 1 << 20
_PER_PAGE = 50
_STATUSES = ("ok", "partial", "error", "denied", UNFINISHED)
_KIND = "application/x-www-form-urlencoded"


def make_app(site: Site) -> Starlette:
    """The pages, without any check of who asks for them."""
    pages = _Pages(site)
    routes = [
        Route("/", pages.show_activity),
        Route("/events", pages.stream_events),
        Route("/calls/{seq:int}", pages.show_call),
        Route("/calls/{seq:int}/pictures/{number:int}", pages.show_picture),
        Route("/calls/{seq:int}/undo", pages.show_undo, methods=["GET"]),
        Route("/calls/{seq:int}/undo", pages.undo, methods=["POST"]),
        Route("/approvals", pages.show_approvals),
        Route("/approvals/{id:str}", pages.show_question, methods=["GET"]),
        Route("/approvals/{id:str}", pages.answer, methods=["POST"]),
        Route("/statistics", pages.show_statistics),
        Route("/files", pages.show_file, methods=["GET"]),
        Route("/files", pages.restore_file, methods=["POST"]),
        Route("/sessions/{session:str}/export", pages.export),
        Route("/drafts", pages.show_drafts),
        Route("/drafts/{name:str}", pages.show_draft, methods=["GET"]),
        Route("/drafts/{name:str}", pages.settle_draft, methods=["POST"]),
        Mount("/static", StaticFiles(directory=str(files("handrail.web") / "static"))),
    ]
    return Starlette(routes=routes, exception_handlers={JournalFailed: pages.report_journal, 404: pages.report_missing})


class _Pages:
    def __init__(self, site: Site) -> None:
        self._site = site

    def _page(self, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        return HTMLResponse(self._site.render(template, **values).encode("utf-8", "replace"), status)

    def _show_message(self, status: int, title: str, text: str) -> HTMLResponse:
        return self._page("message.html", status, title=title, text=text)

    def report_journal(self, request: Request, error: Exception) -> Response:  # noqa: ARG002 - Starlette passes both
        assert isinstance(error, JournalFailed)
        return self._show_message(500, "The journal cannot be read", f"{error.journal}: {error.why}")

    def report_missing(self, request: Request, error: Exception) -> Response:  # noqa: ARG002 - Starlette passes both
        return self._show_message(404, "Not found", "There is no such page.")

    # Activity

    def show_activity(self, request: Request) -> Response:
        wanted = _read_filter(request)
        before = _number(request.query_params.get("before"))
        with self._site.reader() as reader:
            if reader is None:
                page, sources, newest = CallPage([], None), CallSources([], [], []), 0
            else:
                newest = reader.read_newest_entry()  # first: whatever comes later is in the stream
                page, sources = (
                    browse.read_page(reader, wanted, before=before, limit=_PER_PAGE),
                    browse.list_sources(reader),
                )
        query = {name: value for name, value in _filter_values(wanted).items() if value}
        older = "?" + urlencode({**query, "before": page.before}) if page.before is not None else ""
        return self._page(
            "activity.html",
            page=page,
            sources=sources,
            statuses=_STATUSES,
            wanted=wanted,
            older=older,
            newest="?" + urlencode(query) if before is not None else "",
            stream="/events?" + urlencode({**query, "since": newest}) if before is None else "",
        )

    async def stream_events(self, request: Request) -> Response:
        """The calls that end, and the questions that come and go, as server-sent events."""
        since = _number(request.headers.get("last-event-id")) or _number(request.query_params.get("since"))
        wanted = _read_filter(request) if "since" in request.query_params else None
        headers = {"X-Accel-Buffering": "no"}
        return StreamingResponse(self.events(wanted, since or 0), media_type="text/event-stream", headers=headers)

    async def events(self, wanted: CallFilter | None, since: int) -> AsyncIterator[str]:
        """The stream. ``wanted`` None: no calls, only questions."""
        with self._site.attendance.attend():
            async for event in self._watch(wanted, since):
                yield event

    async def _watch(self, wanted: CallFilter | None, since: int) -> AsyncIterator[str]:
        shown: list[str] | None = None
        silent = 0.0
        while not self._site.closing.is_set():
            ids = [one.id for one in self._site.list_questions()]
            if ids != shown:
                shown, silent = ids, 0.0
                yield _format_event("questions", {"open": ids})
            if wanted:
                rows, since = await anyio.to_thread.run_sync(self._read_ended, since)
                for row in filter(wanted.matches, rows):
                    silent = 0.0
                    yield _format_event("call", {"seq": row.seq, "html": self._site.render("row.html", row=row)}, since)
            silent += _PAUSE
            if silent > _BEAT:
                silent = 0.0
                yield ": alive\n\n"
            await anyio.sleep(_PAUSE)

    def _read_ended(self, since: int) -> tuple[list[BriefCall], int]:
        try:
            with self._site.reader() as reader:
                return browse.read_brief_ended(reader, since) if reader else ([], since)
        except JournalFailed:  # the page that is loaded next says why
            return [], since

    # One call

    def show_call(self, request: Request) -> Response:
        with self._site.reader() as reader:
            row = _find_call(reader, request)
            if reader is None or row is None:
                return self._show_message(404, "No such call", "This call is not in the journal.")
            changed = [file for file in reader.read_files(row.seq) if has_changed(file)]
            client, model = browse.read_source(reader, row.session)
        return self._page(
            "call.html",
            row=row,
            client=client,
            model=model,
            pictures=pictures.list_pictures(row),
            arguments=json.dumps(row.arguments, indent=2, ensure_ascii=False),
            files=[describe_file(file) for file in changed],
            views=diffs.parse_diff(row.diff or ""),
            side_by_side=request.query_params.get("view") == "split",
        )

    def show_picture(self, request: Request) -> Response:
        with self._site.reader() as reader:
            row = _find_call(reader, request)
        kind, raw = pictures.read_picture(row, request.path_params["number"]) if row else ("", b"")
        if not kind:
            return self._show_message(404, "No such picture", "The file is no picture, or is no longer there.")
        return Response(raw, media_type=kind, headers={"Cache-Control": "no-store"})

    def show_undo(self, request: Request) -> Response:
        with self._site.reader() as reader:
            row = _find_call(reader, request)
        if row is None:
            return self._show_message(404, "No such call", "This call is not in the journal.")
        preview = preview_undo(self._site, row)
        return self._page("undo.html", row=row, preview=preview, views=preview.views)

    async def undo(self, request: Request) -> Response:
        def run() -> Response:
            with self._site.reader() as reader:
                row = _find_call(reader, request)
            if row is None:
                return self._show_message(404, "No such call", "This call is not in the journal.")
            return self._page("undone.html", row=row, preview=run_undo(self._site, row))

        return await run_in_threadpool(run)

    # Approvals

    def show_approvals(self, request: Request) -> Response:  # noqa: ARG002
        questions = [view_question(one) for one in self._site.list_questions()]
        return self._page("approvals.html", questions=questions)

    def show_question(self, request: Request) -> Response:
        asked = self._site.questions.find(request.path_params["id"]) if self._site.questions else None
        if asked is None:
            return self._show_message(
                404, "No such question", "This question is not known here, or was answered long ago."
            )
        return self._page("question.html", view=view_question(asked))

    async def answer(self, request: Request) -> Response:
        form = await _read_form(request)
        number = request.path_params["id"]
        asked = self._site.questions.find(number) if self._site.questions else None
        answer = _read_answer(form, asked)
        if asked is None or self._site.questions is None or answer is None:
            status, text = (404, "This question is not known here.") if answer else (400, "The form has no answer.")
            return self._answer_page(request, status, text)
        outcome, text = await run_in_threadpool(self._site.questions.answer, number, answer)
        status = {"accepted": 200, "late": 409, "invalid": 400, "unknown": 404}[outcome]
        return self._answer_page(request, status, text)

    def _answer_page(self, request: Request, status: int, text: str) -> Response:
        """A line for the script of the page; a page for a browser without scripts."""
        if request.headers.get("accept") == "text/plain":
            return Response(text, status, media_type="text/plain")
        if status == 200:
            return RedirectResponse("/approvals", 303)
        return self._show_message(status, "Not answered", text)

    # Statistics, the history of a file, export

    def show_statistics(self, request: Request) -> Response:  # noqa: ARG002
        with self._site.reader() as reader:
            plots = make_plots(reader) if reader else []
            edited = browse.list_edited_files(reader) if reader else []
        return self._page("statistics.html", plots=plots, edited=edited)

    def show_file(self, request: Request) -> Response:
        path = unescape(request.query_params.get("path", ""))
        before = _number(request.query_params.get("before"))
        with self._site.reader() as reader:
            events = browse.read_file_history(reader, path, before=before) if reader else []
        return self._page("file.html", path=path, events=events)

    async def restore_file(self, request: Request) -> Response:
        """Give a file the contents that it had before a call."""
        form = await _read_form(request)
        path, seq = unescape(form.get("path", [""])[0]), _number(form.get("before", [""])[0])

        def run() -> Response:
            with self._site.reader() as reader:
                events = browse.read_file_history(reader, path, before=(seq or 0) + 1, limit=1) if reader else []
                row = reader.find_call(seq or 0) if reader else None
            if row is None or not events or events[0].seq != seq or not events[0].before:
                return self._show_message(404, "Nothing was restored", "There is no such version of this file.")
            return self._show_message(200, "Restore", restore(self._site, events[0], path, row.workspace))

        return await run_in_threadpool(run)

    def export(self, request: Request) -> Response:
        session = request.path_params["session"]
        with self._site.reader() as reader:
            if reader is None or not reader.has_session(session):
                return self._show_message(404, "No such session", "This session is not in the journal.")
        plain = "".join(char for char in session if char.isascii() and char.isalnum())[:40]
        headers = {"Content-Disposition": f'attachment; filename="handrail-{plain}.html"'}
        parts = (part.encode("utf-8", "replace") for part in export_session(self._site, session))
        return StreamingResponse(parts, media_type="text/html; charset=utf-8", headers=headers)

    # Drafts

    def show_drafts(self, request: Request) -> Response:  # noqa: ARG002
        return self._page("drafts.html", rows=drafts.list_drafts(self._site))

    def show_draft(self, request: Request) -> Response:
        workspace = unescape(request.query_params.get("workspace", ""))
        try:
            return self._page("draft.html", view=drafts.view_draft(self._site, workspace, request.path_params["name"]))
        except DraftProblem as problem:
            return self._show_message(404, "The draft cannot be shown", str(problem))

    async def settle_draft(self, request: Request) -> Response:
        """Keep or drop the chosen changes, or drop the draft."""
        form = await _read_form(request)
        workspace, name = unescape(form.get("workspace", [""])[0]), request.path_params["name"]
        choice = DraftChoice(form.get("version", [""])[0], set(form.get("change", [])))

        def settle() -> Response:
            try:
                match form.get("do"):
                    case ["keep"]:
                        return self._show_message(200, "Kept", drafts.keep_changes(self._site, workspace, name, choice))
                    case ["drop-chosen"]:
                        return self._show_message(
                            200, "Dropped", drafts.drop_changes(self._site, workspace, name, choice)
                        )
                    case ["drop"]:
                        return self._show_message(200, "Dropped", drafts.drop_draft(self._site, workspace, name))
            except DraftProblem as problem:
                return self._show_message(409, "Nothing was changed", str(problem))
            return self._show_message(400, "Nothing was changed", "The form does not say what to do.")

        return await run_in_threadpool(settle)


def describe_file(file: FileRow) -> dict[str, str]:
    """What a call did to one file, in words."""
    if file.moved_from:
        how = f"moved from {file.moved_from}"
    elif file.before == "":
        how = "created"
    elif file.after == "":
        how = "deleted"
    else:
        how = "changed" if file.after is not None else "perhaps changed"
    return {"path": file.path, "how": how}


def view_question(one: PageQuestion) -> dict[str, Any]:
    """The values of the template of a question."""
    question = one.question
    return {
        "id": one.id,
        "asking": one.asking,
        "question": question,
        "arrived": int(one.arrived * 1e9),
        "ended": one.ended,
        "effects": [access for access in question.accesses if access.action != "run"],
        "commands": [access for access in question.accesses if access.action == "run"],
        "files": [(file, diffs.view_hunks(file.path, file.hunks, file.description)) for file in question.files],
        "rules": question.verdict.allow.split("\n") if question.verdict.allow else [],
    }


def _read_answer(form: dict[str, list[str]], asked: PageQuestion | None) -> Answer | None:
    """The answer that a form gives; None if it gives none."""
    reason = form.get("reason", [""])[0].strip()
    match form.get("answer"):
        case ["no"]:
            return Answer(False, reason)
        case ["once" | "session" | "always" as lasting]:
            return Answer(True, "", lasting, hunks=_read_hunks(form, asked))
    return None


def _read_hunks(form: dict[str, list[str]], asked: PageQuestion | None) -> dict[str, list[int]] | None:
    """The hunks that are wanted, where some are not: `hunk` holds the number of the file and of the hunk."""
    if asked is None or "choose" not in form:
        return None
    wanted = set(form.get("hunk", []))
    chosen: dict[str, list[int]] = {}
    for number, file in enumerate(asked.question.files):
        numbers = [hunk for hunk in range(len(file.hunks)) if f"{number}.{hunk}" in wanted]
        if file.selectable and len(numbers) < len(file.hunks):
            chosen[file.path] = numbers
    return chosen or None


def _read_filter(request: Request) -> CallFilter:
    values = request.query_params
    session, tool, status = (values.get(name, "") for name in ("session", "tool", "status"))
    return CallFilter(session, unescape(values.get("workspace", "")), tool, status)


def _filter_values(wanted: CallFilter) -> dict[str, str]:
    return {
        "session": wanted.session,
        "workspace": escape(wanted.workspace),  # as `_read_filter` takes it: any name is safe in an address
        "tool": wanted.tool,
        "status": wanted.status,
    }


def _find_call(reader: JournalReader | None, request: Request) -> CallRow | None:
    seq = request.path_params["seq"]
    return reader.find_call(seq) if reader and seq < 1 << 62 else None


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 19 else None


async def _read_form(request: Request) -> dict[str, list[str]]:
    """The fields of a form; none if it is too long, or no form."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != _KIND:
        return {}
    body = bytearray()
    async for block in request.stream():
        body += block
        if len(body) > _MOST_FORM:
            return {}
    return parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=20_000)


def _format_event(kind: str, value: dict[str, Any], id: int | None = None) -> str:
    head = f"id: {id}\n" if id is not None else ""
    return f"{head}event: {kind}\ndata: {json.dumps(value)}\n\n"
