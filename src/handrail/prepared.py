"""A call between its judgement and its run: what a person is shown, and the answer that comes back."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from handrail.errors import BadJson
from handrail.guard import Guard
from handrail.nouns import Call, Touch, Verdict
from handrail.text.diff import unified
from handrail.text.shown import readable, shown
from handrail.tool import Arguments, Tool
from handrail.workspace import WorkPath


@dataclass(frozen=True, slots=True)
class Prepared:
    """A call that is understood, resolved and judged. Nothing has changed yet."""

    call: Call
    tool: Tool
    args: Arguments
    limits: Any
    touches: tuple[Touch, ...]
    paths: Mapping[str, WorkPath]
    verdict: Verdict
    preview: Callable[[], str]
    """A unified diff of what would change; raises what the run would raise."""


Approve = Callable[[Prepared], bool | Awaitable[bool]]


def as_mapping(arguments: Mapping[str, Any] | str | None) -> Mapping[str, Any]:
    """Arguments as a mapping; models and command lines also send them as a string of JSON."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError) as error:
            raise BadJson(why=str(error)) from None
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        raise BadJson(why="the arguments are not an object")
    return arguments


def plainly(command: str) -> str:
    """A command as a person is to judge it: line by line, nothing in it hidden from the eye."""
    return "\n".join(shown(line) if not line.isprintable() else line for line in command.split("\n"))


def diff_of(guard: Guard) -> str:
    parts = (
        unified(shown(change.path.named), hunks, created=change.before is None, deleted=change.after is None)
        for change, hunks in zip(guard.changes, guard.hunks, strict=True)
    )
    return readable("".join(parts))


def answered(answer: bool | Awaitable[bool]) -> bool:
    """A host's answer, given at once or awaited: in a loop of its own, since this thread may be inside one."""
    if not isinstance(answer, Awaitable):
        return answer
    import asyncio  # slow to import, and only needed here
    from concurrent.futures import ThreadPoolExecutor

    async def awaited() -> bool:
        return await answer

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(awaited())).result()
