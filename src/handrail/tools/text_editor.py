"""TextEditor: view, create, str_replace and insert as commands of one tool, for models trained on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, TypedDict

from handrail.errors import BadArguments, PastEnd
from handrail.frozen import frozen
from handrail.model import Access, FileAccess
from handrail.text import lines
from handrail.text.diff import number_new_lines
from handrail.text.document import Splice, keep_endings
from handrail.tools import edit, view, write
from handrail.tools.arguments import Field
from handrail.tools.tool import Arguments, Context, Hints, Loaded, Outcome, Templates, Tool
from handrail.tools.view import Range, with_limits

_NEEDS = {
    "view": (),
    "create": ("file_text",),
    "str_replace": ("old_str",),
    "insert": ("insert_line", "insert_text"),
}


class Args(Arguments):
    command: Annotated[Literal["view", "create", "str_replace", "insert"], Field(description="The operation")]
    path: Annotated[str, Field(description="The file; for view also a directory")]
    view_range: Annotated[
        Range | None, Field(description="view: first and last line, from 1; [N, -1] shows the rest")
    ] = None
    file_text: Annotated[str | None, Field(description="create: the whole contents")] = None
    old_str: Annotated[str | None, Field(description="str_replace: the text to replace; it must occur once")] = None
    new_str: Annotated[str | None, Field(description="str_replace: the new text; empty if left out")] = None
    insert_line: Annotated[int | None, Field(ge=0, description="insert: the line to insert after; 0 is the top")] = None
    insert_text: Annotated[str | None, Field(description="insert: the lines to insert")] = None


@frozen
class Limits(view.Limits):
    """Limits that a dialect may set."""

    matching: str = "forgiving"
    """The match strategy of `old_str`; see `text/matching/find.py`."""
    snippet_lines: int = 60


@frozen
class InsertFacts:
    path: str
    line: int
    """The line after which the new lines are."""
    count: int
    snippet: Sequence[tuple[int, str]]
    most: int
    """How many lines of the snippet are shown."""


Facts = InsertFacts | edit.Facts | write.Facts | view.Facts


class InsertData(TypedDict):
    inserted: int
    after: int


class Data(view.Data, total=False):
    """Data of View, Write and Edit, and of an insertion."""

    created: bool
    bytes: int
    replaced: int
    rung: str
    readings: list[str]
    inserted: int
    after: int


def accesses(args: Args) -> list[Access]:
    """Every command but `view` writes the file."""
    missing = [name for name in _NEEDS[args.command] if getattr(args, name) is None]
    if missing:
        raise BadArguments(problems="\n".join(f"- {name}: missing; {args.command} needs it" for name in missing))
    return [FileAccess("read" if args.command == "view" else "write", args.path)]


def run(args: Args, ctx: Context[Limits]) -> Outcome[Facts]:
    limits = ctx.limits
    if args.command == "view":
        return view.run(view.Args(path=args.path, view_range=args.view_range), ctx)
    if args.command == "create":
        whole = write.Args(file_path=args.path, content=args.file_text or "")
        return write.run(whole, with_limits(ctx, write.Limits()))
    if args.command == "insert":
        return _insert(args, ctx)
    edit_args = edit.Args(file_path=args.path, old_string=args.old_str or "", new_string=args.new_str or "")
    edit_limits = edit.Limits(matching=limits.matching, snippet_lines=limits.snippet_lines)
    return edit.run(edit_args, with_limits(ctx, edit_limits))


def _insert(args: Args, ctx: Context[Limits]) -> Outcome[InsertFacts]:
    loaded = ctx.load(args.path)
    after = args.insert_line or 0
    change = _insert_lines(loaded, args.path, after, args.insert_text or "")
    hunks = ctx.stage(args.path, loaded, [change]).hunks
    count = lines.count(args.insert_text or "\n")
    facts = InsertFacts(args.path, after, count, number_new_lines(hunks), ctx.limits.snippet_lines)
    data = InsertData(inserted=count, after=after)
    return Outcome("inserted", facts, data, edit.note_changes(args.path, loaded))


def _insert_lines(loaded: Loaded, path: str, after: int, new: str) -> Splice:
    """Whole lines after a line. The file keeps its line endings, also if its last line has none."""
    text = loaded.document.text
    present = lines.split(text)
    if after > len(present):
        raise PastEnd(path=path, total=len(present), offset=after)
    if not text:
        return Splice(0, 0, new or "\n")
    at = sum(map(len, present[:after]))
    whole = new if lines.get_ending(new) else new + "\n"
    if at == len(text) and not lines.get_ending(present[-1]):
        whole = "\n" + whole[: -len(lines.get_ending(whole))]
    return Splice(at, at, keep_endings(text, at, at, whole))


def render(outcome: Outcome[Facts], templates: Templates) -> str:
    facts = outcome.facts
    if isinstance(facts, InsertFacts):
        rows = edit.render_snippet(facts.snippet, facts.most, templates)
        return templates.fill("text_editor.inserted", facts, snippet=rows)
    if isinstance(facts, edit.Facts):
        return edit.render(outcome.with_facts(facts), templates)
    if isinstance(facts, write.Facts):
        return write.render(outcome.with_facts(facts), templates)
    return view.render(outcome.with_facts(facts), templates)


TOOL = Tool(
    id="text_editor",
    args=Args,
    limits=Limits,
    facts=Facts,
    data=Data,
    run=run,
    render=render,
    hints=Hints(destructive=True),
    accesses=accesses,
)
