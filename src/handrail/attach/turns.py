"""The turns of an attached agent: each begins with a prompt, and ends with a line about what changed."""

from __future__ import annotations

import contextlib

from handrail.attach.conversation import AttachedConversation
from handrail.errors import JournalFailed
from handrail.journal.call_changes import find_prompt

_NOTIFICATION = "<task-notification>"
"""How a prompt begins that the agent itself makes when a background command has ended."""


def is_by_person(prompt: str) -> bool:
    """Whether a prompt begins a turn; the agent itself makes others to go on."""
    return bool(prompt.strip()) and not prompt.startswith(_NOTIFICATION)


def begin_turn(conversation: AttachedConversation, prompt: str) -> None:
    """Record the prompt of a new turn."""
    conversation.unwrapped = 0
    with contextlib.suppress(JournalFailed):
        conversation.session.record_prompt(prompt)


def summarize_turn(conversation: AttachedConversation, running: int) -> str:
    """What changed since the last prompt, how to undo it, and what cannot be undone; empty if nothing did.

    ``running``: commands that have not ended yet.
    """
    parts: list[str] = []
    if changed := _count_changed(conversation):
        parts = [f"{_count(changed, 'file')} changed", "`handrail undo --turn` undoes this turn"]
    if conversation.unwrapped:
        parts.append(f"{_count(conversation.unwrapped, 'command')} cannot be undone")
    if running:
        parts.append(f"{_count(running, 'command')} still running, with changes to come")
    return f"handrail: {'; '.join(parts)}" if parts else ""


def _count_changed(conversation: AttachedConversation) -> int:
    """The files that the calls since the last prompt have changed."""
    with contextlib.suppress(JournalFailed), conversation.open_journal() as reader:
        session = conversation.origin.session
        prompt = find_prompt(reader, session, reader.find_last_call() + 1)
        calls = [row.seq for row in reader.iterate_calls(session=session) if prompt and row.seq > prompt]
        return len({file.path for call in calls for file in reader.read_files(call) if file.after != file.before})
    return 0


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
