"""The timeline: sessions and turns, the newest first, and the stream that keeps it current."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from urllib.parse import urlencode

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from handrail.journal import JournalFailed, browse
from handrail.journal.browse import CallFilter, CallPage, CallSources
from handrail.journal.call_changes import read_undos
from handrail.journal.queries import UNFINISHED, CallRow, JournalReader
from handrail.journal.timeline import TimelineCall, TimelineTurn, group_turns, is_prompt
from handrail.json_types import JsonObject
from handrail.web.requests import DAYS, read_filter, read_number, write_filter
from handrail.web.site import Site

_PAUSE = 0.3
"""Seconds between two looks at the journal and the questions."""
_BEAT = 15.0
"""Seconds after which a stream with no news says that it is alive."""
_PER_PAGE = 50
_STATUSES = ("ok", "partial", "error", "denied", UNFINISHED)
_LEAST_FOLDED = 3
"""So many calls in a row that only looked become one line."""


class TimelinePages:
    def __init__(self, site: Site) -> None:
        self._site = site

    def show(self, request: Request) -> Response:
        wanted = read_filter(request)
        before = read_number(request.query_params.get("before"))
        with self._site.reader() as reader:
            if reader is None:
                page, sources, newest, turns, edited = CallPage([], None), CallSources([], [], [], []), 0, [], []
            else:
                newest = reader.read_newest_entry()  # first: whatever comes later is in the stream
                page = browse.read_page(reader, wanted, before=before, limit=_PER_PAGE)
                sources = browse.list_sources(reader)
                edited = [path for path, _ in browse.list_edited_files(reader, 50)]
                turns = group_turns(reader, _read_rows(reader, page.calls))
        query = write_filter(request, wanted)
        return self._site.page(
            "timeline.html",
            turns=turns,
            fold=fold_looks,
            sources=sources,
            edited=edited,
            statuses=_STATUSES,
            spans=DAYS,
            query=query,
            wanted=wanted,
            older="?" + urlencode({**query, "before": page.before}) if page.before is not None else "",
            newest="?" + urlencode(query) if before is not None else "",
            stream="/events?" + urlencode({**query, "since": newest}) if before is None else "",
        )

    async def stream(self, request: Request) -> Response:
        """The turns that change, and the questions that come and go, as server-sent events."""
        since = read_number(request.headers.get("last-event-id")) or read_number(request.query_params.get("since"))
        wanted = read_filter(request) if "since" in request.query_params else None
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
                turns, since = await anyio.to_thread.run_sync(self._render_changed, wanted, since)
                for turn in turns:
                    silent = 0.0
                    yield _format_event("turn", turn, since)
            silent += _PAUSE
            if silent > _BEAT:
                silent = 0.0
                yield ": alive\n\n"
            await anyio.sleep(_PAUSE)

    def _render_changed(self, wanted: CallFilter, since: int) -> tuple[list[JsonObject], int]:
        """The turns with calls that ended after an entry of the chain, the oldest first, and the newest entry."""
        try:
            with self._site.reader() as reader:
                if reader is None:
                    return [], since
                ended, newest = browse.read_ended(reader, wanted, since)
                turns = group_turns(reader, _read_rows(reader, _add_undone(reader, ended))) if ended else []
                whole = [_complete(reader, wanted, turn) for turn in reversed(turns)]
                return [self._render(turn) for turn in whole], newest
        except JournalFailed:  # the page that is loaded next says why
            return [], since

    def _render(self, turn: TimelineTurn) -> dict[str, object]:
        calls = [call.row.seq for call in turn.calls]
        return {"calls": calls, "html": self._site.render("turn.html", turn=turn, fold=fold_looks)}


def _read_rows(reader: JournalReader, numbers: Sequence[int]) -> list[CallRow]:
    return [row for number in numbers if (row := reader.find_call(number)) and not is_prompt(row)]


def _add_undone(reader: JournalReader, ended: Sequence[int]) -> list[int]:
    """The calls, and those that an undo among them has taken back: their rows change too."""
    undone = [seq for one in read_undos(reader, min(ended)) if one.seq in ended for seq in one.undone]
    again = [seq for one in map(reader.find_call, undone) if one for seq in one.undone]
    return sorted({*ended, *undone[:_PER_PAGE], *again[:_PER_PAGE]})


def _complete(reader: JournalReader, wanted: CallFilter, turn: TimelineTurn) -> TimelineTurn:
    """The turn with its earlier calls, as far as a page shows them."""
    mine = replace(wanted, session=turn.session)
    page = browse.read_page(reader, mine, before=turn.calls[0].row.seq + 1, limit=_PER_PAGE)
    numbers = {seq for seq in page.calls if seq > turn.prompt} | {call.row.seq for call in turn.calls}
    return group_turns(reader, _read_rows(reader, sorted(numbers)))[0]


def fold_looks(calls: Sequence[TimelineCall]) -> Iterator[list[TimelineCall]]:
    """The calls in order, with several in a row that only looked at something in one list."""
    held: list[TimelineCall] = []

    def release() -> Iterator[list[TimelineCall]]:
        yield from [list(held)] if len(held) >= _LEAST_FOLDED else [[one] for one in held]
        held.clear()

    for call in calls:
        if _only_looked(call):
            held.append(call)
            continue
        yield from release()
        yield [call]
    yield from release()


def _only_looked(call: TimelineCall) -> bool:
    acted = call.files or call.row.command is not None or call.row.is_undo
    return not acted and call.row.status in ("ok", "partial")


def _format_event(kind: str, value: JsonObject, id: int | None = None) -> str:
    head = f"id: {id}\n" if id is not None else ""
    return f"{head}event: {kind}\ndata: {json.dumps(value)}\n\n"
