"""BashInput: send text to the standard input of a background command."""

from __future__ import annotations

from typing import Annotated, TypedDict

from handrail.errors import Dangerous
from handrail.frozen import frozen
from handrail.model import Access, CommandAccess, FileAccess
from handrail.shell.effects.effects import find_effects
from handrail.shell.runner.jobs import Job
from handrail.shell.typed_input import find_typed_danger, may_run_its_input
from handrail.tools.arguments import Field
from handrail.tools.tool import Arguments, Context, Hints, Outcome, Templates, Tool


class Args(Arguments):
    job: Annotated[str, Field(description="The job")]
    text: Annotated[str, Field(description="The text to send; end a line with a newline")] = ""
    close: Annotated[bool, Field(description="Then close stdin")] = False


@frozen
class Limits:
    """A dialect may set nothing."""


@frozen
class Facts:
    job: str
    sent: int
    wanted: int
    short: bool
    """Whether the program took only a part."""
    closed: bool


class Data(TypedDict):
    job: str
    sent: int
    wanted: int


def accesses(args: Args) -> list[Access]:
    """A program that reads commands runs the text, and reaches the files that are named in it."""
    if not args.text:
        return []
    files = find_effects(args.text).files  # the directory is not known, but rules about names still hold
    named = [
        FileAccess(file.action, file.path, by_command=True, glob=file.glob, below=file.below, sees=file.sees)
        for file in files
    ]
    return [CommandAccess(args.text, place=f"job {args.job}"), *dict.fromkeys(named)]


def run(args: Args, ctx: Context[Limits]) -> Outcome[Facts]:
    def check(job: Job) -> None:
        danger = (
            find_typed_danger(job.typed, args.text) if args.text and may_run_its_input(job.run.order.command) else None
        )
        if danger:
            raise Dangerous(part=danger.text, why=danger.why)

    sent = ctx.command.host.jobs.write(args.job, args.text, args.close, check)
    size = len(args.text.encode("utf-8", "surrogateescape"))
    facts = Facts(args.job, sent, size, short=sent < size, closed=args.close)
    return Outcome("sent", facts, Data(job=args.job, sent=sent, wanted=size))


def render(outcome: Outcome[Facts], templates: Templates) -> str:
    return templates.fill("bash_input.sent", outcome.facts)


TOOL = Tool(
    id="bash_input",
    args=Args,
    limits=Limits,
    facts=Facts,
    data=Data,
    run=run,
    render=render,
    hints=Hints(open_world=True),
    accesses=accesses,
)
