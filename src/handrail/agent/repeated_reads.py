"""Answer a repeated read with one line while its text is still in the conversation.

Reads are most of what a model is shown. A result that is the same as an earlier one which the model still has adds
nothing. Only a caller that knows what the model still has can tell: the agent does, an MCP server does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from handrail.agent.messages import ToolCall, ToolResult, Turn

_SHORTEST = 500
"""Characters; a shorter text is shown again."""
_NOTE = "(Unchanged: this is the same text as in the result of your earlier {name} call {id}, which you still have.)"


def shorten_repeated_reads(
    turns: Sequence[Turn],
    calls: Sequence[ToolCall],
    results: Sequence[ToolResult],
    is_read: Callable[[str], bool],
) -> tuple[ToolResult, ...]:
    """The results of ``calls``, with one line for each read whose whole text is in ``turns``.

    ``turns`` are those that the model still has. A read that was answered so before and is made again is answered in
    full.
    """
    known = {result.text: result.id for turn in turns for result in turn.results if _is_whole(result)}
    asked = {call.id: (call.name, call.arguments) for turn in turns for call in turn.calls}
    noted = {asked.get(result.id) for turn in turns for result in turn.results if _is_note(result)}
    wanted = {call.id: (call.name, call.arguments) for call in calls}
    return tuple(
        replace(result, text=_NOTE.format(name=result.name, id=known[result.text]))
        if is_read(result.name) and _is_whole(result) and result.text in known and wanted.get(result.id) not in noted
        else result
        for result in results
    )


def _is_whole(result: ToolResult) -> bool:
    return result.ok and not result.pruned and not result.blocks and len(result.text) >= _SHORTEST


def _is_note(result: ToolResult) -> bool:
    return result.text.startswith(_NOTE.partition("{")[0])
