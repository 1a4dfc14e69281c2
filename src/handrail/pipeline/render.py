"""Turn outcomes and failures into results: a dialect's templates give the text, and long text is truncated."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from handrail.dialects import Dialect
from handrail.errors import Bug, Refusal, ToolError
from handrail.model import Access, Failure, Note, Result, Status
from handrail.pipeline.call_state import Done, Parsed, Progress, Received
from handrail.settings import Settings
from handrail.text.display import escape, replace_surrogates
from handrail.tools.notes import AnswerCut, JournalFailing, NoteFacts, NotKept, Rewritten

Blocks = tuple[Mapping[str, Any], ...]


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
        notes = [self._note(note) for note in (*outcome.notes, *_pipeline_notes(done))]
        loud = [note.text for note in notes if note.code not in self._dialect.quiet and note.text]
        templates = self._dialect.templates.with_notes("".join("\n" + text for text in loud))
        data = {**outcome.data, **{name: value for name, value in done.data.items() if name not in outcome.data}}
        text = tool.render(outcome, templates)
        summary = f"{tool.id}.summary"
        if summary in templates.messages:  # a dialect that shows the content apart from the sentence about it
            data["content"] = replace_surrogates(text)
            text = templates.fill(summary, outcome.facts, **_drop_facts(data, outcome.facts))
        text, left_out = truncate(replace_surrogates(text), self._settings.answer_chars)
        if left_out:
            notes.append(self._note(AnswerCut(count=left_out)))
            text += "\n" + notes[-1].text
        data |= {new: data[old] for new, old in self._dialect.data_names.items() if old in data}
        if outcome.failed:
            return _result(
                judged.received,
                ran.previous.accesses,
                "error",
                text,
                outcome.blocks,
                data=data,
                error=Failure("command_failed", text),
            )
        status: Status = "partial" if notes else "ok"
        return _result(
            judged.received, ran.previous.accesses, status, text, outcome.blocks, data=data, notes=tuple(notes)
        )

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
        return _result(progress.received, progress.accesses, status, text, error=Failure(error.code, text))


def _result(
    received: Received, accesses: tuple[Access, ...], status: Status, text: str, more: Blocks = (), **rest: Any
) -> Result:
    blocks = ({"type": "text", "text": text}, *more)
    taken = (time.perf_counter() - received.started) * 1000
    call = received.call
    return Result(call.tool, status, text, blocks, accesses=accesses, time_ms=taken, id=call.id, **rest)


def _drop_facts(data: Mapping[str, object], facts: object) -> dict[str, object]:
    """The data whose names are not taken by a fact."""
    return {name: value for name, value in data.items() if not hasattr(facts, name)}


def _pipeline_notes(done: Done) -> list[NoteFacts]:
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
