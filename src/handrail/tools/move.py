"""Move: give a file or a directory another path, never one that is in use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypedDict

from handrail.errors import NotFound, NotRegular
from handrail.files.subtrees import MOST_ENTRIES
from handrail.frozen import frozen
from handrail.model import Access, FileAccess, FileAction
from handrail.tools.arguments import Field
from handrail.tools.tool import Arguments, Context, Hints, Outcome, Templates, Tool

if TYPE_CHECKING:
    from handrail.files.versions import Subtree


class Args(Arguments):
    source_path: Annotated[str, Field(description="The file or directory to move")]
    target_path: Annotated[str, Field(description="Its complete new path, including the name; it must not exist")]


@frozen
class Limits:
    """Limits that the description names."""

    entries: int = MOST_ENTRIES


@frozen
class Facts:
    source: str
    path: str
    files: int


Data = TypedDict("Data", {"from": str, "to": str, "files": int, "bytes": int})


# A move decides under which name a file can be read afterwards, so it is judged as a read, too.
_ACTIONS: tuple[FileAction, ...] = ("read", "delete")


def accesses(args: Args) -> list[Access]:
    return [*(FileAccess(action, args.source_path) for action in _ACTIONS), FileAccess("write", args.target_path)]


def seek(args: Args, ctx: Context[Limits]) -> list[Access]:
    """Every file and directory inside a directory: it is read and deleted here, and written there."""
    try:
        names = list_inside(ctx.subtrees.read(args.source_path))
    except (NotFound, NotRegular):  # reported by the run, if policy allows it
        return []
    here, there = args.source_path.rstrip("/"), args.target_path.rstrip("/")
    gone = [FileAccess(action, f"{here}/{name}") for name in names for action in _ACTIONS]
    return [*gone, *(FileAccess("write", f"{there}/{name}") for name in names)]


def list_inside(subtree: Subtree) -> list[str]:
    """The entries of a directory except links, which lead to other files."""
    return [entry.inner for entry in subtree.entries if entry.inner and entry.kind != "link"]


def run(args: Args, ctx: Context[Limits]) -> Outcome[Facts]:
    subtree = ctx.subtrees.read(args.source_path)
    ctx.subtrees.stage(args.source_path, subtree, args.target_path)
    facts = Facts(args.source_path, args.target_path, subtree.count("file"))
    data: Data = {"from": args.source_path, "to": args.target_path, "files": facts.files, "bytes": subtree.size}
    return Outcome("directory" if subtree.is_directory else "file", facts, data)


def render(outcome: Outcome[Facts], templates: Templates) -> str:
    return templates.fill(f"move.{outcome.kind}", outcome.facts)


TOOL = Tool(
    id="move",
    args=Args,
    limits=Limits,
    facts=Facts,
    data=Data,
    run=run,
    render=render,
    hints=Hints(destructive=True),
    accesses=accesses,
    seek=seek,
)
