"""The pages of named drafts."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from handrail.text.display import escape, unescape
from handrail.web import drafts
from handrail.web.drafts import DraftChoice, DraftProblem
from handrail.web.requests import read_form
from handrail.web.site import Site


class DraftPages:
    def __init__(self, site: Site) -> None:
        self._site = site

    def show_drafts(self, request: Request) -> Response:  # noqa: ARG002
        return self._site.page("drafts.html", rows=drafts.list_drafts(self._site))

    def show_draft(self, request: Request) -> Response:
        workspace = unescape(request.query_params.get("workspace", ""))
        try:
            return self._site.page(
                "draft.html", view=drafts.view_draft(self._site, workspace, request.path_params["name"])
            )
        except DraftProblem as problem:
            return self._site.message(404, "The draft cannot be shown", str(problem))

    async def settle_draft(self, request: Request) -> Response:
        """Keep, drop or resolve what was chosen, or drop the draft."""
        form = await read_form(request)
        workspace, name = unescape(form.get("workspace", [""])[0]), request.path_params["name"]
        sides = {field.removeprefix("side."): values[0] for field, values in form.items()}
        choice = DraftChoice(form.get("version", [""])[0], form.get("change", []), sides)

        def settle() -> Response:
            try:
                match form.get("do"):
                    case ["keep"]:
                        return self._site.message(200, "Kept", drafts.keep_changes(self._site, workspace, name, choice))
                    case ["drop-chosen"]:
                        return self._site.message(
                            200, "Dropped", drafts.drop_changes(self._site, workspace, name, choice)
                        )
                    case ["resolve"]:
                        drafts.resolve(self._site, workspace, name, choice)
                        place = urlencode({"workspace": escape(workspace)})
                        return RedirectResponse(f"/drafts/{quote(name)}?{place}", 303)
                    case ["drop"]:
                        return self._site.message(200, "Dropped", drafts.drop_draft(self._site, workspace, name))
            except DraftProblem as problem:
                return self._site.message(409, "Nothing was changed", str(problem))
            return self._site.message(400, "Nothing was changed", "The form does not say what to do.")

        return await run_in_threadpool(settle)
