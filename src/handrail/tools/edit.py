"""Edit: replace one piece of text in a file."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, TypedDict

from handrail.errors import (
    AlreadyApplied,
    ChangedSince,
    EmptyOld,
    NoMatch,
    NothingToChange,
    OtherCount,
    Placeholder,
    ToolError,
    TooMuchWork,
)
from handrail.frozen import frozen
from handrail.text.diff import number_new_lines
from handrail.text.document import EditPlan, Splice, apply_splices
from handrail.text.matching.find import LADDER, plan_edit
from handrail.text.matching.omission import is_prose_file
from handrail.tools.arguments import Field
from handrail.tools.notes import ChangedElsewhere, NoteFacts, UnreadFile
from handrail.tools.tool import Arguments, Context, Hints, Loaded, Outcome, Templates, Tool, Writes

_PROSE = (".md", ".mdx", ".rst", ".txt", ".adoc")


class Args(Arguments):
    file_path: Annotated[Writes, Field(description="The file to change")]
    old_string: Annotated[str, Field(description="The text to replace")]
    new_string: Annotated[str, Field(description="The new text")]
    replace_all: Annotated[bool, Field(description="Replace all")] = False
    expected: Annotated[int | None, Field(ge=1, hidden=True)] = None
    """How many occurrences there must be; only for dialects that count them."""


@frozen
class Limits:
    """Limits that a dialect may set."""

    creates: bool = False
    """Whether an empty `old_string` creates a missing file."""
    matching: str = "forgiving"
    """The match strategy; see `text/matching/find.py`."""
    snippet_lines: int = 60


@frozen
class Facts:
    path: str
    old: str
    new: str
    count: int = 0
    """How many occurrences were replaced."""
    snippet: Sequence[tuple[int, str]] = ()
    """The changed lines with some around them, and their numbers."""
    most: int = 0
    """How many lines of the snippet are shown."""
    how: str = ""
    """How the text was matched, if not exactly."""
    line: int = 0
    """Where the new text stands, if the edit was applied before."""


class Data(TypedDict, total=False):
    created: bool
    replaced: int
    rung: str
    readings: list[str]


def validate(
    content: str, old_string: str, new_string: str, replace_all: bool, matching: str = "exact"
) -> ToolError | None:
    """Why this edit cannot be made in ``content``, or None."""
    try:
        plan_replacement(content, old_string, new_string, replace_all, matching)
    except ToolError as error:
        return error
    return None


def execute(content: str, old_string: str, new_string: str, replace_all: bool, matching: str = "exact") -> str:
    """``content`` with this edit made; raises a `ToolError` if it cannot be made."""
    return apply_splices(content, plan_replacement(content, old_string, new_string, replace_all, matching).splices)


def plan_replacement(
    content: str,
    old_string: str,
    new_string: str,
    replace_all: bool,
    matching: str,
    path: str = "",
    cancel: threading.Event | None = None,
    known: dict[str, str] | None = None,
    is_sent_again: Callable[[], bool] = lambda: False,
) -> EditPlan:
    """Find what this edit changes in ``content``; raises a `ToolError` if it cannot be made.

    A line that looks like a placeholder is refused in code, unless the same call is sent again.
    """
    if old_string == new_string:
        raise NothingToChange(old=old_string)
    if not old_string:
        raise EmptyOld()
    plan = partial(
        plan_edit, content, old_string, new_string, replace_all, matching, path.endswith(_PROSE), cancel, known
    )
    try:
        return plan()
    except Placeholder:
        if not is_prose_file(path) and not is_sent_again():
            raise
        return plan(omits=True)


def run(args: Args, ctx: Context[Limits]) -> Outcome[Facts]:
    facts = Facts(args.file_path, args.old_string, args.new_string)
    if ctx.limits.creates and not args.old_string:
        if ctx.exists(args.file_path):
            raise EmptyOld(path=args.file_path)
        ctx.stage(args.file_path, None, [Splice(0, 0, args.new_string)])
        return Outcome("created", facts, Data(created=True))
    loaded = ctx.load(args.file_path, quoted=[args.old_string])
    every = args.replace_all or (args.expected or 1) > 1
    try:
        planned = plan_replacement(
            loaded.document.text,
            args.old_string,
            args.new_string,
            every,
            ctx.limits.matching,
            args.file_path,
            ctx.cancel,
            is_sent_again=ctx.is_sent_again,
        )
    except AlreadyApplied as error:
        ctx.stage(args.file_path, loaded, [])
        return Outcome("unchanged", replace(facts, line=error.line), Data(replaced=0))
    except TooMuchWork as error:
        error.facts["path"] = args.file_path
        raise
    except NoMatch as error:
        if loaded.described_changes is not None:
            raise ChangedSince(
                path=args.file_path, moved=loaded.described_changes, unmatched=True, one=not every, all=every
            ) from None
        error.unmatched, error.one, error.all = True, not every, every
        raise
    if args.expected not in (None, planned.places):
        raise OtherCount(path=args.file_path, count=planned.places, expected=args.expected, files=1, searched=1)
    hunks = ctx.stage(args.file_path, loaded, planned.splices).hunks
    facts = replace(
        facts,
        count=planned.places,
        snippet=number_new_lines(hunks),
        most=ctx.limits.snippet_lines,
        how=describe_match(planned),
    )
    data = Data(replaced=planned.places, rung=planned.level, readings=list(planned.variants))
    notes = note_changes(args.file_path, loaded)
    return Outcome("replaced_all" if every else "done", facts, data, notes, tell_apart(facts.how, ctx.limits.matching))


def tell_apart(how: str, matching: str) -> tuple[Mapping[str, str], ...]:
    """How a text was matched as a block of its own, beside the words that the document of a dialect gives."""
    return ({"type": "text", "text": f"matched by: {how}"},) if how and matching == LADDER else ()


def describe_match(planned: EditPlan) -> str:
    """How the text was matched, if not exactly."""
    if planned.level in ("exact", "line_endings"):
        return ", ".join(["exact", *planned.variants]) if planned.variants else ""
    return ", ".join([*planned.variants, planned.level.replace("_", " ")])


def note_changes(path: str, loaded: Loaded | None) -> tuple[NoteFacts, ...]:
    """A note if the file was never read, or changed since in lines that this edit does not reach."""
    if loaded and loaded.unread:
        return (UnreadFile(path=path),)
    if loaded is None or loaded.described_changes is None:
        return ()
    return (ChangedElsewhere(path=path, moved=loaded.described_changes),)


@frozen
class LeftOutLines:
    """The value of the template in the middle of a long snippet."""

    count: int


def render(outcome: Outcome[Facts], templates: Templates) -> str:
    facts = outcome.facts
    return templates.fill(f"edit.{outcome.kind}", facts, snippet=render_snippet(facts.snippet, facts.most, templates))


def render_snippet(rows: Sequence[tuple[int | str, str]], most: int, templates: Templates) -> str:
    """A snippet with line numbers, its middle left out if it is long."""
    if len(rows) <= most:
        return templates.number_lines(rows)
    half = most // 2
    left_out = templates.fill("edit.left_out", LeftOutLines(len(rows) - 2 * half))
    return "\n".join([templates.number_lines(rows[:half]), left_out, templates.number_lines(rows[len(rows) - half :])])


TOOL = Tool(
    id="edit",
    args=Args,
    limits=Limits,
    facts=Facts,
    data=Data,
    run=run,
    render=render,
    hints=Hints(destructive=True),
    rows={"left_out": LeftOutLines},
)
