"""The calls of a reply, put together from pieces."""

from __future__ import annotations

from collections.abc import Sequence

from handrail.agent.talk import Use


def distinct(uses: Sequence[Use]) -> tuple[Use, ...]:
    """With ids that are there and differ, so that every call has its own result."""
    taken: set[str] = set()
    found = []
    for number, use in enumerate(uses, 1):
        own = use.id or f"call_{number}"
        while own in taken:
            own += f"_{number}"
        taken.add(own)
        found.append(Use(own, use.name, use.arguments or "{}"))
    return tuple(found)
