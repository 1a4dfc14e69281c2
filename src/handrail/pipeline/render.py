"""What a call came to, in the dialect's words: facts and notes become text, and the text is bounded."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from handrail.dialects import Dialect
from handrail.errors import Bug, Refusal, ToolError
from handrail.model import Access, Failure, Note, Result, Status
from handrail.pipeline.call_state import Done, Parsed, Progress, Received
from handrail.pipeline.truncate import bound
from handrail.settings import Settings
from handrail.text.display import escape, replace_surrogates
from handrail.tools.tool import Remark

Blocks = tuple[Mapping[str, Any], ...]


class Voice:
    """Says outcomes and failures."""

    def __init__(self, dialect: Dialect, settings: Settings) -> None:
        self._dialect = dialect
        self._settings = settings

    def outcome(self, done: Done) -> Result:
        """What was found or done; `partial` if and only if there is a note."""
        ran = done.previous
        outcome, judged = ran.outcome, ran.previous.previous
        tool, words = judged.tool, self._dialect.words
        remarks = [*outcome.remarks, *_pipeline_remarks(done)]
        notes = [Note(r.code, words.say(f"notes.{r.code}", **r.facts)) for r in remarks]
        loud = [note.text for note in notes if note.code not in self._dialect.quiet and note.text]
        outcome.facts["notes"] = "".join("\n" + text for text in loud)
        data = outcome.data
        said = tool.say(outcome, words)
        summary = f"{tool.id}.summary"
        if summary in words.messages:  # a dialect that shows what was found apart from what it says of it
            data["content"], said = replace_surrogates(said), words.say(summary, **{**data, **outcome.facts})
        text, left_out = bound(replace_surrogates(said), self._settings.answer_chars)
        if left_out:
            notes.append(Note("answer_cut", words.say("notes.answer_cut", count=left_out)))
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

    def failure(self, error: ToolError, progress: Progress) -> Result:
        """Why nothing was done."""
        error.facts.setdefault("tool", progress.received.call.tool)
        parsed, accesses = progress.find(Parsed), progress.accesses
        error.facts.setdefault("verb", parsed.entry.id if parsed else "")
        error.facts.setdefault("path", accesses[0].target if accesses else "")
        try:
            text = replace_surrogates(self._dialect.wording(error))
        except (LookupError, ValueError, TypeError) as fault:  # a template of the dialect's that cannot be filled
            if self._settings.raise_bugs:
                raise
            error = Bug(what=f"the message for {error.code} cannot be said: {fault!r}")
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


def _pipeline_remarks(done: Done) -> list[Remark]:
    """What people and the journal had to do with the call."""
    approved = done.previous.previous
    received, token = approved.previous.received, done.token
    remarks = [*approved.remarks, *done.remarks]
    if received.rewritten:
        remarks.append(Remark("rewritten", {"arguments": escape(json.dumps(dict(received.call.arguments)))}))
    remarks += approved.consent.remarks() if approved.consent else []
    if token and token.warning:
        remarks.append(Remark("journal", {"why": token.warning}))
    if token and token.unkept:
        remarks.append(Remark("not_kept", {"paths": ", ".join(map(escape, token.unkept))}))
    return remarks
