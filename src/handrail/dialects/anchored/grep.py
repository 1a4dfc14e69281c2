"""Grep that shows each line with its tag, for Edit. A line that is not shown completely has none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import groupby

from handrail.errors import BinaryFile
from handrail.frozen import frozen
from handrail.search.tree import SearchTree
from handrail.text import lines
from handrail.text.display import replace_surrogates
from handrail.text.line_tags import compute_tag
from handrail.tools import grep
from handrail.tools.tool import Context, Outcome


@frozen
class TaggedRow(grep.Row):
    """A line of the answer with its tag."""

    tag: str = ""


def run(args: grep.Args, ctx: Context[grep.Limits]) -> Outcome[grep.Facts]:
    outcome = grep.run(args, ctx)
    facts = outcome.facts
    if args.output_mode != "content" or not args.line_numbers:
        return outcome
    tree = ctx.tree(args.path)
    rows: list[grep.Row] = []
    for _, group in groupby(facts.rows, key=lambda row: row.file):
        rows += _tag_rows(list(group), tree, ctx)
    return outcome.with_facts(replace(facts, rows=rows))


def _tag_rows(rows: Sequence[grep.Row], tree: SearchTree, ctx: Context[grep.Limits]) -> Sequence[grep.Row]:
    """The rows of one file with the tags of its lines, unless it has changed since it was searched."""
    file = ctx.open_result(tree, rows[-1].inner) if rows[-1].kind in ("match", "context") else None
    if file is None or file.raw is None:
        return rows
    try:
        file.open()
    except BinaryFile:
        return rows
    bodies = [lines.strip_ending(row) for row in lines.split(file.codec.decode(file.raw))]
    tagged: list[grep.Row] = []
    for row in rows:
        line = row.line or 0
        body = bodies[line - 1] if 0 < line <= len(bodies) else None
        if row.cut or body is None or replace_surrogates(body) != row.text:
            tagged.append(row)
            continue
        known = {one.name: getattr(row, one.name) for one in fields(row)}
        tagged.append(TaggedRow(**known, tag=compute_tag(body)))
        ctx.tags.show(file, line, line)
    return tagged


TOOL = replace(
    grep.TOOL.adapt(grep.Limits, run, grep.render),
    rows=dict.fromkeys(("heading", "match", "context", "gap", "file", "count"), TaggedRow),
)
