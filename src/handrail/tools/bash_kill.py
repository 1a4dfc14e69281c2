"""BashKill: end a background command and everything it started."""

from __future__ import annotations

from typing import Annotated, TypedDict

from handrail.frozen import frozen
from handrail.tools.arguments import Field
from handrail.tools.tool import Arguments, Context, Hints, Outcome, Templates, Tool


class Args(Arguments):
    job: Annotated[str, Field(description="The job")]


@frozen
class Limits:
    """A dialect may set nothing."""


@frozen
class Facts:
    job: str
    was_running: bool
    exit_code: int | None
    survivors: str | None
    """The ids of processes that could not be ended."""


class Data(TypedDict):
    job: str
    was_running: bool
    exit_code: int | None
    survivors: str | None


def run(args: Args, ctx: Context[Limits]) -> Outcome[Facts]:
    running = ctx.command.host.jobs.get(args.job).running
    ended = ctx.command.host.jobs.kill(args.job)
    survivors = ", ".join(str(stray.pid) for stray in ended.survivors) or None
    facts = Facts(args.job, running, ended.exit_code, survivors)
    data = Data(job=args.job, was_running=running, exit_code=ended.exit_code, survivors=survivors)
    return Outcome("killed" if running else "over", facts, data)


def render(outcome: Outcome[Facts], templates: Templates) -> str:
    return templates.fill(f"bash_kill.{outcome.kind}", outcome.facts)


TOOL = Tool(
    id="bash_kill",
    args=Args,
    limits=Limits,
    facts=Facts,
    data=Data,
    run=run,
    render=render,
    hints=Hints(destructive=True, idempotent=True),
)
