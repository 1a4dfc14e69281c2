"""What a call came to, in the dialect's words: facts and notes become text, and the text is bounded."""

from __future__ import annotations

import json

from handrail.dialects import Dialect
from handrail.errors import Bug, Refusal, ToolError
from handrail.model import Failure, Note, Result, Status
from handrail.pipeline.call_state import Trail
from handrail.pipeline.truncate import bound
from handrail.settings import Settings
from handrail.text.display import escape, replace_surrogates
from handrail.tools.tool import Outcome, Remark, Tool


class Voice:
    """Says outcomes and failures."""

    def __init__(self, dialect: Dialect, settings: Settings) -> None:
        self._dialect = dialect
        self._settings = settings

    def outcome(self, tool: Tool, outcome: Outcome, trail: Trail) -> Result:
        """What was found or done; `partial` if and only if there is a note."""
        words = self._dialect.words
        remarks = [*outcome.remarks, *trail.remarks, *_on_the_way(trail)]
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
            return trail.result("error", text, outcome.blocks, data=data, error=Failure("command_failed", text))
        status: Status = "partial" if notes else "ok"
        return trail.result(status, text, outcome.blocks, data=data, notes=tuple(notes))

    def failure(self, error: ToolError, trail: Trail) -> Result:
        """Why nothing was done."""
        error.facts.setdefault("tool", trail.call.tool)
        error.facts.setdefault("verb", trail.tool_id)
        error.facts.setdefault("path", trail.accesses[0].target if trail.accesses else "")
        try:
            text = replace_surrogates(self._dialect.wording(error))
        except (LookupError, ValueError, TypeError) as fault:  # a template of the dialect's that cannot be filled
            if self._settings.raise_bugs:
                raise
            error = Bug(what=f"the message for {error.code} cannot be said: {fault!r}")
            text = str(error)
        status: Status = "denied" if isinstance(error, Refusal) else "error"
        return trail.result(status, text, error=Failure(error.code, text))


def _on_the_way(trail: Trail) -> list[Remark]:
    """What people and the journal had to do with the call."""
    found: list[Remark] = []
    if trail.rewritten:
        found.append(Remark("rewritten", {"arguments": escape(json.dumps(dict(trail.call.arguments)))}))
    found += trail.consent.remarks() if trail.consent else []
    if trail.token and trail.token.warning:
        found.append(Remark("journal", {"why": trail.token.warning}))
    if trail.token and trail.token.unkept:
        found.append(Remark("not_kept", {"paths": ", ".join(map(escape, trail.token.unkept))}))
    return found
