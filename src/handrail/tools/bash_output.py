"""BashOutput: the new output of a background command, or a list of all of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, TypedDict

from handrail.frozen import frozen
from handrail.shell.runner.jobs import Job
from handrail.tools.arguments import Field
from handrail.tools.notes import JobMore
from handrail.tools.tool import Arguments, Context, Hints, Outcome, Templates, Tool

_PAUSE = 0.05


class Args(Arguments):
    job: Annotated[str | None, Field(description="The job")] = None
    filter: Annotated[str | None, Field(description="Only lines that match this regex")] = None
    all: Annotated[bool, Field(description="From the beginning")] = False
    wait: Annotated[float, Field(ge=0, le=60, description="Seconds to wait for its end")] = 0


@frozen
class Limits:
    """Limits that a dialect may set."""

    head_chars: int = 5_000
    tail_chars: int = 15_000


@frozen
class JobState:
    """A background command and its state."""

    job: str
    command: str
    running: bool
    ended: bool
    exit_code: int | None
    signal: str | None
    timed_out: bool
    log: str


@frozen
class OutputFacts(JobState):
    """New output of one job."""

    head: str | None
    tail: str | None
    left_lines: int | None
    left_bytes: int | None
    matched: int | None


@frozen
class JobsFacts:
    """All jobs of the session."""

    jobs: Sequence[JobState]


Facts = OutputFacts | JobsFacts


class JobData(TypedDict):
    job: str
    command: str
    running: bool
    exit_code: int | None
    signal: str | None
    timed_out: bool
    log: str


class OutputData(JobData):
    truncated: bool
    matched: int | None
    output: str


class Data(OutputData, total=False):
    jobs: list[JobData]


def run(args: Args, ctx: Context[Limits]) -> Outcome[Facts]:
    limits, command_host = ctx.limits, ctx.command.host
    if args.job is None:
        jobs = [_state(job, command_host.logs.get_name(job.run.order.log)) for job in command_host.jobs.list()]
        return Outcome("jobs" if jobs else "none", JobsFacts(jobs), {"jobs": [_build_data(job) for job in jobs]})
    job = command_host.jobs.get(args.job)
    until = time.monotonic() + args.wait
    while job.running and time.monotonic() < until and not (ctx.cancel and ctx.cancel.is_set()):
        time.sleep(_PAUSE)
    reading = command_host.jobs.read(args.job, limits.head_chars, limits.tail_chars, args.filter, args.all)
    state, view = _state(job, command_host.logs.get_name(job.run.order.log)), reading.view
    facts = OutputFacts(
        **_build_data(state),
        ended=state.ended,
        head=view.head.rstrip("\n") or None,
        tail=view.tail.rstrip("\n") or None,
        left_lines=view.omitted_lines if view.truncated else None,
        left_bytes=view.omitted_bytes or None,
        matched=reading.matched,
    )
    data: OutputData = {
        **_build_data(state),
        "truncated": view.truncated,
        "matched": reading.matched,
        "output": view.text(),
    }
    return Outcome("output", facts, data, (JobMore(job=job.id),) if reading.more else ())


def _state(job: Job, log: str) -> JobState:
    ended = job.ended
    return JobState(
        job=job.id,
        command=job.run.order.command,
        running=job.running,
        ended=not job.running,
        exit_code=ended.exit_code if ended else None,
        signal=ended.signal or None if ended else None,
        timed_out=ended.timed_out if ended else False,
        log=log,
    )


def _build_data(state: JobState) -> JobData:
    return {
        "job": state.job,
        "command": state.command,
        "running": state.running,
        "exit_code": state.exit_code,
        "signal": state.signal,
        "timed_out": state.timed_out,
        "log": state.log,
    }


def render(outcome: Outcome[Facts], templates: Templates) -> str:
    facts = outcome.facts
    if isinstance(facts, OutputFacts):
        return templates.fill(f"bash_output.{outcome.kind}", facts, exit_code=_format_code(facts))
    rows = [templates.fill("bash_output.job", job, exit_code=_format_code(job)) for job in facts.jobs]
    return templates.fill(f"bash_output.{outcome.kind}", facts, rows="\n".join(rows))


def _format_code(state: JobState) -> str | None:
    """The exit code as text, because a 0 would count as absent in a template."""
    return None if state.exit_code is None else str(state.exit_code)


TOOL = Tool(
    id="bash_output",
    args=Args,
    limits=Limits,
    facts=Facts,
    data=Data,
    run=run,
    render=render,
    hints=Hints(read_only=True),
    rendered=("rows",),
    rows={"job": JobState},
)
