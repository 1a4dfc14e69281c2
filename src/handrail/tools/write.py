"""Write: create a file, or replace the whole contents of one."""

from __future__ import annotations

from typing import Annotated, TypedDict

from handrail.frozen import frozen
from handrail.text import lines
from handrail.text.document import Splice, keep_endings, minimize
from handrail.tools.arguments import Field
from handrail.tools.tool import Arguments, Context, Hints, Loaded, Outcome, Templates, Tool, Writes


class Args(Arguments):
    file_path: Annotated[Writes, Field(description="The file to write")]
    content: Annotated[str, Field(description="The new contents")]


@frozen
class Limits:
    """A dialect may set nothing."""


@frozen
class Facts:
    path: str
    lines: int


class Data(TypedDict):
    created: bool
    lines: int
    bytes: int


def run(args: Args, ctx: Context[Limits]) -> Outcome[Facts]:
    if not ctx.exists(args.file_path):
        return create(args, ctx)
    loaded = ctx.load(args.file_path, whole=True)
    text, content = loaded.document.text, args.content
    if loaded.document.codec.bom:
        content = content.removeprefix("\ufeff")  # the file keeps its own byte order mark
    if "\r" not in content:  # without explicit line endings the file keeps its own
        content = keep_endings(text, 0, len(text), content)
    return replace_contents(args, ctx, loaded, content)


def create(args: Args, ctx: Context[object]) -> Outcome[Facts]:
    """Stage a new file."""
    ctx.stage(args.file_path, None, [Splice(0, 0, args.content)])
    return Outcome("created", *_describe(args, created=True))


def replace_contents(args: Args, ctx: Context[object], loaded: Loaded, content: str) -> Outcome[Facts]:
    """Stage new contents for a file that exists."""
    text = loaded.document.text
    change = minimize(text, 0, len(text), content)
    staged = ctx.stage(args.file_path, loaded, [change] if change else [])
    return Outcome("replaced" if staged.changes else "unchanged", *_describe(args, created=False))


def _describe(args: Args, *, created: bool) -> tuple[Facts, Data]:
    facts = Facts(args.file_path, lines.count(args.content))
    return facts, Data(created=created, lines=facts.lines, bytes=len(args.content.encode("utf-8", "replace")))


def render(outcome: Outcome[Facts], templates: Templates) -> str:
    return templates.fill(f"write.{outcome.kind}", outcome.facts)


TOOL = Tool(
    id="write",
    args=Args,
    limits=Limits,
    facts=Facts,
    data=Data,
    run=run,
    render=render,
    hints=Hints(destructive=True, idempotent=True),
)
