"""Read that shows the text as it is, without line numbers, and no more than 8,000 bytes at a time."""

from __future__ import annotations

import codecs
from dataclasses import asdict

from handrail.frozen import frozen
from handrail.text import lines
from handrail.tools import read
from handrail.tools.notes import MoreLines
from handrail.tools.shared.read_media import FileFacts
from handrail.tools.tool import Context, Outcome, Templates


@frozen
class Limits:
    """Limits that a dialect may set."""

    bytes: int = 8000
    """How much of the text is shown, in bytes of UTF-8."""
    lines: int = 2000
    """Rows of a notebook."""


@frozen
class TextFacts(FileFacts):
    """A text as it is, without line numbers."""

    text: str
    cut: int | None = None
    """The bytes that are shown, if that is not all."""


Facts = read.Facts | TextFacts

_MORE = "(后面还有内容,继续读取请使用 offset={next})"


def run(args: read.Args, ctx: Context[Limits]) -> Outcome[Facts]:
    file, about = read.open_file(args, ctx)
    medium = read.read_medium(file, ctx, about, args, ctx.limits.lines)
    if medium:
        return medium
    read.open_text(file, ctx, about)
    if read.is_empty(file):
        return read.describe_empty(file, ctx, about, args.first)
    most = ctx.limits.bytes
    if file.raw is not None and args.offset is None and args.limit is None:
        text, first, more = file.codec.decode(file.raw), 1, False
    else:
        page = file.page(args.first, args.most or most + 1, most + 1, 2 * most + 2)
        text, first = "\n".join(row.text for row in page.rows), page.rows[0].number
        more = page.more and args.most is None
    raw = text.encode("utf-8", file.codec.errors)
    cut = more or len(raw) > most
    if cut:  # never inside a character
        text = codecs.getincrementaldecoder("utf-8")(file.codec.errors).decode(raw[:most])
    count = lines.count(text)
    ctx.mark_seen(file, first, first + count - 1)
    facts = TextFacts(**asdict(about), text=text, cut=most if cut else None)
    data = read.file_data(file, about) | read.Data(lines=count, encoding=file.codec.label)
    if not cut:
        return Outcome("page", facts, data)
    # The last line may be shown in part: the next page begins with it, unless it fills a page by itself.
    complete = count if count == 1 or text.endswith("\n") else count - 1
    following = first + complete
    more_block = {"type": "text", "text": _MORE.format(next=following)}
    return Outcome("page", facts, data, (MoreLines(next=following),), (more_block,))


def render(outcome: Outcome[Facts], templates: Templates) -> str:
    facts = outcome.facts
    if isinstance(facts, TextFacts):
        return templates.fill("read.page", facts, rows=facts.text)
    return read.render(outcome.with_facts(facts), templates)


TOOL = read.TOOL.adapt(Limits, run, render, Facts)
