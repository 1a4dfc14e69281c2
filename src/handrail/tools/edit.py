"""Edit: replace one piece of text in a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from handrail.errors import ChangedSince, EmptyOld, NoMatch, NothingToChange, OtherCount, ToolError
from handrail.text.diff import number_new_lines
from handrail.text.document import Splice, apply_splices
from handrail.text.matching.find import plan_edit
from handrail.text.matching.places import EditPlan
from handrail.tools.arguments import Field
from handrail.tools.tool import Arguments, Context, Hints, Loaded, Outcome, Remark, Tool, Words, Writes

_PROSE = (".md", ".mdx", ".rst", ".txt", ".adoc")


class Args(Arguments):
    file_path: Annotated[Writes, Field(description="The file to change")]
    old_string: Annotated[str, Field(description="The text to replace")]
    new_string: Annotated[str, Field(description="The text to put there")]
    replace_all: Annotated[bool, Field(description="Every occurrence")] = False
    expected: Annotated[int | None, Field(ge=1, hidden=True)] = None
    """How many occurrences there must be; only for dialects that count them."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a dialect may set."""

    creates: bool = False
    """Whether an empty `old_string` creates a missing file."""
    matching: str = "forgiving"
    """The match strategy; see `text/matching/find.py`."""
    snippet_lines: int = 60


def valid(
    content: str, old_string: str, new_string: str, replace_all: bool, matching: str = "exact"
) -> ToolError | None:
    """Why this edit cannot be made in ``content``, or None."""
    try:
        understood(content, old_string, new_string, replace_all, matching)
    except ToolError as error:
        return error
    return None


def execute(content: str, old_string: str, new_string: str, replace_all: bool, matching: str = "exact") -> str:
    """``content`` with this edit made; raises why it cannot be made."""
    return apply_splices(content, understood(content, old_string, new_string, replace_all, matching).splices)


def understood(
    content: str, old_string: str, new_string: str, replace_all: bool, matching: str, path: str = ""
) -> EditPlan:
    """What this edit changes in ``content``; raises why it cannot be made."""
    if old_string == new_string:
        raise NothingToChange(old=old_string)
    if not old_string:
        raise EmptyOld()
    return plan_edit(content, old_string, new_string, replace_all, matching, prose=path.endswith(_PROSE))


def run(args: Args, ctx: Context) -> Outcome:
    facts: dict[str, Any] = {"path": args.file_path, "old": args.old_string, "new": args.new_string}
    if ctx.limits.creates and not args.old_string:
        if ctx.exists(args.file_path):
            raise EmptyOld(path=args.file_path)
        ctx.stage(args.file_path, None, [Splice(0, 0, args.new_string)])
        return Outcome("created", facts, {"created": True})
    loaded = ctx.load(args.file_path)
    every = args.replace_all or (args.expected or 1) > 1
    try:
        made = understood(
            loaded.document.text, args.old_string, args.new_string, every, ctx.limits.matching, args.file_path
        )
    except NoMatch as error:
        unmatched = {"unmatched": True, "one": not every, "all": every}
        if loaded.moved is not None:
            raise ChangedSince(path=args.file_path, moved=loaded.moved, **unmatched) from None
        error.facts |= unmatched
        raise
    if args.expected not in (None, made.places):
        raise OtherCount(path=args.file_path, found=made.places, expected=args.expected, files=1, searched=1)
    found = ctx.stage(args.file_path, loaded, made.splices).hunks
    kind = "replaced_all" if every else "done"
    facts |= {
        "count": made.places,
        "snippet": number_new_lines(found),
        "most": ctx.limits.snippet_lines,
        "how": how(made),
    }
    data = {"replaced": made.places, "rung": made.level, "readings": list(made.variants)}
    return Outcome(kind, facts, data, elsewhere(args.file_path, loaded))


def how(made: EditPlan) -> str:
    """How an edit was understood, if not by the letter."""
    if made.level in ("exact", "line_endings"):
        return ", ".join(["exact", *made.variants]) if made.variants else ""
    return ", ".join([*made.variants, made.level.replace("_", " ")])


def say(outcome: Outcome, words: Words) -> str:
    facts = outcome.facts
    rows = numbered(facts.get("snippet", ()), facts.get("most", 0), words)
    return words.say(f"edit.{outcome.kind}", **{**facts, "snippet": rows})


def elsewhere(path: str, loaded: Loaded | None) -> tuple[Remark, ...]:
    """A note if the file had changed since it was seen, in places that this edit does not touch."""
    if loaded is None or loaded.moved is None:
        return ()
    return (Remark("changed_elsewhere", {"path": path, "moved": loaded.moved}),)


def numbered(rows: Sequence[tuple[int, str]], most: int, words: Words) -> str:
    """A snippet behind line numbers, its middle left out if it is long."""
    if len(rows) <= most:
        return words.rows(rows)
    half = most // 2
    left_out = words.say("edit.left_out", count=len(rows) - 2 * half)
    return "\n".join([words.rows(rows[:half]), left_out, words.rows(rows[len(rows) - half :])])


TOOL = Tool(id="edit", args=Args, limits=Limits, run=run, say=say, hints=Hints(destructive=True))
