"""Uppercase: convert text to upper case, the smallest tool there can be."""

from __future__ import annotations

from typing import Annotated

from handrail.frozen import frozen
from handrail.tools.arguments import Field
from handrail.tools.tool import Arguments, Context, Hints, Outcome, Templates, Tool


class Args(Arguments):
    text: Annotated[str, Field(description="The text")]


@frozen
class Limits:
    """It has none: an answer that is too long is cut like any other."""


@frozen
class Facts:
    text: str


def run(args: Args, ctx: Context[Limits]) -> Outcome[Facts]:  # noqa: ARG001 - it needs no files
    return Outcome("done", Facts(args.text.upper()))


def render(outcome: Outcome[Facts], templates: Templates) -> str:
    return templates.fill("uppercase.done", outcome.facts)


TOOL = Tool(
    id="uppercase",
    args=Args,
    limits=Limits,
    facts=Facts,
    run=run,
    render=render,
    hints=Hints(read_only=True, idempotent=True),
)
