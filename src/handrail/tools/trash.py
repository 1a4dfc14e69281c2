"""Trash: delete a file or a directory so that undo can restore it.

The file need not have been read first, because its contents are saved. What cannot be saved is not deleted.
"""

from __future__ import annotations

from typing import Annotated, TypedDict

from handrail.errors import NotFound, NotRegular
from handrail.files.subtrees import MOST_ENTRIES
from handrail.frozen import frozen
from handrail.model import Access, FileAccess
from handrail.tools.arguments import Field
from handrail.tools.move import list_inside
from handrail.tools.tool import Arguments, Context, Hints, Names, Outcome, Templates, Tool


class Args(Arguments):
    path: Annotated[str, Names("delete"), Field(description="The file or directory to delete")]


@frozen
class Limits:
    """Limits that the description names."""

    entries: int = MOST_ENTRIES


@frozen
class Facts:
    path: str
    files: int


class Data(TypedDict):
    files: int
    bytes: int


def seek(args: Args, ctx: Context[Limits]) -> list[Access]:
    """Every file and directory inside a directory."""
    try:
        names = list_inside(ctx.subtrees.read(args.path))
    except (NotFound, NotRegular):  # reported by the run, if policy allows it
        return []
    return [FileAccess("delete", f"{args.path.rstrip('/')}/{name}") for name in names]


def run(args: Args, ctx: Context[Limits]) -> Outcome[Facts]:
    subtree = ctx.subtrees.read(args.path)
    ctx.subtrees.stage(args.path, subtree)
    facts = Facts(args.path, subtree.count("file"))
    kind = "directory" if subtree.is_directory else "file"
    return Outcome(kind, facts, Data(files=facts.files, bytes=subtree.size))


def render(outcome: Outcome[Facts], templates: Templates) -> str:
    return templates.fill(f"trash.{outcome.kind}", outcome.facts)


TOOL = Tool(
    id="trash",
    args=Args,
    limits=Limits,
    facts=Facts,
    data=Data,
    run=run,
    render=render,
    hints=Hints(destructive=True),
    seek=seek,
)
