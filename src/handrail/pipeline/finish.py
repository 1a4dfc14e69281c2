"""The last steps of every call, refusals included: render its result, and record it in the journal.

A dialect's templates give the text, and long text is truncated.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from handrail.dialects import Dialect
from handrail.errors import Bug, Refusal, ToolError
from handrail.errors.extras import needs
from handrail.files.versions import Change
from handrail.journal import BeforeImage, Journal, JournalFailed, MovedEntry, NoJournal, Origin, PendingRecord, Record
from handrail.journal.records import PROMPT
from handrail.journal.store import SqliteJournal, get_default_path
from handrail.json_types import JsonMapping, JsonObject
from handrail.model import Access, Call, Failure, Note, Result, Status, Verdict
from handrail.pipeline.approve import advise_operator
from handrail.pipeline.call_state import Approved, Done, Judged, Parsed, Progress, Received, Rendered
from handrail.settings import Settings
from handrail.settings.journal_address import JournalAddress
from handrail.text.display import escape, replace_surrogates
from handrail.tools.notes import (
    AnswerCut,
    ChangesLeft,
    Irreversible,
    JournalDamaged,
    JournalFailing,
    NoteFacts,
    NotKept,
    Rewritten,
)

Blocks = tuple[JsonMapping, ...]


class ResultRenderer:
    """Renders the outcomes and failures of one session."""

    def __init__(self, dialect: Dialect, settings: Settings) -> None:
        self._dialect = dialect
        self._settings = settings

    def render_outcome(self, done: Done) -> Result:
        """The result of a call that ran. It is `partial` if and only if there is a note."""
        ran = done.previous
        outcome, judged = ran.outcome, ran.previous.previous
        tool = judged.tool
        facts = [*outcome.notes, *_list_pipeline_notes(done)]
        notes = [self._note(note) for note in facts]
        templates = self._dialect.templates
        loud = [note.text for note in notes if note.code not in self._dialect.quiet and note.text]
        data = dict(outcome.data)
        advice = "\n".join([note.advice for note in facts if note.advice])
        remark = None
        if ran.previous.irreversible:  # the command did all that it was to do: no reason to call it partial
            remark = self._note(Irreversible(why=ran.previous.irreversible))
            loud.append(remark.text)
            data["irreversible"] = ran.previous.irreversible
        if loud:
            templates = templates.with_notes("".join("\n" + text for text in loud))
        for name, value in done.data.items():
            data.setdefault(name, value)
        text = tool.render(outcome, templates)
        if remark and remark.text not in text:  # a dialect that shows notes elsewhere
            notes.append(remark)
        summary = f"{tool.id}.summary"
        if summary in templates.messages:  # a dialect that shows the content apart from the sentence about it
            data["content"] = replace_surrogates(text)
            text = templates.fill(summary, outcome.facts, **_drop_facts(data, outcome.facts))
        text, left_out = truncate(replace_surrogates(text), self._settings.answer_chars)
        if left_out:
            notes.append(self._note(AnswerCut(count=left_out)))
            text += "\n" + notes[-1].text
        if self._dialect.data_names:
            data |= {new: data[old] for new, old in self._dialect.data_names.items() if old in data}
        if outcome.failed:
            return _build_result(
                judged.received,
                ran.previous.accesses,
                "error",
                text,
                outcome.blocks,
                data=data,
                error=Failure("command_failed", text),
                advice=advice,
            )
        status: Status = "partial" if notes else "ok"
        return _build_result(
            judged.received,
            ran.previous.accesses,
            status,
            text,
            outcome.blocks,
            data=data,
            notes=tuple(notes),
            advice=advice,
        )

    def add_block(self, result: Result, notes: Sequence[NoteFacts]) -> Result:
        """Add a block of its own for facts that are not about this call; its text and status stay."""
        if not notes:
            return result
        text = replace_surrogates("\n".join(self._note(note).text for note in notes))
        return replace(result, blocks=(*result.blocks, {"type": "text", "text": text}))

    def _note(self, note: NoteFacts) -> Note:
        return Note(note.code, self._dialect.templates.fill(f"notes.{note.code}", note))

    def render_failure(self, error: ToolError, progress: Progress) -> Result:
        """The result of a call that was refused or failed."""
        error.facts.setdefault("tool", progress.received.call.tool)
        parsed, accesses = progress.find(Parsed), progress.accesses
        error.facts.setdefault("verb", parsed.entry.id if parsed else "")
        error.facts.setdefault("path", accesses[0].target if accesses else "")
        try:
            text = replace_surrogates(self._dialect.render_error(error))
        except (LookupError, ValueError, TypeError) as fault:  # a template of the dialect that cannot be filled
            if self._settings.raise_bugs:
                raise
            error = Bug(what=f"the template for {error.code} cannot be filled: {fault!r}")
            text = str(error)
        status: Status = "denied" if isinstance(error, Refusal) else "error"
        more: JsonObject = {"advice": advise_operator(error)}
        if progress.left_in:
            note = self._note(ChangesLeft(why="an error stopped it", files="", draft=progress.left_in))
            text += "\n" + note.text
            more |= {"notes": (note,), "data": {"kept": False, "draft": progress.left_in}}
        return _build_result(
            progress.received, progress.accesses, status, text, error=Failure(error.code, text), **more
        )


def _build_result(
    received: Received, accesses: tuple[Access, ...], status: Status, text: str, more: Blocks = (), **rest: Any
) -> Result:
    blocks = ({"type": "text", "text": text}, *more) if text or not more else tuple(more)
    call = received.call
    taken = received.clock.seconds * 1000
    return Result(call.tool, status, text, blocks, accesses=accesses, time_ms=taken, id=call.id, **rest)


def _drop_facts(data: Mapping[str, object], facts: object) -> dict[str, object]:
    """The data whose names are not taken by a fact."""
    return {name: value for name, value in data.items() if not hasattr(facts, name)}


def _list_pipeline_notes(done: Done) -> list[NoteFacts]:
    """The notes about approval and journal."""
    approved = done.previous.previous
    received, token = approved.previous.received, done.token
    notes = [*approved.notes, *done.notes]
    if received.rewritten:
        notes.append(Rewritten(arguments=escape(json.dumps(dict(received.call.arguments)))))
    notes += approved.consent.notes() if approved.consent else []
    if token and token.warning:
        notes.append(JournalFailing(why=token.warning))
    if token and token.unkept:
        notes.append(NotKept(paths=", ".join(map(escape, token.unkept))))
    return notes


def truncate(text: str, most: int) -> tuple[str, int]:
    """The head and the tail of a text of more than ``most`` characters, and how many characters are left out."""
    if len(text) <= most:
        return text, 0
    half = most // 2
    return text[:half] + "\n" + text[len(text) - half :], len(text) - 2 * half


class SessionJournal:
    """The journal that a host chose: its own, the user's ("auto", "require" or the URL of a shared one), or none.

    The user's journal is opened when it is first needed, since SQLite is slow to import, and closed with the session.
    A required one is opened at once; raises `JournalFailed` if that fails.
    """

    def __init__(self, choice: Journal | str | None, state: str, settings: Settings) -> None:
        self._required = "require" in (choice, settings.journaling)
        self._state, self._settings = state, settings
        self._ship_to = settings.journal or ""
        if isinstance(choice, str) and choice not in ("auto", "require"):
            _require_shipping(choice)
            self._ship_to = choice
        self._lock = threading.Lock()
        self._closed = False
        wanted = self._required or self._ship_to == choice or settings.journaling != "off"
        self._is_users = isinstance(choice, str) and wanted
        own = NoJournal() if choice is None or isinstance(choice, str) else choice
        self._journal: Journal | None = None if self._is_users else own
        if self._is_users and self._required:
            self.open()

    def open(self) -> Journal:
        if self._journal is not None:  # nearly always
            return self._journal
        with self._lock:
            if self._journal is None:
                journal = SqliteJournal(
                    get_default_path(self._state),
                    required=self._required,
                    budget=self._settings.journal_bytes,
                    most_calls=self._settings.journal_calls,
                    ship_to=self._ship_to,
                )
                try:
                    if self._required:
                        journal.require()
                except JournalFailed:
                    journal.close()
                    raise
                if self._closed:  # a refusal after the end is still recorded, and nothing stays open for it
                    journal.close()
                self._journal = journal
            return self._journal

    def close(self) -> None:
        """Close the user's journal; a host's own stays open."""
        with self._lock:
            self._closed = True
            if self._is_users and self._journal:
                self._journal.close()


def _require_shipping(url: str) -> None:
    """Raise `ValueError` or `MissingExtra` if nothing can be sent to the shared journal that a host asks for."""
    from importlib.util import find_spec

    JournalAddress.parse(url)
    with needs("fleet"):
        if find_spec("psycopg") is None:
            raise ModuleNotFoundError(name="psycopg")


class Recorder:
    """Writes the calls of one session to its journal."""

    def __init__(self, journal: SessionJournal, origin: Origin, dialect: Dialect) -> None:
        self._journal = journal
        self._origin = origin
        self._dialect = dialect

    def name_source(self, client: str, model: str) -> None:
        """Record the next calls as those of this client and model; an empty name leaves what is known."""
        origin = self._origin
        if (client or origin.client, model or origin.model) != (origin.client, origin.model):
            self._origin = replace(origin, client=client or origin.client, model=model or origin.model)

    def resume(self, session: str) -> None:
        """Record the next calls as those of this session."""
        self._origin = replace(self._origin, session=session)

    def record_prompt(self, text: str) -> None:
        """Record a message of the person."""
        call, verdict = Call(PROMPT, {"text": text}), Verdict("allow", "", "")
        self.journal.record(Record(call, (), verdict, origin=self._origin, result=Result(PROMPT, "ok", "")))

    @property
    def journal(self) -> Journal:
        return self._journal.open()

    @property
    def origin(self) -> Origin:
        """The session whose calls are recorded."""
        return self._origin

    def begin(
        self, approved: Approved, changes: Sequence[Change | BeforeImage | MovedEntry], progress: Progress
    ) -> None:
        """Save the earlier contents before anything changes. Raises `JournalFailed` to stop the change."""
        judged = approved.previous
        pending = PendingRecord(judged.call, approved.accesses, judged.verdict, changes, self._origin)
        progress.token = self.journal.begin(pending, progress.token)
        if guard := judged.received.guard:
            guard.before_commit(changes)

    def record(self, rendered: Rendered) -> Result:
        """Record a call that is over; its result gets a note if that fails."""
        progress, result = rendered.progress, rendered.result
        judged, done = progress.find(Judged), progress.find(Done)
        failure = self.journal.record(
            Record(
                progress.received.call,
                progress.accesses,
                judged.verdict if judged else None,
                done.changes if done else (),
                self._origin,
                result=result,
                traceback=rendered.traceback,
                token=progress.token,
                data=rendered.data,
            )
        )
        facts: list[NoteFacts] = []
        if failure and all(note.code != "journal" for note in result.notes):
            facts.append(JournalFailing(why=failure))
        take_damage = getattr(self.journal, "take_damage", None)  # a host's own journal has none
        if damaged := take_damage() if take_damage else "":
            facts.append(JournalDamaged(path=escape(damaged)))
        if not facts:
            return result
        notes = [Note(one.code, self._dialect.templates.fill(f"notes.{one.code}", one)) for one in facts]
        return replace(result, notes=(*result.notes, *notes), status="partial" if result.ok else result.status)
