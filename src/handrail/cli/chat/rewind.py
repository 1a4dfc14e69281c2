"""Go back to before a message: the conversation and the files together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from handrail.cli.chat.changes import NoChange, undo_calls
from handrail.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from handrail.agent.history import History
    from handrail.agent.messages import Turn
    from handrail.journal.undo import UndoReport
    from handrail.pipeline.any_session import AnySession

_OWN = ("[Your reply was cut off", "[The conversation so far was cut")
"""How messages begin that the person did not write."""


@frozen
class RewindPoint:
    """A message of the person that can be gone back to."""

    turn: int
    """The position of its turn in the conversation."""
    text: str


def list_points(turns: Sequence[Turn]) -> list[RewindPoint]:
    """The person's messages in a conversation, the latest first."""
    return [
        RewindPoint(number, turn.text)
        for number, turn in reversed(list(enumerate(turns)))
        if turn.role == "user" and not turn.text.startswith(_OWN)
    ]


def rewind(session: AnySession, history: History, point: RewindPoint) -> UndoReport:
    """Undo the changes of all calls since a message, the latest first, and end the conversation before it.

    Raises `NoChange` if the journal cannot be read; then nothing has changed.
    """
    later = history.turns[point.turn :]
    ids = [call.id for turn in later for call in turn.calls]
    report = undo_calls(session, ids)
    history.replace(history.turns[: point.turn])
    return report


def require_point(points: Sequence[RewindPoint], word: str) -> RewindPoint:
    """The point with a number in the list, where 1 is the last message; raises `NoChange`."""
    if not word.isdecimal() or not 1 <= int(word) <= len(points):
        raise NoChange(f"/rewind needs a number from 1 to {len(points)}; /rewind alone lists the messages")
    return points[int(word) - 1]
