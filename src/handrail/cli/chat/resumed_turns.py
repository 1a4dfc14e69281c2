"""Show the end of a conversation that is resumed, so that the person sees where it stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from handrail.agent.messages import CallFinished, ModelReplied, TextDelta, Turn, Usage

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
    for number, turn in enumerate(turns[start:], start):
        _show_turn(work, turn, turns[number - 1] if number else None)


def find_start(turns: Sequence[Turn], messages: int) -> int:
    """Where the last so many messages of the person begin."""
    starts = [number for number, turn in enumerate(turns) if turn.role == "user"]
    return starts[-messages] if len(starts) >= messages else 0


def _show_turn(work: Work, turn: Turn, before: Turn | None) -> None:
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
                screen.notice(CallFinished(call, "ok" if result.ok else "error", result.text, 0.0))
