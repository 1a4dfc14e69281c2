"""Trash: a delete that can be taken back.

The file need not have been read: all of it is kept, so nothing is lost that nobody has looked at. What cannot be kept
is not deleted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from handrail.errors import NotFound, NotRegular
from handrail.files.subtrees import MOST_ENTRIES
from handrail.model import Access
from handrail.tools.arguments import Field
from handrail.tools.move import inside
from handrail.tools.tool import Arguments, Context, Hints, Names, Outcome, Tool, Words


class Args(Arguments):
    path: Annotated[str, Names("delete"), Field(description="The file or directory to delete")]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a model is told."""

    entries: int = MOST_ENTRIES


def seek(args: Args, ctx: Context) -> list[Access]:
    """Each file and directory inside of a directory."""
    try:
        names = inside(ctx.read_subtree(args.path))
    except (NotFound, NotRegular):  # said by the run, when it is allowed
        return []
    return [Access("delete", f"{args.path.rstrip('/')}/{name}") for name in names]


def run(args: Args, ctx: Context) -> Outcome:
    subtree = ctx.read_subtree(args.path)
    ctx.take(args.path, subtree)
    files = subtree.count("file")
    facts = {"path": args.path, "files": files}
    return Outcome("directory" if subtree.is_directory else "file", facts, {"files": files, "bytes": subtree.size})


def say(outcome: Outcome, words: Words) -> str:
    return words.say(f"trash.{outcome.kind}", **outcome.facts)


TOOL = Tool(id="trash", args=Args, limits=Limits, run=run, say=say, hints=Hints(destructive=True), seek=seek)
