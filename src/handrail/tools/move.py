"""Move: give a file or a directory another path, without ever taking one that is in use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from handrail.errors import NotFound, NotRegular
from handrail.files.subtrees import MOST_ENTRIES
from handrail.model import Access, Action
from handrail.tools.arguments import Field
from handrail.tools.tool import Arguments, Context, Hints, Outcome, Tool, Words

if TYPE_CHECKING:
    from handrail.files.changes import Subtree


class Args(Arguments):
    source_path: Annotated[str, Field(description="The file or directory to move")]
    target_path: Annotated[str, Field(description="Its new path in full, name included; nothing may stand there")]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a model is told."""

    entries: int = MOST_ENTRIES


# Who moves a file decides by which name it can be read afterwards: so a move is judged as a read, too.
_ACTIONS: tuple[Action, ...] = ("read", "delete")


def accesses(args: Args) -> list[Access]:
    return [*(Access(action, args.source_path) for action in _ACTIONS), Access("write", args.target_path)]


def seek(args: Args, ctx: Context) -> list[Access]:
    """Each file and directory inside of a directory: it is read and deleted here, and written there."""
    try:
        names = inside(ctx.read_subtree(args.source_path))
    except (NotFound, NotRegular):  # said by the run, when it is allowed
        return []
    here, there = args.source_path.rstrip("/"), args.target_path.rstrip("/")
    gone = [Access(action, f"{here}/{name}") for name in names for action in _ACTIONS]
    return [*gone, *(Access("write", f"{there}/{name}") for name in names)]


def inside(subtree: Subtree) -> list[str]:
    """What a directory holds, without links, which stand for other files."""
    return [entry.inner for entry in subtree.entries if entry.inner and entry.kind != "link"]


def run(args: Args, ctx: Context) -> Outcome:
    subtree = ctx.read_subtree(args.source_path)
    ctx.take(args.source_path, subtree, args.target_path)
    files = subtree.count("file")
    facts = {"source": args.source_path, "path": args.target_path, "files": files}
    data = {"from": args.source_path, "to": args.target_path, "files": files, "bytes": subtree.size}
    return Outcome("directory" if subtree.is_directory else "file", facts, data)


def say(outcome: Outcome, words: Words) -> str:
    return words.say(f"move.{outcome.kind}", **outcome.facts)


TOOL = Tool(
    id="move", args=Args, limits=Limits, run=run, say=say, hints=Hints(destructive=True), accesses=accesses, seek=seek
)
