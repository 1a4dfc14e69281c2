"""Show the end of a conversation that is resumed, so that the person sees where it stopped."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from handrail.agent.messages import CallFinished, ModelReplied, TextDelta, ToolCall, ToolResult, Turn, Usage
from handrail.journal import JournalFailed
from handrail.journal.queries import JournalReader
from handrail.journal.store import get_default_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from handrail.cli.chat.opening import Work

_MESSAGES = 3
"""How many of the person's last messages are shown, with what followed them."""


def show_last_turns(work: Work) -> None:
    """Print the last turns of a resumed conversation."""
    turns = work.plan.turns
    if not turns:
        return
    start = find_start(turns, _MESSAGES)
    left = f"{start} earlier turns are not shown · " if start else ""
    work.screen.say(f"{left}the conversation has {len(turns)} turns", "dim")
    with _open_journal(work) as reader:
        for number, turn in enumerate(turns[start:], start):
            _show_turn(work, turn, turns[number - 1] if number else None, reader)


def find_start(turns: Sequence[Turn], messages: int) -> int:
    """Where the last so many messages of the person begin."""
    starts = [number for number, turn in enumerate(turns) if turn.role == "user"]
    return starts[-messages] if len(starts) >= messages else 0


@contextlib.contextmanager
def _open_journal(work: Work) -> Iterator[JournalReader | None]:
    """The journal with the calls of the conversation; None if it cannot be read here."""
    with contextlib.ExitStack() as stack:
        reader = None
        if work.plan.session and not work.plan.is_remote:
            with contextlib.suppress(JournalFailed):
                reader = stack.enter_context(JournalReader(get_default_path(work.plan.state)))
        yield reader


def _show_call(work: Work, call: ToolCall, result: ToolResult, reader: JournalReader | None) -> None:
    """A call as it was shown when it ended, as far as the journal has it."""
    row = reader.find_call(result.id) if reader else None
    known = row if row and row.session == work.plan.session else None
    ended = CallFinished(call, "ok" if result.ok else "error", result.text, 0.0)
    if known:
        command = any(access[0] == "run" for access in known.accesses)
        took = (known.duration or 0.0) / 1000
        ended = replace(
            ended,
            status=known.status,
            seconds=took,
            diff=known.diff or "",
            command=command,
            exit_code=known.exit_code,
        )
    work.screen.notice(ended)


def _show_turn(work: Work, turn: Turn, before: Turn | None, reader: JournalReader | None) -> None:
    screen = work.screen
    if turn.role == "user":
        screen.show_message(turn.text)
    elif turn.role == "assistant":
        screen.notice(TextDelta(turn.text))
        screen.notice(ModelReplied(turn.text, Usage(), 0.0))
    else:
        calls = {call.id: call for call in before.calls} if before else {}
        for result in turn.results:
            if call := calls.get(result.id):
                _show_call(work, call, result, reader)
