"""Write: create a file, or replace the whole contents of one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, TypedDict

from handrail.text import lines
from handrail.text.codec import UTF8
from handrail.text.document import Document, Splice
from handrail.text.splice import keep_endings, minimize
from handrail.tools.arguments import Field
from handrail.tools.tool import Arguments, Context, Hints, Outcome, Templates, Tool, Writes


class Args(Arguments):
    file_path: Annotated[Writes, Field(description="The file to write")]
    content: Annotated[str, Field(description="Its whole new contents")]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a dialect may set."""

    verbatim: bool = False
    """Whether the contents are written as they are given and in UTF-8, whatever the file was in."""


@dataclass(frozen=True, slots=True)
class Facts:
    path: str
    lines: int


class Data(TypedDict):
    created: bool
    lines: int
    bytes: int


def run(args: Args, ctx: Context[Limits]) -> Outcome[Facts]:
    facts = Facts(args.file_path, lines.count(args.content))
    created = not ctx.exists(args.file_path)
    data = Data(created=created, lines=facts.lines, bytes=len(args.content.encode("utf-8", "replace")))
    if created:
        ctx.stage(args.file_path, None, [Splice(0, 0, args.content)])
        return Outcome("created", facts, data)
    loaded = ctx.load(args.file_path, whole=True)
    if ctx.limits.verbatim and loaded.document.codec is not UTF8:
        loaded = replace(loaded, document=Document(loaded.document.text.encode("utf-8", "replace"), UTF8))
    text, content = loaded.document.text, args.content
    if loaded.document.codec.bom:
        content = content.removeprefix("\ufeff")  # the file keeps its own byte order mark
    if "\r" not in content and not ctx.limits.verbatim:  # without explicit line endings the file keeps its own
        content = keep_endings(text, 0, len(text), content)
    change = minimize(text, 0, len(text), content)
    staged = ctx.stage(args.file_path, loaded, [change] if change else [])
    return Outcome("replaced" if staged.changes else "unchanged", facts, data)


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
