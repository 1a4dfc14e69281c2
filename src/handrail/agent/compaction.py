"""Compaction: shorten a conversation that nearly fills the model's context window, in three steps.

First, old results become one line each, with the id for `handrail log show`. If that is not enough, the model
summarises all but the latest turns: decisions, open problems, changed files, next steps; the user's last message is
kept word for word. If the latest results alone are too long, their middle is cut. The state of the session (files read,
approvals) is not part of the conversation and stays. A call and its result are never separated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from handrail.agent.history import History, size
from handrail.agent.messages import ToolResult, Turn
from handrail.agent.providers import ModelError
from handrail.frozen import frozen

Summarise = Callable[[Sequence[Turn]], str]
"""Asks the model; raises `ModelError`."""
_LEAST, _MOST = 0.75, 0.98
_PRUNED = (
    "[{name}: {chars:,} characters removed to save context; `handrail log show {id}` has them; call again if needed]"
)
_MIDDLE = "\n[... {chars:,} characters omitted: the result does not fit. Request less at a time. ...]\n"
_SHORT = 300
"""A result up to this length stays: the line that replaced it would be as long."""
_WORDS = 4_000
"""Characters of the person's own words that are kept."""

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
_LAST_WORDS = "\n\n[What the person said last, in their words:]\n"


@frozen
class Compaction:
    """When the conversation is made shorter, and how much of its end stays as it is."""

    threshold: float = 0.85
    keep: float = 0.25
    """The share of the window that the latest turns may have."""

    def __post_init__(self) -> None:
        if not _LEAST <= self.threshold <= _MOST:
            raise ValueError(f"compaction must start between {_LEAST:.0%} and {_MOST:.0%} of the window")

    def fit(self, history: History, window: int, summarise: Summarise, *, force: bool = False) -> str:
        """Make it shorter if it must be; says how, or nothing."""
        most = int(window * self.threshold)
        if not force and (history.tokens < most or history.fixed >= most):
            return ""
        if force:  # by the server's word the window is smaller than was thought, or the person wants it shorter
            most = min(most, history.tokens)
        goal = most // 2 if force else int(most * 0.8)  # well below, or the next turn would do it again
        end = min(window, sum(map(size, history.turns))) if force else window
        # Turns have only the room that the tools leave them.
        room = min(int(end * self.keep), max(goal - history.overhead, 0) // 2)
        start = _find_tail(history.turns, int(room / history.ratio))
        pruned = [*map(_prune, history.turns[:start]), *history.turns[start:]]
        how = ""
        if pruned != history.turns:
            history.replace(pruned)
            how = "old results were left out"
        if start > 1 and history.tokens > goal:  # one turn alone is what notes would be
            notes = _write_notes(history.turns[:start], int(min(window, most) * 0.8 / history.ratio), summarise)
            history.replace([Turn("user", notes), *_keep_latest(history.turns[start:])])
            how = "the earlier part was summarised"
        if history.tokens > most or (force and not how):
            room = max(most - history.overhead, most // 4) // 2
            cut = _shorten_results(history.turns, int(room / history.ratio))
            if cut != history.turns:
                history.replace(cut)
                how = how or "long results were cut"
        return how


def _write_notes(turns: Sequence[Turn], room: int, summarise: Summarise) -> str:
    """The model's own summary of these turns, as much of them as it takes, and the person's last words."""
    words = _find_last_message(turns)
    for _ in range(3):
        try:
            notes = summarise(_add_question(turns, room)).strip()
            break
        except ModelError as error:
            if error.kind not in ("too_long", "empty", "refused"):
                raise
            room //= 2
    else:
        notes = _write_plain_notes(turns)
    text = _RESUMED.format(notes=notes)
    return f"{text}{_LAST_WORDS}{words}" if words else text


def _add_question(turns: Sequence[Turn], room: int) -> list[Turn]:
    """The turns with the question for notes behind: the first one, and of the others the latest that fit."""
    first, rest = turns[0], list(turns[1:])
    first = replace(first, text=first.text[: room * 2]) if first.role == "user" else first
    while rest and size(first) + sum(map(size, rest)) > room:
        rest = rest[2 if rest[0].calls and len(rest) > 1 else 1 :]
    sent = [first, *rest]
    if sent[-1].role == "user":
        return [*sent[:-1], Turn("user", f"{sent[-1].text}\n\n{_SUMMARISE}")]
    return [*sent, Turn("user", _SUMMARISE)]


def _write_plain_notes(turns: Sequence[Turn]) -> str:
    """Write notes without the model: the user's last message and the latest calls."""
    messages = [turn.text[:_WORDS] for turn in turns if turn.role == "user"]
    calls = [f"- {result.name}: {'made' if result.ok else 'failed'}" for turn in turns for result in turn.results]
    words = "\n\n".join(dict.fromkeys([*messages[:1], *messages[-3:]]))
    return f"(The model wrote no notes.) The person said:\n\n{words}\n\nThe last calls were:\n" + "\n".join(calls[-30:])


def _find_last_message(turns: Sequence[Turn]) -> str:
    """Return the user's last message, perhaps from earlier notes."""
    message = next((turn.text for turn in reversed(turns) if turn.role == "user"), "")
    if message.startswith(_RESUMED.partition("{")[0]):
        message = message.rpartition(_LAST_WORDS)[2] if _LAST_WORDS in message else ""
    return message[:_WORDS]


def _find_tail(turns: Sequence[Turn], room: int) -> int:
    """Where the latest turns begin that fit into ``room``: at a reply or a person's words, never at results.

    The last of them stay in any case: the model has not seen their results yet.
    """
    start, used = len(turns), 0
    for number in range(len(turns) - 1, -1, -1):
        used += size(turns[number])
        if used > room and start < len(turns):
            break
        if turns[number].role != "tools":
            start = number
    return start


def _keep_latest(turns: Sequence[Turn]) -> list[Turn]:
    """The latest turns, behind the notes: if a model's reply comes first, nothing is missing between."""
    latest = list(turns)
    if latest and latest[0].role == "user":
        return [Turn("assistant", "Understood. I continue from these notes."), *latest]
    return latest


def _prune(turn: Turn) -> Turn:
    return replace(turn, results=tuple(map(_shorten_result, turn.results))) if turn.results else turn


def _shorten_result(result: ToolResult) -> ToolResult:
    if result.pruned or (len(result.text) <= _SHORT and not result.blocks):
        return result
    chars = len(result.text) + sum(len(str(block.get("base64", ""))) for block in result.blocks)
    return replace(result, text=_PRUNED.format(name=result.name, chars=chars, id=result.id), blocks=(), pruned=True)


def _shorten_results(turns: Sequence[Turn], room: int) -> list[Turn]:
    """The turns with results that together take no more than ``room`` tokens."""
    all_results = [result for turn in turns for result in turn.results]
    share = room * 4 // max(len(all_results), 1)
    return [
        replace(turn, results=tuple(_cut(result, share) for result in turn.results)) if turn.results else turn
        for turn in turns
    ]


def _cut(result: ToolResult, chars: int) -> ToolResult:
    """A result with its beginning and its end; pictures count for more than would be left."""
    chars = max(chars, _SHORT)
    if len(result.text) <= chars and not result.blocks:
        return result
    left = len(result.text) - chars
    if left <= 0:
        return replace(result, text=f"{result.text}\n[The image was removed to save context.]", blocks=())
    text = result.text[: chars * 2 // 3] + _MIDDLE.format(chars=left) + result.text[-(chars // 3) :]
    return replace(result, text=text, blocks=())
