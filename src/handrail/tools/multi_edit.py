"""MultiEdit: several edits of one file, one after the other, all or none."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any

from handrail.errors import ChangedSince, EmptyOld, NoMatch, ToolError
from handrail.text.diff import number_new_lines
from handrail.text.document import Edited, Splice
from handrail.tools.arguments import BeforeValidator, Field
from handrail.tools.edit import elsewhere, how, numbered, understood
from handrail.tools.tool import Arguments, Context, Hints, Outcome, Tool, Words, Writes


def _list(value: Any) -> Any:
    """A list that a model wrote as a string of JSON."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return value


class One(Arguments):
    old_string: Annotated[str, Field(description="The text to replace")]
    new_string: Annotated[str, Field(description="The text to put there")]
    replace_all: Annotated[bool, Field(description="Replace every occurrence")] = False


class Args(Arguments):
    file_path: Annotated[Writes, Field(description="The file to change")]
    edits: Annotated[
        list[One], BeforeValidator(_list), Field(min_length=1, description="Edits, each made on the result of the last")
    ]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a dialect may set."""

    creates: bool = False
    """Whether an empty first `old_string` creates a missing file."""
    matching: str = "forgiving"
    """The match strategy; see `text/matching/find.py`."""
    snippet_lines: int = 60


def run(args: Args, ctx: Context) -> Outcome:
    edits, creating = args.edits, False
    if ctx.limits.creates and not edits[0].old_string:
        if ctx.exists(args.file_path):
            raise EmptyOld(path=args.file_path)
        creating = True
    loaded = None if creating else ctx.load(args.file_path)
    edited = Edited(loaded.document.text if loaded else "")
    loose: list[str] = []
    for number, edit in enumerate(edits, start=1):
        try:
            if creating and number == 1:
                edited.apply([Splice(0, 0, edit.new_string)])
            else:
                made = understood(
                    edited.text,
                    edit.old_string,
                    edit.new_string,
                    edit.replace_all,
                    ctx.limits.matching,
                    args.file_path,
                )
                edited.apply(made.splices)
                loose += [f"{number}: {how(made)}"] if how(made) else []
        except ToolError as error:
            if isinstance(error, NoMatch) and loaded and loaded.moved is not None:
                error = ChangedSince(path=args.file_path, moved=loaded.moved)
            error.wrap = "multi_edit.failed"
            error.facts |= {"number": number, "edits": len(edits)}
            raise error from None
    found = ctx.stage(args.file_path, loaded, edited.splices()).hunks
    facts = {"path": args.file_path, "edits": edits, "count": len(edits), "snippet": number_new_lines(found)}
    facts["how"] = "; ".join(loose)
    return Outcome(
        "done",
        {**facts, "most": ctx.limits.snippet_lines},
        {"applied": len(edits), "created": creating},
        elsewhere(args.file_path, loaded),
    )


def say(outcome: Outcome, words: Words) -> str:
    facts = outcome.facts
    listed = [
        words.say("multi_edit.item", number=number, old=edit.old_string, new=edit.new_string)
        for number, edit in enumerate(facts["edits"], start=1)
    ]
    rows = numbered(facts["snippet"], facts["most"], words)
    return words.say("multi_edit.done", **{**facts, "items": "\n".join(listed), "snippet": rows})


TOOL = Tool(id="multi_edit", args=Args, limits=Limits, run=run, say=say, hints=Hints(destructive=True))
