"""TextEditor: one tool with a command, for models that know such a one: view, create, str_replace, insert."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from handrail.errors import BadArguments, PastEnd
from handrail.model import Access
from handrail.text import lines
from handrail.text.diff import number_new_lines
from handrail.text.document import Splice
from handrail.text.splice import keep_endings
from handrail.tools import edit, view, write
from handrail.tools.arguments import Field
from handrail.tools.tool import Arguments, Context, Hints, Loaded, Outcome, Tool, Words
from handrail.tools.view import Range, borrowed, lent

_NEEDS = {
    "view": (),
    "create": ("file_text",),
    "str_replace": ("old_str",),
    "insert": ("insert_line", "insert_text"),
}


class Args(Arguments):
    command: Annotated[Literal["view", "create", "str_replace", "insert"], Field(description="What to do")]
    path: Annotated[str, Field(description="The file; for view also a directory")]
    view_range: Annotated[
        Range | None, Field(description="view: first and last line, from 1; [N, -1] goes to the end")
    ] = None
    file_text: Annotated[str | None, Field(description="create: the whole contents")] = None
    old_str: Annotated[str | None, Field(description="str_replace: the text to replace; it must occur once")] = None
    new_str: Annotated[str | None, Field(description="str_replace: the text to put there; without it nothing")] = None
    insert_line: Annotated[int | None, Field(ge=0, description="insert: the line to insert behind; 0: at the top")] = (
        None
    )
    insert_text: Annotated[str | None, Field(description="insert: the lines to insert")] = None


@dataclass(frozen=True, slots=True)
class Limits(view.Limits):
    """What a dialect may set."""

    matching: str = "forgiving"
    """The match strategy of `old_str`; see `text/matching/find.py`."""
    snippet_lines: int = 60


def accesses(args: Args) -> list[Access]:
    """Only `view` leaves the file alone."""
    missing = [name for name in _NEEDS[args.command] if getattr(args, name) is None]
    if missing:
        raise BadArguments(problems="\n".join(f"- {name}: missing; {args.command} needs it" for name in missing))
    return [Access("read" if args.command == "view" else "write", args.path)]


def run(args: Args, ctx: Context) -> Outcome:
    limits: Limits = ctx.limits
    if args.command == "view":
        return view.run(view.Args(path=args.path, view_range=args.view_range), ctx)
    if args.command == "create":
        whole = write.Args(file_path=args.path, content=args.file_text or "")
        return borrowed("write", write.run(whole, lent(ctx, write.Limits())))
    if args.command == "insert":
        return _insert(args, ctx)
    made = edit.Args(file_path=args.path, old_string=args.old_str or "", new_string=args.new_str or "")
    under = edit.Limits(matching=limits.matching, snippet_lines=limits.snippet_lines)
    return borrowed("edit", edit.run(made, lent(ctx, under)))


def _insert(args: Args, ctx: Context) -> Outcome:
    loaded = ctx.load(args.path)
    after = args.insert_line or 0
    change = _inserted(loaded, args.path, after, args.insert_text or "")
    found = ctx.stage(args.path, loaded, [change]).hunks
    count = lines.count(args.insert_text or "\n")
    facts: dict[str, Any] = {"path": args.path, "line": after, "count": count, "snippet": number_new_lines(found)}
    facts["most"] = ctx.limits.snippet_lines
    data = {"inserted": count, "after": after}
    return Outcome("text_editor.inserted", facts, data, edit.elsewhere(args.path, loaded))


def _inserted(loaded: Loaded, path: str, after: int, new: str) -> Splice:
    """Whole lines behind a line. A file keeps the endings that it has, and also if its last line has none."""
    text = loaded.document.text
    there = lines.split(text)
    if after > len(there):
        raise PastEnd(path=path, total=len(there), offset=after)
    if not text:
        return Splice(0, 0, new or "\n")
    at = sum(map(len, there[:after]))
    whole = new if lines.ending(new) else new + "\n"
    if at == len(text) and not lines.ending(there[-1]):
        whole = "\n" + whole[: -len(lines.ending(whole))]
    return Splice(at, at, keep_endings(text, at, at, whole))


def say(outcome: Outcome, words: Words) -> str:
    tool, _, kind = outcome.kind.partition(".")
    if tool == "text_editor":
        rows = edit.numbered(outcome.facts["snippet"], outcome.facts["most"], words)
        return words.say("text_editor.inserted", **{**outcome.facts, "snippet": rows})
    if tool == "edit":
        return edit.say(replace(outcome, kind=kind), words)
    if tool == "write":
        return write.say(replace(outcome, kind=kind), words)
    return view.say(outcome, words)


TOOL = Tool(
    id="text_editor", args=Args, limits=Limits, run=run, say=say, hints=Hints(destructive=True), accesses=accesses
)
