"""Grep whose answer is also partial if a match is shown in part, or if ripgrep could not be used."""

from __future__ import annotations

from dataclasses import replace

from handrail.tools import grep
from handrail.tools.notes import CutMatches, MoreResults, SearchFallback
from handrail.tools.tool import Context, Outcome


def run(args: grep.Args, ctx: Context[grep.Limits]) -> Outcome[grep.Facts]:
    outcome = grep.run(args, ctx)
    facts, notes, data = outcome.facts, [*outcome.notes], {**outcome.data}
    if facts.receipt.fallback:
        # The note that says how to continue comes after those about the search.
        notes = sorted((*notes, SearchFallback(why=facts.receipt.fallback)), key=lambda one: type(one) is MoreResults)
    if cut := [row for row in facts.rows if row.cut]:
        first = cut[0]
        notes.append(CutMatches(count=len(cut), chars=ctx.limits.line_chars, file=first.file, line=first.line or 0))
        data["truncated"] = True
    return replace(outcome, data=data, notes=tuple(notes))


TOOL = grep.TOOL.adapt(grep.Limits, run, grep.render)
