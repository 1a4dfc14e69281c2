"""BashKill: the end of a background command, with everything it started."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from handrail.tools.arguments import Field
from handrail.tools.tool import Arguments, Context, Hints, Outcome, Tool, Words


class Args(Arguments):
    job: Annotated[str, Field(description="The job")]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a dialect may set: nothing."""


def run(args: Args, ctx: Context) -> Outcome:
    running = ctx.terminal.jobs.get(args.job).running
    ended = ctx.terminal.jobs.kill(args.job)
    survivors = ", ".join(str(stray.pid) for stray in ended.survivors) or None
    facts = {"job": args.job, "was_running": running, "exit_code": ended.exit_code, "survivors": survivors}
    return Outcome("killed" if running else "over", facts, dict(facts))


def say(outcome: Outcome, words: Words) -> str:
    return words.say(f"bash_kill.{outcome.kind}", **outcome.facts)


TOOL = Tool(id="bash_kill", args=Args, limits=Limits, run=run, say=say, hints=Hints(destructive=True, idempotent=True))
