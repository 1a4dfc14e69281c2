"""The tools over the draft of a script: a session of its own, whose changes are judged when the script has ended."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from handrail.dialects import Dialect
from handrail.drafts.store import OpenDraft
from handrail.errors import Denied
from handrail.model import Answer, FileAccess, Question, Result
from handrail.pipeline.draft_process import DraftProcess
from handrail.pipeline.events import Events
from handrail.policy.paths import is_within

_NOT_IN_SCRIPTS = ("script", "undo", "bash_output", "bash_input", "bash_kill")


@dataclass
class OpenDraftTools:
    """The tools of a dialect in the process of a draft."""

    signatures: Mapping[str, tuple[str, Sequence[str]]]
    _process: DraftProcess
    _events: Events = field(default_factory=Events)

    def call(self, tool: str, arguments: Mapping[str, object], cancel: threading.Event | None) -> Result:
        return self._process.call((tool, dict(arguments), ""), cancel, self._events, None)

    def close(self) -> None:
        self._process.close()


def open_draft_tools(dialect: Dialect, draft: OpenDraft, options: Mapping[str, object]) -> OpenDraftTools:
    """Start a session in a draft."""
    entries = [entry for entry in dialect.entries.values() if entry.id not in _NOT_IN_SCRIPTS]
    signatures = {entry.id: (entry.name, list(dialect.spec(entry.name).schema["properties"])) for entry in entries}
    mode = "accept-edits" if options["mode"] == "full" else options["mode"]  # nothing leaves the draft unasked
    given = {**options, "mode": mode}
    process = DraftProcess(draft, given, _allow_in_draft, closes=False)
    return OpenDraftTools(signatures, process)


def _allow_in_draft(question: Question) -> Answer:
    """Yes if all that is asked about are changes in the draft, which are judged later. A command is not that alone.

    Raises `Denied` for anything else.
    """
    stays = all(
        isinstance(access, FileAccess)
        and bool(access.path)
        and is_within(question.workspace, access.path)
        and not (access.by_command or access.lent_to)
        for access in question.accesses
    )
    if not stays:
        why = "a script asks nobody; make this call outside of it"
        raise Denied(rule=question.verdict.rule, why=why, source="", allow="")
    return Answer(True)
