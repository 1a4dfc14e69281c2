"""Clean up replies of models: ids that are missing or repeated, invalid names, counts that are no numbers."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence

from handrail.agent.messages import ToolCall, Turn

_FOREIGN = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME, _LONGEST_ID = 64, 40


def with_unique_ids(calls: Sequence[ToolCall], turns: Sequence[Turn] = ()) -> tuple[ToolCall, ...]:
    """Return the calls with ids that every API accepts and that no other call has, here or in earlier ``turns``."""
    taken = {call.id for turn in turns for call in turn.calls}
    unique = []
    for call in calls:
        own = _FOREIGN.sub("_", call.id)[:_LONGEST_ID]
        while not own or own in taken:
            own = f"{own[:_LONGEST_ID] or 'call'}_{os.urandom(4).hex()}"
        taken.add(own)
        unique.append(ToolCall(own, call.name, call.arguments or "{}"))
    return tuple(unique)


def api_name(call: ToolCall) -> str:
    """The tool name to send back to an API: APIs refuse some names that a model may make up."""
    return _FOREIGN.sub("_", call.name)[:_LONGEST_NAME] or "unknown"


def api_arguments(call: ToolCall) -> dict[str, object]:
    """The arguments to send back to an API: always an object, even if the model wrote malformed JSON."""
    try:
        value = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return {"malformed": call.arguments}
    return value if isinstance(value, dict) else {"malformed": call.arguments}


def count(value: object) -> int:
    """A number of tokens; servers may send nothing or something else."""
    return value if isinstance(value, int) and value > 0 else 0


def text_of(content: object) -> str:
    """The text of a piece; some servers send a list of parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    return "".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))
