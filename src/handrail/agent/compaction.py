"""Compaction: a conversation that comes near the end of the model's window is made shorter, in two steps.

First old results of calls become one line each, with the id by which `handrail show` brings them back. If that is not
enough, the model writes a summary of all but the latest turns: decisions, open problems, changed files, next steps.
What the session knows (what was read, what was approved) is not part of the conversation and stays. A call and its
result are never parted.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace

from handrail.agent.history import History, size
from handrail.agent.providers import Model
from handrail.agent.talk import Given, Turn
from handrail.session import Session

_LEAST, _MOST = 0.75, 0.98
_PRUNED = "[{name}: {chars:,} characters left out to save room; `handrail show {id}` has them; call again if needed]"
_SHORT = 300
"""A result up to this length stays: the line that replaced it would be as long."""

_SUMMARISE = """\
The conversation is about to be cut to save room. Write the notes that you need to go on without it, as plain text:
1. What the person wants, in their words where they matter.
2. Decisions that were taken, about the architecture above all, and why.
3. Problems and bugs that are still open, with what is known of each.
4. Files that were changed or created, and how; files that matter, and why.
5. What was tried and did not work.
6. The next steps.
Do not call a tool. Leave out the contents of files: they can be read again."""
_RESUMED = "[The conversation so far was cut to save room. These are your own notes of it.]\n\n{notes}"


@dataclass(frozen=True, slots=True)
class Compaction:
    """When the conversation is made shorter, and how much of its end stays as it is."""

    threshold: float = 0.85
    keep: float = 0.25
    """The share of the window that the latest turns may have."""

    def __post_init__(self) -> None:
        if not _LEAST <= self.threshold <= _MOST:
            raise ValueError(f"compaction happens between {_LEAST:.0%} and {_MOST:.0%} of the window")

    def fit(
        self, history: History, model: Model, session: Session, cancel: threading.Event, *, force: bool = False
    ) -> str:
        """Make it shorter if it must be; says how, or nothing."""
        most = int(model.window * self.threshold)
        if not force and history.tokens < most:
            return ""
        room = int(model.window * self.keep)
        start = _tail(history.turns, room)
        pruned = [*map(_pruned, history.turns[:start]), *history.turns[start:]]
        goal = most // 2 if force else int(most * 0.8)  # well below, or the next turn would do it again
        if pruned != history.turns:
            history.replace(pruned)
            if history.tokens <= goal:
                return "old results were left out"
        if start == 0:  # one turn alone is too long: what can be left out of it is
            history.replace([_pruned(turn) for turn in history.turns])
            return "results were left out"
        notes = self._notes(history, model, session, cancel, start)
        history.replace([Turn("user", _RESUMED.format(notes=notes)), *_after(history.turns[start:])])
        return "the earlier part was summarised"

    def _notes(self, history: History, model: Model, session: Session, cancel: threading.Event, start: int) -> str:
        """The model's own summary of the turns before ``start``, as much of them as its window takes."""
        turns = history.turns[:start]
        room = int(model.window * 0.8)
        while len(turns) > 1 and sum(map(size, turns)) > room:
            turns = turns[_group(turns) :]
        turns = [*turns, Turn("user", _SUMMARISE)]
        if turns[-2].role == "user":
            turns = [*turns[:-2], Turn("user", f"{turns[-2].text}\n\n{_SUMMARISE}")]
        reply = model.reply(history.system, turns, session, lambda _: None, cancel, tools=False)
        return reply.turn.text.strip() or "(There are no notes.)"


def _tail(turns: Sequence[Turn], room: int) -> int:
    """Where the latest turns begin that fit into ``room``: at a reply or a person's words, never at results."""
    start, used = len(turns), 0
    for number in range(len(turns) - 1, -1, -1):
        used += size(turns[number])
        if used > room and start < len(turns):
            break
        if turns[number].role != "tools":
            start = number
        if used > room:
            break
    return start


def _group(turns: Sequence[Turn]) -> int:
    """How many turns the first one takes with it: a reply with calls takes their results."""
    return 2 if turns[0].uses and len(turns) > 1 else 1


def _after(turns: Sequence[Turn]) -> list[Turn]:
    """The latest turns, behind the notes: if a model's reply comes first, nothing is missing between."""
    found = list(turns)
    if found and found[0].role == "user":
        return [Turn("assistant", "Understood. I go on from these notes."), *found]
    return found


def _pruned(turn: Turn) -> Turn:
    return replace(turn, given=tuple(map(_line, turn.given))) if turn.given else turn


def _line(given: Given) -> Given:
    if given.pruned or (len(given.text) <= _SHORT and not given.blocks):
        return given
    chars = len(given.text) + sum(len(str(block.get("base64", ""))) for block in given.blocks)
    return replace(given, text=_PRUNED.format(name=given.name, chars=chars, id=given.id), blocks=(), pruned=True)
