"""The pages of questions that wait for an answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from handrail.model import Answer, Question
from handrail.web.diffs import view_hunks
from handrail.web.questions import PageQuestion
from handrail.web.requests import read_form
from handrail.web.site import Site

_GONE = "This question is not known here, or was answered long ago."


class QuestionPages:
    def __init__(self, site: Site) -> None:
        self._site = site

    def show_approvals(self, request: Request) -> Response:  # noqa: ARG002
        questions = [view_question(one) for one in self._site.list_questions()]
        return self._site.page("approvals.html", questions=questions)

    def show_question(self, request: Request) -> Response:
        asked = self._site.questions.find(request.path_params["id"]) if self._site.questions else None
        if asked is None:
            return self._site.message(404, "No such question", _GONE)
        return self._site.page("question.html", view=view_question(asked))

    async def answer(self, request: Request) -> Response:
        form = await read_form(request)
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
        return self._site.message(status, "Not answered", text)


def view_question(one: PageQuestion) -> dict[str, object]:
    """The values of the template of a question."""
    question = one.question
    files = [(file, view_hunks(file.path, file.hunks, file.description)) for file in question.files]
    return {
        "id": one.id,
        "asking": one.asking,
        "question": question,
        "arrived": int(one.arrived * 1e9),
        "ended": one.ended,
        "effects": [access for access in question.accesses if access.action != "run"],
        "commands": [access for access in question.accesses if access.action == "run"],
        "files": files,
        "choosable": sum(len(file.hunks) for file, _ in files if file.selectable) > 1,
        "summary": _summarize(question, [view.counts for _, view in files]),
        "rules": question.verdict.allow.split("\n") if question.verdict.allow else [],
    }


def _summarize(question: Question, counts: Sequence[tuple[int, int]]) -> str:
    """What a yes would do, in a few words: "delete 9 files, −2,310 lines"."""
    if not question.files:
        return "run a command" if question.command is not None else f"{question.call.tool}"
    verbs = Counter("create" if one.created else "delete" if one.deleted else "change" for one in question.files)
    parts = [f"{verb} {count} {'file' if count == 1 else 'files'}" for verb, count in verbs.most_common()]
    added, removed = (sum(side) for side in zip(*counts, strict=True))
    lines = [f"{sign}{number:,}" for sign, number in (("+", added), ("−", removed)) if number]
    parts += [f"{' '.join(lines)} {'line' if added + removed == 1 else 'lines'}"] if lines else []
    return ", ".join(parts)


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
