"""What models send, made safe to work with: calls put together from pieces, counts that may be missing or nonsense."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from typing import Any

from handrail.agent.messages import Turn, Use

_FOREIGN = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME, _LONGEST_ID = 64, 40


def distinct(uses: Sequence[Use], turns: Sequence[Turn] = ()) -> tuple[Use, ...]:
    """With ids that are there, that every API takes, and that no other call has, here or in earlier ``turns``."""
    taken = {use.id for turn in turns for use in turn.uses}
    found = []
    for use in uses:
        own = _FOREIGN.sub("_", use.id)[:_LONGEST_ID]
        while not own or own in taken:
            own = f"{own[:_LONGEST_ID] or 'call'}_{os.urandom(4).hex()}"
        taken.add(own)
        found.append(Use(own, use.name, use.arguments or "{}"))
    return tuple(found)


def sent_name(use: Use) -> str:
    """The tool as it is told to an API again: a name that a model made up may be one that APIs refuse."""
    return _FOREIGN.sub("_", use.name)[:_LONGEST_NAME] or "unknown"


def sent_arguments(use: Use) -> dict[str, Any]:
    """The arguments as they are told to an API again: an object, also where the model wrote none."""
    try:
        value = json.loads(use.arguments)
    except (ValueError, RecursionError):
        return {"malformed": use.arguments}
    return value if isinstance(value, dict) else {"malformed": use.arguments}


def count(value: Any) -> int:
    """A number of tokens; servers also send nothing, or what is none."""
    return value if isinstance(value, int) and value > 0 else 0


def text_of(content: Any) -> str:
    """A piece of text; some servers send a list of parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    return "".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))
