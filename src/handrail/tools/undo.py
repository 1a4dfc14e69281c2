"""Undo: take back the last change of this session, so that an agent can repair a mistake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypedDict

from handrail.frozen import frozen
from handrail.model import Access, FileAccess
from handrail.tools.arguments import Field
from handrail.tools.tool import Arguments, Context, Outcome, Templates, Tool, UndoneFile


class Args(Arguments):
    file_path: Annotated[str | None, Field(min_length=1, description="Only the last change of this file")] = None


@frozen
class Limits:
    """Undo has none."""


@frozen
class Facts:
    files: Sequence[UndoneFile]
    why: str | None
    """Why nothing was taken back."""


class Data(TypedDict):
    restored: list[dict[str, str]]


def seek(args: Args, ctx: Context[Limits]) -> list[Access]:
    """The files that get their old contents; those that the undo leaves alone are not written."""
    files, _ = ctx.undo(args.file_path, dry_run=True)
    return [FileAccess("delete" if one.outcome == "deleted" else "write", one.path) for one in files if not one.left]


def run(args: Args, ctx: Context[Limits]) -> Outcome[Facts]:
    files, why = ctx.undo(args.file_path)
    data = Data(restored=[{"path": one.path, "outcome": one.outcome} for one in files if not one.left])
    return Outcome("done" if files else "nothing", Facts(files, why or None), data)


def render(outcome: Outcome[Facts], templates: Templates) -> str:
    files = "\n".join(templates.fill("undo.file", one) for one in outcome.facts.files)
    return templates.fill(f"undo.{outcome.kind}", outcome.facts, files=files)


TOOL = Tool(
    id="undo",
    args=Args,
    limits=Limits,
    facts=Facts,
    data=Data,
    run=run,
    render=render,
    seek=seek,
    repeatable=False,
    commits=True,
    rows={"file": UndoneFile},
)
