"""MultiEdit: several edits of one file, one after the other, all or none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple, TypedDict

from handrail.errors import AlreadyApplied, ChangedSince, EmptyOld, NoMatch, ToolError
from handrail.frozen import frozen
from handrail.text.diff import number_new_lines
from handrail.text.document import Edited, Splice
from handrail.text.matching.budget import limit_work
from handrail.tools.arguments import BeforeValidator, Field, decode_json_text
from handrail.tools.edit import describe_match, note_changes, plan_replacement, render_snippet, tell_apart
from handrail.tools.tool import Arguments, Context, Hints, Outcome, Templates, Tool, Writes


class One(Arguments):
    old_string: Annotated[str, Field(description="The text to replace")]
    new_string: Annotated[str, Field(description="The new text")]
    replace_all: Annotated[bool, Field(description="Replace every occurrence")] = False


class Args(Arguments):
    file_path: Annotated[Writes, Field(description="The file to change")]
    edits: Annotated[
        list[One],
        BeforeValidator(decode_json_text),
        Field(min_length=1, description="Edits, each applied to the result of the last"),
    ]


@frozen
class Limits:
    """Limits that a dialect may set."""

    creates: bool = False
    """Whether an empty first `old_string` creates a missing file."""
    matching: str = "forgiving"
    """The match strategy; see `text/matching/find.py`."""
    snippet_lines: int = 60


@frozen
class Facts:
    path: str
    edits: Sequence[One]
    count: int
    snippet: Sequence[tuple[int, str]]
    most: int
    """How many lines of the snippet are shown."""
    how: str
    """How the texts were matched, by the number of the edit, if not exactly."""


class Data(TypedDict):
    applied: int
    created: bool


def run(args: Args, ctx: Context[Limits]) -> Outcome[Facts]:
    edits, creating = args.edits, False
    if ctx.limits.creates and not edits[0].old_string:
        if ctx.exists(args.file_path):
            raise EmptyOld(path=args.file_path)
        creating = True
    loaded = None if creating else ctx.load(args.file_path, quoted=[edit.old_string for edit in edits])
    edited = Edited(loaded.document.text if loaded else "")
    loose: list[str] = []
    known: dict[str, str] = {}
    applied = 0
    with limit_work(ctx.cancel):
        for number, edit in enumerate(edits, start=1):
            try:
                if creating and number == 1:
                    edited.apply([Splice(0, 0, edit.new_string)])
                    continue
                planned = plan_replacement(
                    edited.text,
                    edit.old_string,
                    edit.new_string,
                    edit.replace_all,
                    ctx.limits.matching,
                    args.file_path,
                    known=known,
                    is_sent_again=ctx.is_sent_again,
                )
                edited.apply(planned.splices)
                if how := describe_match(planned):
                    loose.append(f"{number}: {how}")
            except AlreadyApplied:
                loose.append(f"{number}: applied before")
                applied += 1
            except ToolError as error:
                if isinstance(error, NoMatch) and loaded and loaded.described_changes is not None:
                    error = ChangedSince(path=args.file_path, moved=loaded.described_changes)
                error.wrap = "multi_edit.failed"
                error.facts.update(number=number, edits=len(edits))
                raise error from None
    hunks = ctx.stage(args.file_path, loaded, edited.splices()).hunks
    facts = Facts(
        path=args.file_path,
        edits=edits,
        count=len(edits),
        snippet=number_new_lines(hunks),
        most=ctx.limits.snippet_lines,
        how="; ".join(loose),
    )
    notes = note_changes(args.file_path, loaded)
    data = Data(applied=len(edits) - applied, created=creating)
    return Outcome(
        "unchanged" if applied == len(edits) else "done", facts, data, notes, tell_apart(facts.how, ctx.limits.matching)
    )


class EditItem(NamedTuple):
    """The values of the template for one edit."""

    number: int
    old: str
    new: str


class FailedEdit(NamedTuple):
    """The values of the template around the message of an edit that failed."""

    number: int
    edits: int
    error: str


def render(outcome: Outcome[Facts], templates: Templates) -> str:
    facts = outcome.facts
    if outcome.kind == "unchanged":
        return templates.fill("multi_edit.unchanged", facts)
    items = [
        templates.fill("multi_edit.item", EditItem(number, edit.old_string, edit.new_string))
        for number, edit in enumerate(facts.edits, start=1)
    ]
    rows = render_snippet(facts.snippet, facts.most, templates)
    return templates.fill("multi_edit.done", facts, items="\n".join(items), snippet=rows)


TOOL = Tool(
    id="multi_edit",
    args=Args,
    limits=Limits,
    facts=Facts,
    data=Data,
    run=run,
    render=render,
    hints=Hints(destructive=True),
    rendered=("items",),
    rows={"item": EditItem, "failed": FailedEdit},
)
