"""A call that has been judged and not yet run, with the changes that it would make."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from handrail.errors import BadJson
from handrail.model import Access, Call, Verdict
from handrail.pipeline.context import Proposed, ToolContext
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


def diff_of(guard: ToolContext) -> str:
    parts = (
        change.preview
        or format_unified(escape(change.path.named), hunks, created=change.before is None, deleted=change.after is None)
        for change, hunks in zip(guard.changes, guard.hunks, strict=True)
    )
    return replace_surrogates("".join(parts))
