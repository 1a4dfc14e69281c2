"""Write: a whole file, new or in place of an old one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from handrail.text import lines
from handrail.text.codec import UTF8
from handrail.text.document import Document, Splice
from handrail.text.splice import keep_endings, minimize
from handrail.tools.arguments import Field
from handrail.tools.tool import Arguments, Context, Hints, Outcome, Tool, Words, Writes


class Args(Arguments):
    file_path: Annotated[Writes, Field(description="The file to write")]
    content: Annotated[str, Field(description="Its whole new contents")]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a dialect may set."""

    verbatim: bool = False
    """Whether the contents are written as they are given and in UTF-8, whatever the file was in."""


def run(args: Args, ctx: Context) -> Outcome:
    facts = {"path": args.file_path, "lines": lines.count(args.content)}
    data = {"lines": facts["lines"], "bytes": len(args.content.encode("utf-8", "replace"))}
    if not ctx.exists(args.file_path):
        ctx.stage(args.file_path, None, [Splice(0, 0, args.content)])
        return Outcome("created", facts, {"created": True, **data})
    loaded = ctx.load(args.file_path, whole=True)
    if ctx.limits.verbatim and loaded.document.codec is not UTF8:
        loaded = replace(loaded, document=Document(loaded.document.text.encode("utf-8", "replace"), UTF8))
    text, content = loaded.document.text, args.content
    if loaded.document.codec.bom:
        content = content.removeprefix("\ufeff")  # the file's own mark stays
    if (
        "\r" not in content and not ctx.limits.verbatim
    ):  # who does not spell out line endings wants those that the file has
        content = keep_endings(text, 0, len(text), content)
    change = minimize(text, 0, len(text), content)
    staged = ctx.stage(args.file_path, loaded, [change] if change else [])
    return Outcome("replaced" if staged.changes else "unchanged", facts, {"created": False, **data})


def say(outcome: Outcome, words: Words) -> str:
    return words.say(f"write.{outcome.kind}", **outcome.facts)


TOOL = Tool(id="write", args=Args, limits=Limits, run=run, say=say, hints=Hints(destructive=True, idempotent=True))
