"""A call between its judgement and its run: what a person is shown, and the answer that comes back."""

from __future__ import annotations

import json
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from handrail.errors import BadJson
from handrail.model import Access, Call, Verdict
from handrail.pipeline.context import Choice, Proposed, ToolContext
from handrail.text.diff import format_unified
from handrail.text.display import escape, replace_surrogates
from handrail.workspace import WorkPath

if TYPE_CHECKING:
    from handrail.tools.tool import Arguments, Tool


@dataclass(frozen=True, slots=True)
class Prepared:
    """A call that is understood, resolved and judged. Nothing has changed yet."""

    call: Call
    tool: Tool
    args: Arguments
    limits: Any
    accesses: tuple[Access, ...]
    paths: Mapping[str, WorkPath]
    verdict: Verdict
    preview: Callable[[], str]
    """A unified diff of what would change; raises what the run would raise."""
    proposed: Callable[[], Sequence[Proposed]] = tuple
    """What would change, file by file; empty for a command. Raises what the run would raise."""
    cancel: threading.Event | None = None
    """Set when the call is cancelled: nobody waits for the answer any more."""


Lasting = Literal["once", "session", "always"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a person who was asked says."""

    yes: bool
    reason: str = ""
    """Why not; the model reads it."""
    lasting: Lasting = "once"
    """`session`: the same is not asked again in this session; `always`: nor later, the rule is written down."""
    hunks: Mapping[str, Sequence[int]] | None = None
    """By path, the numbers (from 0) of the hunks that are wanted; a path that is missing is wanted whole."""
    contents: Mapping[str, str] | None = None
    """By path, the text that the person wrote in the place of what was proposed."""
    arguments: Mapping[str, Any] | None = None
    """The call as the person has rewritten it, in the dialect's names; it is prepared and judged anew."""

    def __post_init__(self) -> None:
        if not isinstance(self.yes, bool):  # "no" would count as a yes
            raise ValueError(f"yes must be True or False, not {repr(self.yes)[:80]}")
        if self.lasting not in ("once", "session", "always"):
            raise ValueError(f"lasting must be 'once', 'session' or 'always', not {repr(self.lasting)[:80]}")

    @property
    def choice(self) -> Choice | None:
        """What is wanted of the changes; None: all of them."""
        chosen = self.hunks is not None or self.contents is not None
        return Choice(self.hunks or {}, self.contents or {}) if chosen else None


Approve = Callable[[Prepared], bool | Answer | Awaitable[bool | Answer]]


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


def command_of(prepared: Prepared) -> str | None:
    """The command that would be run, if one would."""
    return next((access.target for access in prepared.accesses if access.action == "run"), None)


def plainly(command: str) -> str:
    """A command as a person is to judge it: line by line, nothing in it hidden from the eye."""
    return "\n".join(escape(line) if not line.isprintable() else line for line in command.split("\n"))


def diff_of(guard: ToolContext) -> str:
    parts = (
        change.preview
        or format_unified(escape(change.path.named), hunks, created=change.before is None, deleted=change.after is None)
        for change, hunks in zip(guard.changes, guard.hunks, strict=True)
    )
    return replace_surrogates("".join(parts))


def answered(answer: bool | Answer | Awaitable[bool | Answer]) -> Answer:
    """A host's answer, given at once or awaited: in a loop of its own, since this thread may be inside one.

    Raises `ValueError` for anything else than a bool or an `Answer`: a text that is not empty must not count as a yes.
    """
    if isinstance(answer, Answer):
        return answer
    if isinstance(answer, bool):
        return Answer(answer)
    if not isinstance(answer, Awaitable):
        raise ValueError(f"approve must return True, False or an Answer, not {repr(answer)[:80]}")
    import asyncio  # slow to import, and only needed here
    from concurrent.futures import ThreadPoolExecutor

    async def awaited() -> bool | Answer:
        return await answer

    with ThreadPoolExecutor(1) as thread:
        return answered(thread.submit(lambda: asyncio.run(awaited())).result())
