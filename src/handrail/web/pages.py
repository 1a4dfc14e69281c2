"""The routes: which page answers which address."""

from __future__ import annotations

from importlib.resources import files

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from handrail.journal import JournalFailed
from handrail.web.call_pages import CallPages
from handrail.web.draft_pages import DraftPages
from handrail.web.history_pages import HistoryPages
from handrail.web.question_pages import QuestionPages
from handrail.web.site import Site
from handrail.web.timeline_pages import TimelinePages


def make_app(site: Site) -> Starlette:
    """The pages, without any check of who asks for them."""
    timeline, calls, questions = TimelinePages(site), CallPages(site), QuestionPages(site)
    history, drafts = HistoryPages(site), DraftPages(site)
    routes = [
        Route("/", timeline.show),
        Route("/events", timeline.stream),
        Route("/calls/{seq:int}", calls.show),
        Route("/calls/{seq:int}/diff", calls.show_diff),
        Route("/calls/{seq:int}/pictures/{number:int}", calls.show_picture),
        Route("/calls/{seq:int}/undo", calls.show_undo, methods=["GET"]),
        Route("/calls/{seq:int}/undo", calls.undo, methods=["POST"]),
        Route("/undo", calls.show_undo_of_several, methods=["GET"]),
        Route("/undo", calls.undo_several, methods=["POST"]),
        Route("/approvals", questions.show_approvals),
        Route("/approvals/{id:str}", questions.show_question, methods=["GET"]),
        Route("/approvals/{id:str}", questions.answer, methods=["POST"]),
        Route("/statistics", history.show_statistics),
        Route("/files", history.show_file, methods=["GET"]),
        Route("/files", history.restore_file, methods=["POST"]),
        Route("/sessions/{session:str}/export", history.export),
        Route("/drafts", drafts.show_drafts),
        Route("/drafts/{name:str}", drafts.show_draft, methods=["GET"]),
        Route("/drafts/{name:str}", drafts.settle_draft, methods=["POST"]),
        Mount("/static", StaticFiles(directory=str(files("handrail.web") / "static"))),
    ]

    def report_journal(request: Request, error: Exception) -> Response:  # noqa: ARG001 - Starlette passes both
        assert isinstance(error, JournalFailed)
        why = f"{error.journal}: {error.why}. `handrail doctor` says what to do."
        return site.message(500, "The journal cannot be read", why)

    def report_missing(request: Request, error: Exception) -> Response:  # noqa: ARG001
        return site.message(404, "Not found", "There is no such page.")

    def report_bug(request: Request, error: Exception) -> Response:  # noqa: ARG001
        why = f"This is a bug in Handrail: {type(error).__name__}. Nothing was changed. The terminal shows the details."
        return site.message(500, "This page could not be made", why)

    handlers = {JournalFailed: report_journal, 404: report_missing, 500: report_bug}
    return Starlette(routes=routes, exception_handlers=handlers)
