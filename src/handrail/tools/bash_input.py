"""BashInput: something typed for a background command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from handrail.errors import Dangerous
from handrail.model import Access
from handrail.shell.effects.effects import effects
from handrail.shell.runner.jobs import Job
from handrail.shell.typed_input import obeys, typed_danger
from handrail.tools.arguments import Field
from handrail.tools.tool import Arguments, Context, Hints, Outcome, Tool, Words


class Args(Arguments):
    job: Annotated[str, Field(description="The job")]
    text: Annotated[str, Field(description="What to send; a line ends with a newline")] = ""
    close: Annotated[bool, Field(description="Then end the input")] = False


@dataclass(frozen=True, slots=True)
class Limits:
    """What a dialect may set: nothing."""


def accesses(args: Args) -> list[Access]:
    """A program that reads commands will run what it is sent, and come to the files that are named in it."""
    if not args.text:
        return []
    files = effects(args.text).files  # in which directory is not known: rules about names hold all the same
    named = [Access(file.action, file.path, "", True, file.glob, file.below, file.into, file.sees) for file in files]
    return [Access("run", args.text, place=f"job {args.job}"), *dict.fromkeys(named)]


def run(args: Args, ctx: Context) -> Outcome:
    def check(job: Job) -> None:
        found = typed_danger(job.typed, args.text) if args.text and obeys(job.run.order.command) else None
        if found:
            raise Dangerous(part=found.text, why=found.why)

    sent = ctx.terminal.jobs.write(args.job, args.text, args.close, check)
    wanted = len(args.text.encode("utf-8", "surrogateescape"))
    facts = {"job": args.job, "sent": sent, "wanted": wanted}
    return Outcome("sent", {**facts, "short": sent < wanted, "closed": args.close}, dict(facts))


def say(outcome: Outcome, words: Words) -> str:
    return words.say("bash_input.sent", **outcome.facts)


TOOL = Tool(
    id="bash_input", args=Args, limits=Limits, run=run, say=say, hints=Hints(open_world=True), accesses=accesses
)
